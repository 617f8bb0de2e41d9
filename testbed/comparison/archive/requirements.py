"""The versions of Python packages with which a run was made, as pip reads them.

Where the versions of a clone's lock file are those of the run, that is the file, with a hash of each package. Elsewhere
there are versions alone. Testbed itself is never in it: no index of packages has it, or the one that it has is a
stranger's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOCK = Path("requirements", "run.txt")
"""Relative to a clone."""
PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)", re.M)
OURS = {"testbed"}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,99}")
HEAD = """\
# The Python packages with which the run was made. Testbed itself is not among them: see README.md.
"""
WITH_HASHES = "# They are those of testbed's lock file, and PyTorch, {torch}, which set-up installs.\n"


def text(environment: Mapping[str, Any], clone: Path | None = None) -> str:
    """A file for ``pip install --requirement``.

    Args:
        environment: the run's.
        clone: the folder of testbed's source; by default that of what runs.
    """
    packages = _packages(environment)
    lock = (clone or Path(__file__).parents[3]) / LOCK
    locked = lock.read_text() if lock.is_file() else ""
    if locked and _same(locked, packages):
        return HEAD + WITH_HASHES.format(torch=packages.get("torch", "as installed")) + locked
    return HEAD + "".join(f"{name}=={version}\n" for name, version in sorted(packages.items()))


def _packages(environment: Mapping[str, Any]) -> dict[str, str]:
    """Versions by name. Of a run that was merged from parts with different packages, those of the first part."""
    packages = environment.get("packages")
    if not packages:
        packages = next((part.get("packages") for part in (environment.get("parts") or {}).values()), None) or {}
    each = {_plain(str(name)): str(version) for name, version in packages.items()}
    return {
        name: version
        for name, version in each.items()
        if name not in OURS and NAME.fullmatch(name) and VERSION.fullmatch(version)
    }


def _same(locked: str, packages: Mapping[str, str]) -> bool:
    """Whether every locked package that the run had has the locked version. One package may have a line for each
    version of Python."""
    versions: dict[str, set[str]] = {}
    for pin in PINNED.finditer(locked):
        versions.setdefault(_plain(pin["name"]), set()).add(pin["version"])
    return bool(versions) and all(packages.get(name) in {*of, None} for name, of in versions.items())


def _plain(name: str) -> str:
    """Write a package's name as pip compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()
