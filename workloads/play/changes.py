"""Changes of a network in simulated time, and timelines that say when they come."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from testbed.topologies.model import Topology


@dataclass(frozen=True)
class RateChange:
    """A new rate of a directed link, from a moment on; 0 blocks it."""

    at_s: float
    link: int
    rate_bps: float


@dataclass(frozen=True)
class DelayChange:
    """A new delay of a directed link, from a moment on, for messages that have not left the last link of their way."""

    at_s: float
    link: int
    delay_s: float


@dataclass(frozen=True)
class DarkChange:
    """A directed link that loses all that comes to it from a moment on, or no more."""

    at_s: float
    link: int
    is_dark: bool


@dataclass(frozen=True)
class FlowChange:
    """A flow (:class:`.links.Flow`, by its number) that begins to send, or ends."""

    at_s: float
    flow: int
    is_on: bool


@dataclass(frozen=True)
class PathChange:
    """Paths of another topology, from a moment on, for connections whose own path passes one of these links; None: for
    all connections. The links themselves stay."""

    at_s: float
    topology: Topology
    links: frozenset[int] | None = None


Change = RateChange | DelayChange | DarkChange | FlowChange | PathChange


class Timeline(Protocol):
    """Changes, as they come."""

    def next_s(self) -> float:
        """Return the moment of the next change; infinite where none is known of."""

    def take(self) -> Iterable[Change]:
        """Return the changes of that moment, which has come."""


class Planned:
    """A timeline of changes that are known beforehand."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._changes = deque(sorted(changes, key=lambda change: change.at_s))

    def next_s(self) -> float:
        return self._changes[0].at_s if self._changes else math.inf

    def take(self) -> Iterable[Change]:
        return (self._changes.popleft(),)
