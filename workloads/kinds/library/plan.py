"""Mark of a forest that a library runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from testbed.workloads.sync.forest import Forest


@dataclass(frozen=True)
class Library:
    """The library that synchronises in place of our engine; the forest is then what the library is measured against.

    Attributes:
        name: ``gloo`` or ``openmpi``.
        algorithm: which of the library's own.
        segment_bytes: where the algorithm cuts; 0 leaves it to the library.
        exact: the library moves just the forest's bytes; else the forest is only the cheapest that is known.
        polls: it keeps its core busy while it waits, so idle time tells nothing.
    """

    kind: ClassVar[str] = "library"
    name: Literal["gloo", "openmpi"]
    algorithm: str
    segment_bytes: int
    exact: bool
    polls: bool


def library_of(forest: Forest) -> Library:
    """Return the library that runs a forest."""
    assert isinstance(forest.run_by, Library)
    return forest.run_by
