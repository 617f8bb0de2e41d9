"""Plugins of other packages: entry points of installed distributions.

A package that adds a kind of trial, for example, writes in its ``pyproject.toml``::

    [project.entry-points."testbed.kinds"]
    gossip = "my_package.gossip:KIND"

Its processes on the nodes find it the same way, so it must be installed where they run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import TypeVar, cast

from testbed.base import old_names
from testbed.base.errors import MissingToolError, UsageError

T = TypeVar("T")


@cache
def plugged(group: str) -> Mapping[str, object]:
    """Load what installed packages add to ``testbed.<group>``, by name.

    Raises:
        MissingToolError: one cannot be imported.
        UsageError: two have the same name.
    """
    found: dict[str, object] = {}
    for one in sorted(_installed(tuple(sys.path)).select(group=f"testbed.{group}"), key=lambda one: one.name):
        if one.name in found:
            raise _taken(group, one.name)
        found[one.name] = _loaded(one)
    return found


def with_plugged(group: str, built_in: Mapping[str, T]) -> dict[str, T]:
    """List what comes with testbed, in its order, and then what installed packages add.

    Raises:
        MissingToolError, UsageError: as :func:`plugged`; or a package takes the name of one that comes with testbed.
    """
    added = plugged(group)
    for name in added:
        if name in built_in:
            raise _taken(group, name)
    return {**built_in, **added}  # type: ignore[dict-item]  # what a package registers is taken at its word


@cache
def _installed(path: tuple[str, ...]) -> EntryPoints:
    """Find the entry points of all packages on ``path``, Python's own: to look for them takes 5 ms, so it is done
    once."""
    del path
    return cast(EntryPoints, entry_points())  # or what Python 3.11 has in their place, with the same select()


def _loaded(one: EntryPoint) -> object:
    try:
        return one.load()
    except (ImportError, AttributeError) as error:
        old = old_names.in_error(error)
        raise MissingToolError(
            f"the entry point {one.name} of {one.group} is {one.value}, which cannot be imported: "
            f"{old.problem if old else error}",
            fix=old.fix if old else "install or repair the package that adds it, or uninstall that package",
        ) from error


def _taken(group: str, name: str) -> UsageError:
    return UsageError(
        f"two packages add {name!r} to testbed.{group}", fix="uninstall one of them, or rename its entry point"
    )
