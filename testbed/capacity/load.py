"""Load of a trial on the machine while gradients are on the wire, from its forest, links and chunks alone.

All rates are those at which the busiest link is full, unless steps jitter: what the machine must do if GST is to be the
least that the links allow. Bytes are the payload of TCP.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from testbed.lab.base import LinkSettings
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.trial.network import lab_rate_bps, link_settings
from testbed.workloads.sync.cost import Cost

HEADER_BYTES = 52
"""Bytes of the headers of IP and TCP with timestamps, as :func:`testbed.workloads.sync.cost.goodput` has them."""


@dataclass(frozen=True)
class Load:
    """Load of a trial, per second.

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
    if any(link.delay_s for link in trial.topology.links) or any(map(_impaired, trial.network.settings_met)):
        return "what delays, jitter and losses take of the cores is not measured"
    return None


def _impaired(settings: LinkSettings) -> bool:
    return bool(settings.jitter_s or settings.loss or settings.reorder)
