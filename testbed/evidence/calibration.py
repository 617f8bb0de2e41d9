"""Calibration of an idle lab before a trial: round trips, and rates of links that hosts' bursts leave out.

Every NIC sends and receives a burst while all others do (:mod:`testbed.topologies.model`). That measures hosts' links,
and whether the machine carries all of them at once, but not each link between switches: a burst may be slower than
those, or take one of several. Such a link is measured for itself, from the address at one end to the address at the
other. A link to a switch that bridges has no address at that end; it leads to a host, whose burst measures it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from testbed.base.errors import LabError
from testbed.lab.base import Lab, LinkSettings
from testbed.lab.measurements import Burst, Way
from testbed.topologies.addressing import Addresses, plan
from testbed.topologies.model import Burst as HostBurst
from testbed.topologies.model import Topology
from testbed.trial.job_files import LONGEST_PROBE_S, slow_start_s
from testbed.workloads.bursts.arrivals import SETTLE

BURST_S = 0.3
"""Seconds of a burst. Links are measured a few at a time, so it is short; ten slices of its window are 20 ms each."""
BURST_BITS = 10_000_000
"""Bits of a burst that would last less than a host's does: at 10 Mbit/s, 0.5 s seemed to run at 0.98 to 1.05 of its
rate, 1 s at 1.00."""
LEAST_BITS = 5_000_000
"""The least bits of a burst over a slower link. It has no data of another burst in its acknowledgements' way."""

STRAYS = 1.2
"""Allowed stray of the median of 11 values: three of its standard deviations, in standard deviations of one value (1.25
/ sqrt(11))."""
OFF_S = 0.0005
OFF = 0.05
"""Most by which a round trip's median is off: so much, or this share of it where that is more. Round trips of an idle
lab took 0.03 to 0.13 ms."""
MOST_TIMES = 3
"""Times that a round trip is measured at most. A core that wakes up late makes it longer, never shorter: of 19 trials
whose links had delays without netem, three were off by up to 1.2 ms at the first time, and 0.2 ms is usual."""


@dataclass(frozen=True)
class Ping:
    """A round trip: its way, how long it should take at least and at most (s), for paths and jitter differ, and which
    share of packets should come back."""

    way: Way
    least_s: float
    most_s: float
    arrives: float


@dataclass(frozen=True)
class Plan:
    """Round trips between neighbours that together pass every link that can be measured, and bursts over links."""

    pings: tuple[Ping, ...]
    bursts: tuple[Burst, ...]


@dataclass(frozen=True)
class Calibrated:
    """Measurements of the idle network, as a trial's record holds them: see :func:`testbed.fidelity.delay` and
    ``link_rate``."""

    round_trips: list[dict[str, Any]]
    rates: list[dict[str, Any]]


def measure(topology: Topology, lab: Lab, settings: LinkSettings) -> Calibrated:
    """Calibrate a lab in which ``topology`` is up and nothing uses it.

    Raises:
        LabError: it could not be measured.
    """
    wanted = plan_of(topology, settings, at_switches=not lab.real_switches)
    names = [node.name for node in topology.nodes]
    found = lab.calibrate([ping.way for ping in wanted.pings], wanted.bursts)
    trips = [
        _trip(ping, names, times, found.pings) for ping, times in zip(wanted.pings, found.round_trips_s, strict=True)
    ]
    for _ in range(1, MOST_TIMES):
        late = [i for i, trip in enumerate(trips) if trip["most_s"] < _took_s(trip) < math.inf and off(trip) > 1]
        if not late:
            break
        again = lab.calibrate([wanted.pings[i].way for i in late], [])
        for i, times in zip(late, again.round_trips_s, strict=True):
            trips[i] = min(trips[i], _trip(wanted.pings[i], names, times, again.pings), key=_took_s)
    rates = [
        {
            **{"name": names[burst.way.dst], "port_address": burst.way.remote},
            **{"rate_bps": rate_bps, "asked_bps": burst.rate_bps},
        }
        for burst, rate_bps in zip(wanted.bursts, found.rates_bps, strict=True)
    ]
    return Calibrated(trips, [*rates, *lab.between_racks()])


def _trip(ping: Ping, names: Sequence[str], times_s: Sequence[float], sent: int) -> dict[str, Any]:
    return {
        **{"from": names[ping.way.src], "to": names[ping.way.dst], "least_s": ping.least_s, "most_s": ping.most_s},
        "median_s": median(times_s) if 2 * len(times_s) > sent * ping.arrives else None,
    }


def _took_s(trip: Mapping[str, Any]) -> float:
    return math.inf if trip["median_s"] is None else float(trip["median_s"])


def off(trip: Mapping[str, Any]) -> float:
    """Compute how far a round trip's median is from the delays of its way there and back, over what is allowed."""
    missed_s = max(trip["least_s"] - trip["median_s"], trip["median_s"] - trip["most_s"], 0.0)
    return float(missed_s / max(OFF_S, OFF * trip["most_s"]))


def differs(lab: Lab) -> str | None:
    """Describe what the kernel now has otherwise than asked for; None if nothing."""
    try:
        lab.verify()
    except LabError as error:
        return error.problem
    return None


def plan_of(topology: Topology, settings: LinkSettings, *, at_switches: bool = True) -> Plan:
    """Plan what to measure on ``topology``, whose links jitter and lose packets as ``settings`` say; whether it can be
    done ``at_switches``, or from hosts only."""
    addresses = plan(topology)
    seen = measured(topology)
    both_ways = range(2 * len(topology.links))
    one_way_first = *both_ways[::2], *both_ways[1::2]  # no link is to carry bursts both ways at once
    alone = [
        link
        for link in one_way_first
        if at_switches and link not in seen and _has_address(addresses, link) and _has_address(addresses, link ^ 1)
    ]
    between = [
        (Way(one.src, one.dst, *addresses.flow(one.src, one.dst, one.connection)), one) for one in topology.bursts
    ]
    pings = [_ping(way, _delays_s(topology, one), settings) for way, one in between]
    for link in alone:
        if link % 2 == 0 or link ^ 1 not in alone:
            delays_s = [2 * [topology.links[link // 2].delay_s]]
            pings.append(_ping(_way(topology, addresses, link), delays_s, settings))
    return Plan(tuple(pings), tuple(_burst(topology, addresses, link, settings) for link in alone))


def measured(topology: Topology) -> set[int]:
    """Find the directed links whose own rate a host's burst shows: it takes them for certain, and passes none
    slower."""
    found: set[int] = set()
    for burst in topology.bursts:
        rate_bps = burst.rate_bps(topology)
        common = set.intersection(*(set(path.links) for path in burst.paths(topology)))
        found.update(link for link in common if topology.links[link // 2].rate_bps == rate_bps)
    return found


def _has_address(addresses: Addresses, link: int) -> bool:
    """Whether the port that a directed link leaves from has an address."""
    port = addresses.topology.tail(link), addresses.topology.port_at_tail(link)
    return port in addresses.host or port in addresses.port


def _way(topology: Topology, addresses: Addresses, link: int) -> Way:
    src, dst = topology.tail(link), topology.head(link)
    ends = addresses.of(src, topology.port_at_tail(link)), addresses.of(dst, topology.port_at_tail(link ^ 1))
    return Way(src, dst, *ends)


def _delays_s(topology: Topology, burst: HostBurst) -> list[list[float]]:
    """Delays of the links of each way there and back between two hosts (s)."""
    there, back = burst.paths(topology), topology.connections(burst.dst, burst.src)[burst.connection]
    return [[topology.links[link // 2].delay_s for link in (*a.links, *b.links)] for a in there for b in back]


def _ping(way: Way, delays_s: Sequence[Sequence[float]], settings: LinkSettings) -> Ping:
    """Plan a round trip. The median of a few packets strays from the sum of the delays by the jitter of all links over
    their number."""
    links = max(map(len, delays_s))
    strays_s = STRAYS * settings.jitter_s * math.sqrt(links)
    least_s, most_s = min(map(sum, delays_s)) - strays_s, max(map(sum, delays_s)) + strays_s
    return Ping(way, max(0.0, least_s), most_s, (1 - settings.loss) ** links)


def _burst(topology: Topology, addresses: Addresses, link: int, settings: LinkSettings) -> Burst:
    one = topology.links[link // 2]
    enough_s = max(min(LONGEST_PROBE_S, BURST_BITS / one.rate_bps), LEAST_BITS / one.rate_bps)
    duration_s = max(BURST_S, enough_s, slow_start_s(one.rate_bps, 2 * one.delay_s) / SETTLE)
    arrives_bps = round(one.rate_bps * (1 - settings.loss))
    return Burst(_way(topology, addresses, link), arrives_bps, duration_s, settings.datagram_bytes)
