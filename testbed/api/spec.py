"""A spec as Python gives it, a file or a dict, and changes to it: as the command line takes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from testbed.base.errors import OutputError, SpecError, TestbedError

Spec: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]


@contextmanager
def words_of(spec: Spec, changes: Mapping[str, object] | None) -> Iterator[list[str]]:
    """Make the words of a command line that name a spec and its changes, at their end; a dict is in a file meanwhile.

    Raises:
        SpecError: YAML has no word for a value, or a dict has no name.
        OutputError: the file cannot be written.
    """
    options = [f"--set={change(key, value)}" for key, value in (changes or {}).items()]
    if isinstance(spec, Mapping):
        if "name" not in spec and "name" not in (changes or {}):  # and it has no file whose name it could have
            raise SpecError("the dict: name: missing", fix="add it, such as name: quickstart")
        with _written(_yaml("the dict", dict(spec))) as path:
            yield [*options, "--", path]
    else:
        yield [*options, "--", os.fspath(spec)]


@contextmanager
def _written(text: str) -> Iterator[str]:
    """Write a spec into a file in the current directory, from which relative paths in it start; errors do not name
    it."""
    try:
        file = tempfile.NamedTemporaryFile(  # noqa: SIM115  # closed below
            "w", encoding="utf-8", dir=Path.cwd(), prefix="spec-", suffix=".yaml"
        )
    except OSError as error:
        raise OutputError(
            f"{Path.cwd()}: a dict is written into a file here, and cannot be: {(error.strerror or '').lower()}",
            fix="change to a directory that you may write to, or give a file",
        ) from None
    with file:
        file.write(text)
        file.flush()
        try:
            yield file.name
        except TestbedError as error:
            problem = error.problem.replace(file.name, "the dict").replace(Path(file.name).name, "the dict")
            raise type(error)(problem, fix=error.fix) from None


def change(key: str, value: object) -> str:
    """Write a change as after ``--set``: text is YAML already.

    Raises:
        SpecError: YAML has no word for the value.
    """
    return f"{key}={value if isinstance(value, str) else _yaml(f'set: {key}', [value], in_a_line=True)[1:-1]}"


class _Dumper(yaml.SafeDumper):
    """Dumper that writes the same list twice where it is there twice: specs have no aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _yaml(name: str, value: object, *, in_a_line: bool = False) -> str:
    """
    Raises:
        SpecError: there is none for it.
    """
    try:
        text: str = yaml.dump(
            value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6, default_flow_style=in_a_line
        )
    except (yaml.YAMLError, RecursionError) as error:
        reason = "it contains itself" if isinstance(error, RecursionError) else str(error)
        raise SpecError(
            f"{name}: cannot be written as YAML: {reason}", fix="use text, numbers, True, False, None, lists and dicts"
        ) from None
    return text.rstrip("\n")
