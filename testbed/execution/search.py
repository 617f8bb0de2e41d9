"""Search for a command's program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.base.errors import SpecError


def search_path() -> str:
    """Return the path on which a command's program is looked for: beside the Python that runs testbed first, so
    ``python`` is that one."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def check(words: Sequence[str], folder: Path) -> None:
    """
    Raises:
        SpecError: there is no such program.
    """
    program = words[0]
    found = shutil.which(str(folder / program)) if os.sep in program else shutil.which(program, path=search_path())
    if found is None:
        raise SpecError(
            f"there is no program {program!r} to run" + (f" in {folder}" if os.sep in program else " on PATH"),
            fix="correct its name, or start a script with its interpreter, such as python train.py",
        )
