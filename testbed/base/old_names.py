"""Import names that three packages had before they became packages of ``testbed``.

Files of users may still import them. Python then says that there is no such module, unless the user has one of that
name. The functions here say instead what it is called now.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

NEW = {name: f"testbed.{name}" for name in ("topologies", "workloads", "analysis")}
"""New names by old name."""
_PLACE = re.compile(r'.*\bFile "(?P<file>[^"]+)", line (?P<line>\d+)')
_MISSING = re.compile(rf".*ModuleNotFoundError: No module named '(?P<name>{'|'.join(NEW)})'")


class OldImport(NamedTuple):
    """A line of a user's file that imports an old name."""

    name: str
    file: str
    line: int

    @property
    def problem(self) -> str:
        """Say what is wrong, as the end of a sentence."""
        return f"{self.file} imports {self.name!r}, which is called {NEW[self.name]!r} now"

    @property
    def fix(self) -> str:
        """Say what to change."""
        return f"write {NEW[self.name]} in place of {self.name} in line {self.line} of {self.file}"


def in_error(error: BaseException) -> OldImport | None:
    """Find the import that an exception is about; None for all other exceptions."""
    if not isinstance(error, ModuleNotFoundError) or error.name not in NEW:
        return None
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "importlib" not in one.filename]
    return OldImport(error.name, _short(frames[-1].filename), frames[-1].lineno or 0) if frames else None


def in_log(lines: Sequence[str]) -> OldImport | None:
    """Find the import that the last traceback in a log is about; None where there is none, or it is about something
    else."""
    for end in reversed(range(len(lines))):
        if missing := _MISSING.fullmatch(lines[end]):
            places = filter(None, map(_PLACE.match, reversed(lines[:end])))
            place = next((one for one in places if "importlib" not in one["file"]), None)
            return OldImport(missing["name"], place["file"], int(place["line"])) if place else None
    return None


def _short(file: str) -> str:
    """Shorten a path that is below the current directory."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file
