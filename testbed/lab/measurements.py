"""Measurements of a lab: round trips and rates of an idle network, the kernel's counters, and readings of links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple


@dataclass(frozen=True)
class Counters:
    """The kernel's counts at the egress of one directed link since the lab came up."""

    directed_link: int
    bytes: int
    packets: int
    drops: int
    refused: int = 0
    """Packets among the drops for which the far end's core had no room. The queue of the link had room for them."""


@dataclass(frozen=True)
class Reading:
    """Outcome of one :meth:`testbed.lab.base.Lab.spot_check`: how many directed links were read, CPU time that it took
    (s), and a sentence for each thing that differs from what is asked for at that moment."""

    links: int
    cost_s: float
    differs: tuple[str, ...]


class Stream(NamedTuple):
    """One end of a TCP connection: its address, that of the other end, the ports of both, and the bytes of the frames
    that it has handed to the network and got from there, headers included."""

    local: str
    remote: str
    ports: tuple[int, int]
    sent_bytes: int
    received_bytes: int


class Passed(NamedTuple):
    """Bytes that have left at the egress of a directed link since the lab came up, and bytes that wait there."""

    directed_link: int
    left_bytes: int
    waiting_bytes: int


class Traffic(NamedTuple):
    """Bytes that links carry and the connections that they belong to, as one machine has counted both at one moment.

    Attributes:
        links: of that machine.
        streams: the ends there.
        at_s: when it was read, by that machine's clock (``time.monotonic``).
        took_s: what reading took.
    """

    links: tuple[Passed, ...]
    streams: tuple[Stream, ...]
    at_s: float
    took_s: float


class Waited(NamedTuple):
    """Queue at the egress of one directed link in a window of time, if any packet waited or was dropped.

    Attributes:
        start_s: when it begins (``time.monotonic``).
        window_s: how long it is, until the next one begins.
        most_bytes: the most that a reading has found.
        mean_bytes: the mean of its readings.
        full_share: share of its readings in which 90 % of the queue's limit or more was in use.
        drops: packets that found no room, since the reading before the window.
        marks: packets that a queue that marks has marked since then.
    """

    directed_link: int
    start_s: float
    window_s: float
    most_bytes: int
    mean_bytes: float
    full_share: float
    drops: int
    marks: int


@dataclass(frozen=True)
class Queues:
    """Result of :meth:`testbed.lab.base.Lab.queues`: windows by time, how many readings they are made of, CPU time of
    these (s), and why they ended early, if they did."""

    windows: tuple[Waited, ...]
    readings: int
    cost_s: float
    problem: str | None = None


@dataclass(frozen=True)
class Way:
    """A way from an address of one node to an address of another: over one link, or between NICs of two hosts."""

    src: int
    dst: int
    local: str
    remote: str


@dataclass(frozen=True)
class Burst:
    """A burst over a way at full speed, to see whether it carries ``rate_bps``."""

    way: Way
    rate_bps: int
    duration_s: float
    datagram_bytes: int | None = None
    """Bytes of datagrams in place of a stream, as :attr:`testbed.lab.base.LinkSettings.datagram_bytes`: what links are
    asked to do must not slow the sender down."""


@dataclass(frozen=True)
class Calibration:
    """Round trips and rates of an idle network: of ``pings`` packets on each way the round trips (s) of those that came
    back, and the payload's rate of each burst."""

    pings: int
    round_trips_s: tuple[tuple[float, ...], ...]
    rates_bps: tuple[float, ...]


@dataclass(frozen=True)
class Interruption:
    """A time in which a lab's network did not carry, though nobody had asked for that; moments (s) on
    ``time.monotonic``."""

    what: str
    begun_s: float
    done_s: float

    KIND: ClassVar = "interruption"
    """Kind of the event in a trial's record."""
