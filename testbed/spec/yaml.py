"""Strict reader of YAML: no tags, duplicate keys, aliases, huge numbers or huge files; errors name the line.

``--set key=value`` changes the settings that it has read.
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

import yaml

from testbed.base.errors import SpecError, UsageError

WRITES_ONE = "testbed new writes a spec to begin with"
A_SPEC = f"give the path of a spec; {WRITES_ONE}"
LIMIT_BYTES = 1 << 16
"""The most bytes of a spec: forty times the longest of our experiments; parsing so much takes up to a second."""
LARGEST = 2**63
"""The largest number. No setting is as large, and text of a larger number can be too long for Python to write."""
_EXPRESSION = re.compile(r"""(?<!["'\w])[A-Za-z_./][\w./:-]*\([^()"']*\)""")
"""Pattern of a topology or scheme that is not in quotes."""
MISTAKES = {
    r"found character '\\t'": ("a tab, where YAML takes only spaces", "write spaces in its place"),
    "found character": (None, "put the text into quotes"),
    "expected <block end>.*<block mapping": (
        "indented unlike the lines above",
        "indent all keys of a group alike, and deeper than the key above them",
    ),
    r"expected <block end>.*('-'|'\?'|<block sequence start>)": (
        "list entries (-) and keys are mixed, or indented unlike each other",
        "indent the entries of a list alike, below their key",
    ),
    "expected <block end>|expected '<document start>'": (
        "goes on after the end of a value",
        "put the whole value into quotes, or begin a new line",
    ),
    "mapping values are not allowed": (
        "a ':' that begins no value: the line is indented otherwise, or is text",
        "indent it like the keys beside it, or put the text into quotes",
    ),
    "expected ',' or": (None, "put commas between entries, and close each bracket"),
    "expected the node content": (None, "close each bracket, and give each key a value"),
    "could not find expected ':'": ("a key without ':'", "write it as key: value"),
    "found unexpected end of stream": ("a quote that nothing closes", "close it"),
    "but found another document": ("--- begins a second document", "write one spec a file"),
    ".* is given twice": (None, "remove one of them"),
}
"""Patterns of what PyYAML says, what is told in its place (``None``: the same), and the fix."""
PIPE_S = 5.0
"""Seconds to wait for a pipe: a spec may come through one, from a program that is quicker than this."""


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses what silently loses or multiplies content."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem=f"the alias *{event.anchor} is not allowed", problem_mark=event.start_mark
            )
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if event.tag is not None:
            tag = str(event.tag).replace("tag:yaml.org,2002:", "!!")
            raise yaml.MarkedYAMLError(problem=f"the tag {tag} is not allowed", problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        value = int(super().construct_yaml_int(node))
        if abs(value) >= LARGEST:
            raise yaml.MarkedYAMLError(problem="a number that no setting can have", problem_mark=node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if node.flow_style and isinstance(key, str) and key.count(")") > key.count("("):
                raise yaml.MarkedYAMLError(
                    problem=f"a comma inside {{...}} ends a value, so {key!r} is a key",
                    problem_mark=key_node.start_mark,
                )
            if isinstance(key, bool):
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key_node.value} means {str(key).lower()} in YAML",
                    problem_mark=key_node.start_mark,
                    note=f"quote it: '{key_node.value}'",
                )
            if not isinstance(key, str | int | float) or key != key:
                raise yaml.MarkedYAMLError(
                    problem=f"{key!r} cannot be a key: a key is a word or a number", problem_mark=key_node.start_mark
                )
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"{key!r} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
# YAML 1.1 reads 010 as 8, 1:30 as 90 and 1_0 as 10; nobody means that, and as text they are refused. = and << are text.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not re.search(":(int|value|merge)$", tag)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?(0|[1-9]\d*)$"), list("-+0123456789"))
# YAML 1.1 reads 1e-3 as text, because it has no dot; everybody means the number.
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


def read_text(path: Path, most_bytes: int = LIMIT_BYTES, wanted: str = A_SPEC) -> str:
    """Read the file's text; ``wanted`` says what to give in place of a file that cannot be read.

    Raises:
        SpecError: it is missing, unreadable, no text, or larger than ``most_bytes``, which no spec is.
    """
    try:
        content = _read(path, most_bytes)
        if len(content) > most_bytes:
            raise SpecError(f"{path}: a spec has at most {most_bytes:,} bytes", fix=wanted)
        return as_text(path, content)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        near = _near(path) if wanted == A_SPEC and isinstance(error, FileNotFoundError) else None
        raise SpecError(f"{path}: {reason}", fix=f"did you mean {near}?" if near else wanted) from None


def _near(path: Path) -> Path | None:
    """Find the YAML file beside a missing one whose name is nearest, without the ending."""
    with suppress(OSError):
        names = {each.stem: each for each in sorted(path.parent.glob("*.y*ml"))}
        for stem in get_close_matches(path.stem, names, n=1):
            return names[stem]
    return None


def as_text(path: Path, content: bytes) -> str:
    """Convert what a file holds to text.

    Raises:
        SpecError: it is not text.
    """
    try:
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{path}: not a text file ({error.reason} at byte {error.start})", fix="save it as UTF-8"
        ) from None


def _read(path: Path, most_bytes: int) -> bytes:
    """Read at most one byte more than a spec may have: it may be a device that never ends, or a pipe that nobody fills.

    Raises:
        SpecError: nothing came through the pipe for a while.
        OSError: it cannot be read.
    """
    content, deadline = b"", time.monotonic() + PIPE_S
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while len(content) <= most_bytes:
            if not select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise SpecError(f"{path}: no spec has come for {PIPE_S:g} s", fix="write it into a file")
            piece = os.read(file, most_bytes + 1 - len(content))
            if not piece:
                break
            content += piece
    finally:
        os.close(file)
    return content


def parse(text: str, name: str) -> dict[object, object]:
    """Parse the mapping that ``text`` holds; ``name`` is what errors call it.

    Raises:
        SpecError: the text is not YAML, not a mapping, or has duplicate keys, aliases or tags.
    """
    try:
        loaded = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        said = error.problem or error.context or ""
        begins_before = re.match("could not find expected ':'|found unexpected end of stream", said)
        mark = (error.context_mark if begins_before else None) or error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        known = next(
            (known for pattern, known in MISTAKES.items() if re.match(pattern, said)), (None, "correct that line")
        )
        fix = error.note or (_quoted(text.split("\n")[mark.line]) if mark else None) or known[1]
        raise SpecError(f"{name}:{line}: {known[0] or said}{_opened(error)}", fix=fix) from None
    except yaml.YAMLError as error:
        raise SpecError(f"{name}: {error}".splitlines()[0], fix="save it as plain UTF-8 text") from None
    except ValueError as error:  # such as the 32nd of a month, which YAML takes for a date
        raise SpecError(f"{name}: a value cannot be read: {error}", fix="put text into quotes") from None
    except RecursionError:
        raise SpecError(f"{name}: nested too deeply", fix="write it with a few levels") from None
    if not isinstance(loaded, dict):
        what = "nothing" if loaded is None else "a list" if isinstance(loaded, list) else "a single value"
        raise SpecError(f"{name}: holds {what}, not keys and values", fix=WRITES_ONE)
    return loaded


def _opened(error: yaml.MarkedYAMLError) -> str:
    """Name the line of the bracket in which a mistake is, if that is another line."""
    begun, at = error.context_mark, error.problem_mark
    if not (begun and at and str(error.context).startswith("while parsing a flow") and begun.line < at.line):
        return ""
    return f", as the bracket that line {begun.line + 1} opens is not closed"


def word_at(text: str, path: Sequence[str | int]) -> str | None:
    """Return the word that is written at a path in YAML text that can be parsed; None where there is no single word.

    One group may stand for a list of it: ``perturb.0.name`` is then at ``perturb.name``.
    """
    node = _composed(text)
    for key in path:
        if isinstance(node, yaml.MappingNode):
            at_key = (value for name, value in node.value if name.value == str(key))
            node = next(at_key, node if key == 0 else None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
        else:
            return None
    return node.value if isinstance(node, yaml.ScalarNode) else None


@lru_cache(maxsize=2)
def _composed(text: str) -> yaml.Node | None:
    """Parse YAML text once, however many words of it are asked for: a spec may have thousands of mistakes."""
    return yaml.compose(text, _Loader)


def _quoted(line: str) -> str | None:
    """Advise to put an expression into quotes, if the line has one that YAML reads as something else inside of
    ``{...}``."""
    found = [one[0] for one in _EXPRESSION.finditer(line) if set(one[0]) & set("[]{},")] if "{" in line else []
    return f'put it into quotes: "{found[0]}"' if found else None


def parse_value(text: str, name: str) -> object:
    """Parse one YAML value, as in ``--set key=value``.

    Raises:
        SpecError: the text is not a YAML value.
    """
    return parse(f"value: {text}" if "\n" not in text else f"value: {text!r}", name)["value"]


Key = str | int
LONGEST_CHANGES = 10_000
"""The most characters of all changes: a run's ``spec.yaml`` repeats them."""
EXAMPLE = "--set workload.iterations=5 or --set arms.0.scheme=ring"


def override(settings: dict[object, object], overrides: Sequence[str]) -> dict[tuple[Key, ...], str]:
    """Change ``settings`` in place; return the values as they are written, by the paths that were set, so that an error
    can say where a value came from.

    A key that the spec does not know is set too, and refused with every other unknown key when the spec is checked.

    Raises:
        UsageError: an override is not ``key=value``, or all are longer than a spec.
        SpecError: its path leads through a value that has no keys, or past a list's end.
    """
    if sum(map(len, overrides)) > LONGEST_CHANGES:
        raise UsageError(f"--set has more than {LONGEST_CHANGES:,} characters in all", fix="write that into the spec")
    return {_apply_one(settings, override): override.partition("=")[2] for override in overrides}


def _apply_one(settings: dict[object, object], override: str) -> tuple[Key, ...]:
    dotted, equals, value = override.partition("=")
    if not equals or not all(dotted.split(".")):
        raise UsageError(f"--set {override}: not key=value", fix=f"write it as {EXAMPLE}")
    if "[" in dotted:
        named = re.sub(r"\[(.*?)\]", r".\1", dotted)
        raise UsageError(f"--set {override}: an entry of a list follows a dot", fix=f"write --set {named}={value}")
    path: list[Key] = []
    place: object = settings
    *parents, last = dotted.split(".")
    for step in parents:
        key = _key(place, step, override, path)
        path.append(key)
        if isinstance(place, dict):
            place = place.setdefault(key, {})
        elif isinstance(place, list) and isinstance(key, int):
            place = place[key]
    key = _key(place, last, override, path)
    path.append(key)
    place[key] = parse_value(value, f"--set {dotted}")  # type: ignore[index]  # _key has checked that it has keys
    return tuple(path)


def _key(place: object, step: str, override: str, path: Sequence[Key]) -> Key:
    """Convert ``step`` to a key of ``place``: digits index a list, and match a number key such as a batch."""
    here = ".".join(str(key) for key in path)
    if isinstance(place, list):
        if not step.isdecimal() or int(step) >= len(place):
            raise SpecError(f"--set {override}: {here} has no entry {step!r}", fix=f"give 0 to {len(place) - 1}")
        return int(step)
    if not isinstance(place, dict):
        raise SpecError(f"--set {override}: {here} is {place!r}, which has no keys", fix=f"set {here} itself")
    return int(step) if step.isdecimal() else step
