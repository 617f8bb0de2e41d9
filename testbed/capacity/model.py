"""Model of this machine's capacity: from what was measured on a few networks to what it carries of any other.

Problem: each network stays certified up to some rate, and each up to another. Chosen: processor time is what runs
out. While gradients are on the wire it grows linearly with the bytes that processes send (copied twice, and added), the
large packets on each link (shaped, and handed on: :meth:`testbed.lab.base.LinkSettings.packet_bytes`), the chunks
(Python, once each) and the processes (each wakes up by itself). The prices of these are :data:`PRICES`, once and for
all: with them the processor time of 28 trials on two cores (five schemes on stars, BCubes and a fat-tree; chunks of 32
and 128 KiB; large packets of 64 KiB) is within 9 % (standard deviation), 17 % at most.
What a machine carries is then one number, and the ladder finds it: at how much of that networks are no longer
certified. A machine that is twice as fast has twice that limit. On two cores, of 52 trials all that needed up to 1.6
cores were VALID in GST, and none that needed 2.7 or more.

Rejected: Gbit/s alone (19 % off that line, 37 % at most: more processes and smaller chunks take more for the same
bytes); prices of each machine's own, from the idle time of its steps (four numbers from a dozen steps, in which whoever
else is busy counts: on a machine with neighbours, two of them came out as 0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import TestbedError
from testbed.lab.base import allowed_packet_bytes, slow_packet_bytes
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.trial.network import lab_rate_bps, link_settings
from testbed.workloads.sync.cost import Cost

HEADER_BYTES = 52
"""Bytes of the headers of IP and TCP with timestamps, as :func:`testbed.workloads.sync.cost.goodput` has them."""


@dataclass(frozen=True)
class Load:
    """Load of a trial on the machine while gradients are on the wire, per second, from its forest, links and chunks
    alone. All rates are those at which the busiest link is full, unless steps jitter: what the machine must do if GST
    is to be the least that the links allow. Bytes are the payload of TCP.

    Attributes:
        sent_bytes_s: what all processes hand to TCP.
        link_bytes_s: what all links carry, each direction of each link counted.
        packets_s: full packets that this is, on all links,
        large_packets_s: and packets as the kernel hands them down before it cuts them.
        packet_bytes_by_rates: how large these would be at these rates, without limits to that
            (:meth:`testbed.lab.base.LinkSettings.packet_bytes_by_rates`).
        chunks_s: chunks that processes send.
        processes: workers, and nodes that add for others.
        links: number of links.
        rate_bps: of a host's link.
        in_all_bps: what all links carry, headers included, the mean of a link's two directions: links that are full
            both ways carry their rates in all.
    """

    sent_bytes_s: float
    link_bytes_s: float
    packets_s: float
    large_packets_s: float
    packet_bytes_by_rates: float
    chunks_s: float
    processes: int
    links: int
    rate_bps: int
    in_all_bps: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def load_of(trial: Trial) -> Load | None:
    """Compute a trial's load; None where it is not known, see :func:`not_known`."""
    if not_known(trial) is not None:
        return None
    job, share = trial.job, trial.network.goodput
    least_s = job.cost.round_s() / share + _jitter_s(job)
    link_bytes_s = float(job.cost.link_bytes.sum()) / least_s
    settings = link_settings(trial.spec)
    return Load(
        sent_bytes_s=job.cost.wire_bytes / least_s,
        link_bytes_s=link_bytes_s,
        packets_s=link_bytes_s / (trial.spec.links.mtu - HEADER_BYTES),
        large_packets_s=link_bytes_s / settings.packet_bytes(trial.topology),
        packet_bytes_by_rates=settings.packet_bytes_by_rates(trial.topology),
        chunks_s=chunks_of(job) / least_s,
        processes=len(trial.processes),
        links=len(trial.topology.links),
        rate_bps=lab_rate_bps(trial.spec),
        in_all_bps=8 * link_bytes_s / share / 2,
    )


def in_all_bps(cost: Cost) -> float:
    """Rate of all links together when the busiest is full, see :class:`Load`."""
    return 8 * float(cost.link_bytes.sum()) / cost.round_s() / 2


def _jitter_s(job: Job) -> float:
    """Seconds by which steps that jitter make a synchronisation longer on average, at least: those that follow each
    other each by the mean of a normal distribution's positive half. Links rest meanwhile."""
    sigma_s = math.hypot(*(max(by_host.values()) for by_host in job.network.jitter))
    return job.cost.rounds * sigma_s / math.sqrt(2 * math.pi)


def chunks_of(job: Job) -> int:
    """Number of chunks that all processes send in one synchronisation."""
    return job.kind.chunks(job.plan, job.gradient, job.chunk_bytes)


def not_known(trial: Trial) -> str | None:
    """Say why nothing is predicted of a trial; None where something is."""
    if trial.spec.place.plays:
        return f"the lab {trial.spec.lab} sends no packets"
    if not trial.spec.place.is_here:
        return f"the lab {trial.spec.lab} does not run on this machine"
    if trial.is_shared:
        return "several jobs share its links"
    if unknown := trial.job.kind.unknown.load(trial.job.plan):
        return unknown
    if any(link.delay_s for link in trial.topology.links) or any(
        met.jitter_s or met.loss or met.reorder for met in trial.network.settings_met
    ):
        return "what delays, jitter and losses take of the cores is not measured"
    return None


PRICES = np.array([0.0725, 0.0166, 0.0164, 0.0116])
"""Cores for each of :func:`units` of a load: of one 2.x GHz machine with time to spare (benchmarks/capacity.py --prices
measures them again)."""
MOST_ROOM = 1e6
"""The largest room: nobody asks for less than a millionth of what a machine carries."""


class NothingCarriedError(TestbedError):
    """Failure of the ladder: no step stayed certified."""


@dataclass(frozen=True)
class Step:
    """A short trial of the ladder.

    Attributes:
        network: topology and scheme, for people.
        load: what it asked for.
        certified: whether its GST was certified.
        ratio: of GST to its bound.
        idle: share of all cores' time that it did not take while gradients were on the wire: left, or taken by a host.
    """

    network: str
    load: Load
    certified: bool
    ratio: float
    idle: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Step:
        """
        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        load = Load(**{key: _number(value) for key, value in dict(found["load"]).items()})
        ratio, idle = _number(found["ratio"]), _number(found["idle"])
        if not isinstance(found["certified"], bool) or not isinstance(found["network"], str):
            raise ValueError("a step of the ladder says whether it was certified, and where")
        return cls(found["network"], load, found["certified"], ratio, idle)


def _number(value: object) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is no number of a ladder's")
    return value


def certified(record: Mapping[str, Any]) -> bool:
    """Whether a finished trial's GST is known to a few per cent by its bound alone, whatever the machine did."""
    return bool(record["fidelity"]["numbers"]["gst"]["certified"])


@dataclass(frozen=True)
class Capacity:
    """Capacity of this machine.

    Attributes:
        steps: what was measured.
        limit: the need (:func:`need`) up to which trials stay certified.
    """

    steps: tuple[Step, ...]
    limit: float

    def room(self, load: Load) -> float:
        """Times that this machine carries the rates of a load; 1 or more where it carries the load as it is; 0 if it
        has more processes than are carried at any rate."""
        low, high = 0.0, MOST_ROOM
        if need(_faster(load, low)) > self.limit:
            return 0.0
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if need(_faster(load, middle)) <= self.limit else (low, middle)
        return low

    @property
    def best(self) -> Step:
        """The certified step that carried most."""
        return max((step for step in self.steps if step.certified), key=lambda step: step.load.in_all_bps)


def _faster(load: Load, times: float) -> Load:
    """Load on links so many times as fast. Large packets grow with rates up to a limit; then there are more."""
    link_bytes_s, by_rates = load.link_bytes_s * times, load.packet_bytes_by_rates * times
    before = allowed_packet_bytes(load.packet_bytes_by_rates, slow_packet_bytes(load.rate_bps))
    after = allowed_packet_bytes(by_rates, slow_packet_bytes(times * load.rate_bps))
    return replace(
        load,
        sent_bytes_s=load.sent_bytes_s * times,
        link_bytes_s=link_bytes_s,
        large_packets_s=load.large_packets_s * times * before / after,
        packet_bytes_by_rates=by_rates,
        chunks_s=load.chunks_s * times,
    )


def units(load: Load) -> NDArray[np.float64]:
    """Units that processor time is paid for: Gbit/s sent, thousand large packets/s on links, thousand chunks/s,
    processes."""
    per_s = 8e-9 * load.sent_bytes_s, 1e-3 * load.large_packets_s, 1e-3 * load.chunks_s
    return np.array([*per_s, float(load.processes)])


def need(load: Load) -> float:
    """Number of cores that a load takes, at :data:`PRICES`."""
    return float(units(load) @ PRICES)


def fitted(steps: Sequence[Step]) -> Capacity:
    """Compute the capacity that steps are evidence of: for each network, the middle (in ratio) of the most that was
    certified and the least beyond that was not; of these the lower quartile, for networks stray and who plans wants
    what holds for most. A network that was never lost ends at its last step.

    Raises:
        NothingCarriedError: none was certified.
    """
    networks: dict[str, list[tuple[float, bool]]] = {}
    for step in steps:
        networks.setdefault(step.network, []).append((need(step.load), step.certified))
    limits = []
    for needs in networks.values():
        held = max((each for each, was_certified in needs if was_certified), default=0.0)
        lost = min((each for each, was_certified in needs if not was_certified and each > held), default=held)
        if held:
            limits.append(math.sqrt(held * lost))
    if not limits:
        raise NothingCarriedError(
            "this machine carried nothing that could be certified",
            fix="end what else uses the cores, and measure again",
        )
    return Capacity(tuple(steps), float(np.quantile(limits, 0.25)))
