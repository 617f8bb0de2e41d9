"""Commands that install what an optional part needs."""

from __future__ import annotations

import re
import shutil
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from shlex import quote

_OF_EXTRA = re.compile(r"\s*([^;]+?)\s*;\s*extra\s*==\s*[\"']([a-z]+)[\"']\s*")


def pip() -> str:
    """The pip of this Python, as the user's shell finds it: in an environment that is not activated, ``pip`` is
    another's, or refuses."""
    python = Path(sys.executable)
    own, first = python.with_name("pip"), shutil.which("pip")
    if first and Path(first).parent == own.parent:
        return "pip"
    if not own.exists():
        return f"{quote(str(python))} -m pip"
    with suppress(OSError):  # the working directory may be gone
        if own.is_relative_to(Path.cwd()):
            own = own.relative_to(Path.cwd())
    return quote(str(own))


def install_of(package: str) -> str:
    """The command that installs the Python package ``package``, which some code imports and which is not there."""
    needs = map(_OF_EXTRA.fullmatch, _requirements())
    extra = next((match[2] for match in needs if match and _named(match[1]) == package), None)
    return install(extra) if extra else f"{pip()} install {package}, if that is its name on the index"


def _named(requirement: str) -> str:
    """The package of a requirement, without versions and extras."""
    return re.split(r"[^A-Za-z0-9_.-]", requirement.strip(), maxsplit=1)[0]


def _requirements() -> list[str]:
    """Requirements of testbed; none in a checkout that was not installed."""
    try:
        return requires("testbed") or []
    except PackageNotFoundError:
        return []


def install(extra: str) -> str:
    """The command that installs the packages of an extra of ``pyproject.toml``.

    It names these packages, and not testbed with the extra: pip would look for a package called testbed on its index,
    and whatever it finds there need not be ours.

    Raises:
        ValueError: there is no such extra.
    """
    try:
        matches = map(_OF_EXTRA.fullmatch, requires("testbed") or ())
    except PackageNotFoundError:  # a checkout that was not installed: its pyproject.toml is in the working directory
        return f"{pip()} install -e '.[{extra}]', in the checkout of testbed"
    needs = [match[1].replace(" ", "") for match in matches if match and match[2] == extra]
    if not needs:
        raise ValueError(f"there is no extra {extra}")
    return f"{pip()} install {' '.join(map(quote, needs))}"
