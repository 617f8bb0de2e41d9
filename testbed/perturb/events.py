"""Events that the conductor carries out while a trial runs, as data, and the processes that wait for them."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from testbed.lab.base import Impairment, LinkChange
from testbed.perturb.moments import Moment
from testbed.topologies.model import Topology
from testbed.topologies.topoopt.reconfigure import Discount

START_SIGNAL, STOP_SIGNAL = signal.SIGUSR1, signal.SIGUSR2
"""Signals at which a helper begins and ends its work, again and again."""


@dataclass(frozen=True)
class Helper:
    """A process that waits beside the workers until a perturbation wants it: ``python -m MODULE ARGUMENTS...``.

    One that ``sends_to`` another node says at its end how many bytes it sent there, over so many ``connections``, each
    at ``rate_bps`` (without headers), or as fast as TCP lets it if that is 0.
    """

    name: str
    node: int
    module: str
    arguments: tuple[str, ...] = ()
    sends_to: int | None = None
    connections: int = 1
    rate_bps: int = 0


@dataclass(frozen=True)
class Signals:
    """A signal to a node (everything on it) or a process, or to one helper; each by its name."""

    number: signal.Signals
    target: str | None = None
    helper: str | None = None


class Move(Protocol):
    """A move of circuits."""

    @property
    def words(self) -> str:
        """Text for a reader that says what moves."""

    @property
    def look_ahead(self) -> bool:
        """Whether only panels that look ahead are patched, and nothing that carries light is touched."""

    def moved(self, topology: Topology) -> Topology:
        """The network after it."""

    def dark_s(self, topology: Topology) -> float:
        """Seconds for which circuits that move are dark."""


@dataclass(frozen=True)
class Reconfiguration:
    """Circuits that move within iterations, see :mod:`testbed.control.reconfiguring`.

    Attributes:
        every_s: between two looks at what is unsent.
        dark_s: for how long moving circuits are dark.
        discount: what further circuits between two servers are worth.
    """

    every_s: float
    dark_s: float
    discount: Discount


@dataclass(frozen=True)
class Event:
    """Changes that belong together, at one moment; ``what`` says it to a reader."""

    at: Moment
    kind: str
    what: str
    links: tuple[LinkChange, ...] = ()
    impairments: Mapping[int, Impairment] = field(default_factory=dict)
    """Impairments by directed link."""
    signals: tuple[Signals, ...] = ()
    move: Move | None = None
    kills: tuple[str, ...] = ()
    """Nodes and processes that are killed."""
    stops: tuple[str, ...] = ()
    """Nodes that stand still."""
    halts: str = ""
    """Text that says what stands still from then on, and lets the others wait: ``h2 frozen``."""
    resumes: str = ""
    """Text of the event whose halt ends."""
    optional: bool = False
    """Whether nothing is missed if the trial ends first."""


def halting(events: Sequence[Event]) -> list[Event]:
    """Mark events: the first makes something stand still, until the second, if there is one."""
    begin, *end = events
    return [replace(begin, halts=begin.what), *(replace(event, resumes=begin.what) for event in end)]


def helped(events: Sequence[Event], helpers: Sequence[Helper]) -> list[Event]:
    """Add signals to events: the first makes helpers begin their work, and the second, if there is one, end it."""
    begin, *end = events
    start, stop = (
        tuple(Signals(number, helper=helper.name) for helper in helpers) for number in (START_SIGNAL, STOP_SIGNAL)
    )
    return [replace(begin, signals=start), *(replace(event, signals=stop) for event in end)]


def blocking(links: Sequence[int], blocked: bool) -> list[LinkChange]:
    """Let directed links carry nothing, or carry again."""
    return [LinkChange(link, blocked=blocked) for link in links]
