"""Look-up of a name that a user gave: the thing, or an error that says which names there are and which was probably
meant."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from testbed.base.errors import SpecError

T = TypeVar("T")


def lookup(kind: str, name: str, known: Mapping[str, T]) -> T:
    """Return the entry called ``name``; ``kind`` ("model", "dataset") is what the error calls it.

    Raises:
        SpecError: there is none of that name.
    """
    if name in known:
        return known[name]
    nearest = get_close_matches(name, known, n=1, cutoff=0.5)
    listed, problem = ", ".join(sorted(known)), f"unknown {kind} {name!r}"
    if nearest:
        raise SpecError(f"{problem}; there is {listed}", fix=f"did you mean {nearest[0]!r}?")
    raise SpecError(problem, fix=f"use one of: {listed}")
