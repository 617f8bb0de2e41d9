"""What a lab measures: round trips and rates of an idle network, what the kernel counts, and what it says of links."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counters:
    """What the kernel has counted at the egress of one directed link since the lab came up."""

    directed_link: int
    bytes: int
    packets: int
    drops: int


@dataclass(frozen=True)
class Reading:
    """What :meth:`testbed.lab.base.Lab.spot_check` has read: of how many directed links, what it took of a CPU, and
    what differs from what is asked for at that moment, a sentence each."""

    links: int
    cost_s: float
    differs: tuple[str, ...]


@dataclass(frozen=True)
class Way:
    """From an address of one node to an address of another: over one link, or between NICs of two hosts."""

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
    """As :attr:`testbed.lab.base.LinkSettings.datagram_bytes`: what links are to do must not slow the sender down."""


@dataclass(frozen=True)
class Calibration:
    """What an idle network does: of ``pings`` packets on each way the round trips (s) of those that came back, and the
    payload's rate of each burst."""

    pings: int
    round_trips_s: tuple[tuple[float, ...], ...]
    rates_bps: tuple[float, ...]
