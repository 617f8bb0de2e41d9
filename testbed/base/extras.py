"""How to install what an optional part needs."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from shlex import quote

_OF_EXTRA = re.compile(r"\s*([^;]+?)\s*;\s*extra\s*==\s*[\"']([a-z]+)[\"']\s*")


@cache
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
        return f"pip install -e '.[{extra}]', in the checkout of testbed"
    needs = [match[1].replace(" ", "") for match in matches if match and match[2] == extra]
    if not needs:
        raise ValueError(f"there is no extra {extra}")
    return f"pip install {' '.join(map(quote, needs))}"
