"""Leftovers of killed runs on this machine: each lab finds its own, by a mark of ownership and never by a name."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.lab.choice import place_of, places
from testbed.lab.place import Leftover


def find() -> tuple[list[Leftover], list[str]]:
    """Find what is left, and why a place could not be looked at.

    Raises:
        LabError: a place answers with an error.
    """
    looked = [place.leftovers() for place in places().values()]
    return [one for found, _ in looked for one in found], [reason for _, reasons in looked for reason in reasons]


def remove(found: Iterable[Leftover]) -> None:
    """Remove what was found.

    Raises:
        LabError: a place refuses.
    """
    for one in found:
        place_of(one.lab).remove(one)
