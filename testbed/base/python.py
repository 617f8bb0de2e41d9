"""Command lines that start Python.

Each has ``-P``. Without it, ``python -m`` and ``python -c`` put the current directory first on the path of imports. A
stranger's ``testbed/__init__.py`` there would then run with the rights of the user who typed the command.
"""

from __future__ import annotations

import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """The words that run a module with this Python, and import nothing from the current directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def code_command(code: str, *arguments: str) -> list[str]:
    """The words that run a piece of code with this Python, and import nothing from the current directory."""
    return [sys.executable, "-P", "-c", code, *arguments]
