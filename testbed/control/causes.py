"""Causes of failures that a traceback in a log leads to, where its last line does not say what to change."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NO_GPU = re.compile(
    r"Torch not compiled with CUDA enabled|No CUDA GPUs are available|Found no NVIDIA driver|cudaGetDeviceCount|"
    r"(?:no|No) CUDA-capable device|Attempting to deserialize object on a CUDA device"
)
_NO_PACKAGE = re.compile(r"No module named '(\w+)\.[\w.]+'; '\1' is not a package")
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)([\w.]*)'")
_LACKING = re.compile(
    r"(?:partially initialized )?module '(\w+)' has no attribute|"
    r"cannot import name '\w+' from (?:partially initialized module )?'(\w+)'"
)
_RANK = re.compile(r"^\[rank\d+\]: ")
"""Prefix that PyTorch gives each line of a traceback."""
_OURS = re.compile(r"testbed\.[\w.]+: ")
_INSTALLED = ("site-packages", "dist-packages", f"python{sys.version_info.major}.")
"""Parts of paths of files that are not the user's."""


class _Frame(NamedTuple):
    file: str
    line: int
    code: str


def raised(lines: Sequence[str]) -> tuple[str, str | None]:
    """Return the exception of a log's last traceback, and the fix that it names; empty where there is no traceback."""
    plain = [_RANK.sub("", line) for line in lines]
    begins = [i for i, line in enumerate(plain) if line.startswith("Traceback (most recent call last)")]
    after = plain[begins[-1] + 1 :] if begins else []
    said = next((i for i, line in enumerate(after) if line and not line[0].isspace()), None)
    if said is None:
        return "", None
    ours = _OURS.match(after[said])
    named = next((line.strip() for line in after[said + 1 :] if ours and line.startswith("  fix: ")), "")
    return after[said][ours.end() if ours else 0 :], named.removeprefix("fix: ") or None


def fix(lines: Sequence[str], lacks: Callable[[str], str]) -> str | None:
    """Say what to change after the failure that the last lines of a log tell of; None if they tell of no known one.
    ``lacks`` says how a missing module is added."""
    frames = [one for one in _frames(lines) if not any(part in one.file for part in _INSTALLED)]
    for line in reversed(lines):
        if _NO_GPU.search(line) and frames:
            last = frames[-1]
            return f"hosts have no GPU: change line {last.line} of {last.file}" + (
                f", {last.code}" if last.code else ""
            )
        if name := _hidden(line):
            folders = dict.fromkeys(Path(one.file).parent for one in frames)
            if hiding := next((path for one in folders if (path := one / f"{name}.py").is_file()), None):
                return f"{hiding} hides the module {name}: give it another name"
    if missing := _MISSING.match(raised(lines)[0]):
        if missing[1] == "testbed" and missing[2]:
            return "set testbed up again; if the module is still missing and is no name of your script's, report it"
        return f"{lacks(missing[1])}, or put your own {missing[1]}.py beside the script"
    return None


def _frames(lines: Sequence[str]) -> Iterator[_Frame]:
    for line, after in zip(lines, [*lines[1:], ""], strict=False):
        if found := _FRAME.match(line):
            yield _Frame(found["file"], int(found["line"]), "" if _FRAME.match(after) else after.strip())


def _hidden(line: str) -> str | None:
    """Name the module that lacks what it should have, as one does in whose place Python took another file."""
    if found := _NO_PACKAGE.search(line):
        return found[1]
    if found := _LACKING.search(line):
        name = found[1] or found[2]
        with suppress(ImportError, ValueError):
            if name in sys.stdlib_module_names or find_spec(name) is not None:
                return name
    return None
