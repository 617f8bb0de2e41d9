"""Search for a command's program."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.base.errors import SpecError

LAUNCHERS = ("torchrun", "accelerate")


def search_path() -> str:
    """Return the path on which a command's program is looked for: beside the Python that runs testbed first, so
    ``python`` is that one."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def check(words: Sequence[str], folder: Path, *, is_here: bool) -> None:
    """Check that a command's program is there, and its script, if hosts have the files of this machine (``is_here``).

    Raises:
        SpecError: there is no such program, or no such script.
    """
    program = words[0]
    found = shutil.which(str(folder / program)) if os.sep in program else shutil.which(program, path=search_path())
    if found is None:
        if program.startswith(os.sep):
            raise SpecError(f"there is no program {program!r}", fix="correct its path in command, or in python")
        raise SpecError(
            f"there is no program {program!r} to run" + (f" in {folder}" if os.sep in program else " on PATH"),
            fix="correct its name, or start a script with its interpreter, such as python train.py",
        )
    script = _script(words) if is_here else None
    if script is not None and not Path(script).is_absolute() and not (folder / script).exists():
        raise SpecError(f"the spec's folder has no {script}", fix="correct its name in command")


def _script(words: Sequence[str]) -> str | None:
    """Find the script that Python, or a launcher, is to run; None if it runs none, or a module."""
    if not re.fullmatch(r"python[0-9.]*", Path(words[0]).name):
        return next((word for word in words[1:] if word.endswith(".py")), None) if words[0] in LAUNCHERS else None
    left = iter(words[1:])
    for word in left:
        if word in ("-c", "-m", "-"):
            return None
        if not word.startswith("-"):
            return word
        if word in ("-W", "-X"):
            next(left, None)
    return None
