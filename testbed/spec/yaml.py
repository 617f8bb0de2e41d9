"""Reading YAML strictly: no tags that build objects, duplicate keys, aliases or huge files; errors name the line."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from testbed.errors import OutputError, SpecError

LIMIT_BYTES = 1 << 20
"""No experiment that a person writes comes near this."""


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses what silently loses or multiplies content."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem=f"the alias *{event.anchor} is not allowed", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float):
                raise yaml.MarkedYAMLError(
                    problem=f"{key!r} cannot be a key: a key is a word or a number", problem_mark=key_node.start_mark
                )
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key!r} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 reads 1e-3 as text, because it has no dot; everybody means the number.
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


def read_text(path: Path) -> str:
    """The file's text.

    Raises:
        OutputError: it is missing, unreadable, or larger than a spec can be.
        SpecError: it is not text.
    """
    try:
        with path.open("rb") as file:  # it may be a pipe, or a device that never ends
            content = file.read(LIMIT_BYTES + 1)
        if len(content) > LIMIT_BYTES:
            raise OutputError(f"{path}: a spec has at most {LIMIT_BYTES:,} bytes", fix="give the spec's file")
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{path}: not a text file ({error.reason} at byte {error.start})", fix="save it as UTF-8"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(
            f"{path}: {reason}", fix="give the path of a spec, such as experiments/quickstart.yaml"
        ) from None


def parse(text: str, name: str) -> dict[object, object]:
    """The mapping that ``text`` holds; ``name`` is what errors call it.

    Raises:
        SpecError: the text is not YAML, not a mapping, or has duplicate keys, aliases or tags.
    """
    try:
        loaded = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        raise SpecError(f"{name}:{line}: {error.problem or error.context}", fix="correct that line") from None
    except yaml.YAMLError as error:
        raise SpecError(f"{name}: {error}".splitlines()[0], fix="save it as plain UTF-8 text") from None
    except ValueError as error:  # such as the 32nd of a month, which YAML takes for a date
        raise SpecError(f"{name}: a value cannot be read: {error}", fix="put text into quotes") from None
    except RecursionError:
        raise SpecError(f"{name}: nested too deeply", fix="write it with a few levels") from None
    if not isinstance(loaded, dict):
        raise SpecError(
            f"{name}: holds {_kind(loaded)}, not keys and values", fix="start from experiments/quickstart.yaml"
        )
    return loaded


def parse_value(text: str, name: str) -> object:
    """One YAML value, as in ``--set key=value``.

    Raises:
        SpecError: the text is not a YAML value.
    """
    return parse(f"value: {text}" if "\n" not in text else f"value: {text!r}", name)["value"]


def _kind(value: object) -> str:
    return "nothing" if value is None else "a list" if isinstance(value, list) else "a single value"
