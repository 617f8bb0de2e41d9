"""The labs that there are: a folder each beside this module, and those that installed packages add (group
``testbed.labs``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING

from testbed.base.errors import UsageError
from testbed.base.plugins import with_plugged
from testbed.lab import BUILT_IN
from testbed.lab.place import DeclaredPlace, Leftover, Opening

if TYPE_CHECKING:
    from testbed.lab.base import Lab

DEFAULT = "netns"
"""The lab of a spec that names none. The capacity of this machine is measured in this lab, too."""


@cache
def built_in() -> Mapping[str, DeclaredPlace]:
    """The labs that come with testbed, by name; importing them imports none of what they are made of."""
    return {name: import_module(f"testbed.lab.{name}.place").PLACE for name in BUILT_IN}


def places() -> dict[str, DeclaredPlace]:
    """Return all labs by name.

    Raises:
        MissingToolError, UsageError: an installed package adds one that cannot be had, see
            :func:`testbed.base.plugins.plugged`; or its name is not that of its entry point.
    """
    found = with_plugged("labs", built_in())
    for name, place in found.items():
        if not isinstance(place, DeclaredPlace) or place.name != name:
            raise UsageError(
                f"the entry point {name} of testbed.labs is {place!r:.80}, not a DeclaredPlace of that name",
                fix="repair the package that adds it, or uninstall that package",
            )
    return found


def place_of(name: str) -> DeclaredPlace:
    """The lab of that name.

    Raises:
        UsageError: there is none.
    """
    known = places()
    if name not in known:
        raise UsageError(f"there is no lab {name!r}", fix=f"use one of: {', '.join(known)}")
    return known[name]


def opener(name: str, opening: Opening = Opening()) -> Callable[[], Lab]:  # noqa: B008  # frozen
    """Make a function that opens the lab of that name.

    Raises:
        UsageError: there is none. When it is called, what :meth:`testbed.lab.place.DeclaredPlace.open` raises.
    """
    return partial(place_of(name).open, opening)


def of_inventory(name: str | None) -> DeclaredPlace:
    """The lab that an inventory is for: that of this name, or the first that takes one.

    Raises:
        UsageError: that one takes none.
    """
    taking = [place for place in places().values() if place.takes_inventory]
    for place in taking:
        if name in (None, place.name):
            return place
    labs = " or ".join(place.name for place in taking)
    raise UsageError(f"--inventory is for the lab {labs}, not {name}", fix="leave one of the two out")


def find_leftovers() -> tuple[list[Leftover], list[str]]:
    """Find what is left, and why a place could not be looked at.

    Raises:
        LabError: a place answers with an error.
    """
    looked = [place.leftovers() for place in places().values()]
    return [one for found, _ in looked for one in found], [reason for _, reasons in looked for reason in reasons]


def remove_leftovers(found: Iterable[Leftover]) -> None:
    """Remove what was found.

    Raises:
        LabError: a place refuses.
    """
    for one in found:
        place_of(one.lab).remove(one)
