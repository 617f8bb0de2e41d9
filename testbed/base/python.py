"""Command lines that start Python.

Each has ``-P``. Without it, ``python -m`` and ``python -c`` put the current directory first on the path of imports. A
stranger's ``testbed/__init__.py`` there would then run with the rights of the user who typed the command.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path


def module_command(module: str, *arguments: str) -> list[str]:
    """The words that run a module with this Python, and import nothing from the current directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def code_command(code: str, *arguments: str) -> list[str]:
    """The words that run a piece of code with this Python, and import nothing from the current directory."""
    return [sys.executable, "-P", "-c", code, *arguments]


def search_path() -> list[str]:
    """Folders for ``PYTHONPATH``, with which another process of this Python imports this testbed: those of the
    caller's, and the folder that testbed is in only if it is not installed.

    That folder, the root of a clone, has more than the package ``testbed``. So it must not be where programs of users
    look for their modules.
    """
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return given if installed() else [str(PACKAGE.parent), *given]


PACKAGE = Path(__file__).parents[1]
"""The package ``testbed``."""


def installed() -> Path | None:
    """The package's folder, as this Python's installed packages lead to it; None if they lead to none or another."""
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    for finder in sys.meta_path:
        spec = finder.find_spec("testbed", folders)
        if spec and spec.origin:
            where = Path(spec.origin).parent
            return where if where.samefile(PACKAGE) else None
    return None
