"""Actors, which decide what nodes do while a network is played. They never ask for the time: they are told."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Send:
    """A message from one node to another; ``about`` comes back when it has arrived."""

    src: int
    dst: int
    count_bytes: float
    about: Hashable


@dataclass(frozen=True, slots=True)
class Compute:
    """Work that takes this long (s) and no network; ``about`` comes back at its end."""

    duration_s: float
    about: Hashable


@dataclass(frozen=True, slots=True)
class Tell:
    """News of a node for whoever plays."""

    node: int
    news: str


@dataclass(frozen=True, slots=True)
class End:
    """End of the play: computations that are still under way do not count."""


Deed: TypeAlias = Send | Compute | Tell | End


class Actor(Protocol):
    """The decisions of all nodes."""

    def begin(self, now_s: float) -> Iterable[Deed]:
        """Return what is done first."""
        ...

    def happened(self, event: Send | Compute, now_s: float) -> Iterable[Deed]:
        """Return what is done now that a message has arrived or a computation has ended."""
        ...
