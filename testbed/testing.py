"""A place for tests: it answers in no time, with the least that theory allows.

An experiment that runs in it is a real one: specs are read, trials ordered, repeated and judged, and the run directory
and the report are made. Only processes and packets are missing::

    from functools import partial
    from testbed.experiment.run import Experiment
    from testbed.experiment.runner import Here
    from testbed.testing import IdealPlace

    with Experiment.new(source, out, partial(Here, IdealPlace)) as experiment:
        ...

Times are those of an ideal network, links carry the bytes that the plan says, and the machine is idle. Round trips
between hosts that probe each other follow from the links' delays and rates, and bursts share links fairly. ``slower``
makes synchronisation longer, for tests that need results that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from testbed.base.errors import SpecError
from testbed.control.feed import Feed
from testbed.evidence.calibration import Calibrated, plan_of
from testbed.evidence.spot_checks import Made, Readings
from testbed.execution.observed import Lines, Observed
from testbed.execution.probing import Measured, between, rates_bps
from testbed.execution.so_far import SoFar, Tick
from testbed.execution.stage import check, decided
from testbed.execution.starting import Began
from testbed.lab.limits import Limits
from testbed.lab.measurements import Counters
from testbed.lab.programs import Exit
from testbed.machine.monitor import CpuLog
from testbed.perturb.circuits import State
from testbed.recovery.deaths import undisturbed
from testbed.topologies.model import Topology
from testbed.topologies.sharing import fair_bps, loads
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.trial.job_files import burst_addresses
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.workloads.locality.distances import by_bandwidth, rounds, symmetric

BEGIN_S = 1000.0
"""Seconds on the clock of samples at which each trial begins."""
CORES = 2
ECHO_BITS = 8 * 64
"""Bits on the wire of a probe's packet: the least frame of Ethernet."""


class IdealPlace:
    """A place where each number is the least that theory allows, as :class:`testbed.execution.place.Place`.

    Args:
        slower: by what factor synchronisation of a trial takes longer than the least. The bound still holds, so a trial
            that is much slower has no certificate.
    """

    limits = Limits("theory", slowest_bps=1, fastest_bps=10**15, most_hosts=10**6, most_links=10**7)

    def __init__(self, slower: Callable[[Trial], float] = lambda _: 1.0) -> None:
        self._slower = slower

    def require(self, trial: Trial) -> None:
        """Refuse a trial for which theory knows no single answer.

        Raises:
            SpecError: something is done to the trial, it runs a program, its workers do not all wait for a sum, or
                something is to be found by a probe that is not testbed's own.
        """
        check(trial, MEASURED)
        if trial.network.perturbations:
            raise SpecError("nothing can be done to a trial in the ideal place", fix="remove perturb, or take a lab")
        for job in trial.jobs:
            if not job.sums_once:
                raise SpecError(
                    f"the ideal place cannot play {job.scheme_text} of kind {job.kind.name} with this workload",
                    fix="take a synchronous scheme without overlap, such as ring or ps, or a lab",
                )

    def run(self, trial: Trial, files: Files, congestion_control: str, tick: Tick) -> Observed:  # noqa: ARG002
        """Play the trial."""
        before = _bursts(trial)
        trial = decided(trial, lambda probe: MEASURED[probe](trial, before))
        readings = Readings()
        lines: dict[str, Lines] = {}
        ends_s: dict[str, float] = {}
        for job in trial.jobs:
            own = self._lines(job, congestion_control, self._slower(trial))
            ends_s[job.name] = max(line["end"] for said in own.values() for line in said if line["kind"] == "iteration")
            lines |= own
        last_s = max(ends_s.values())
        exits = [
            Exit(name, process.node, 0, BEGIN_S, max(ends_s[part.job] for part in process.parts))
            for name, process in trial.members.items()
        ]
        readings.made.append(Made(BEGIN_S, last_s, 2 * len(trial.topology.links)))
        tick(trial.jobs[0].iterations, SoFar(Feed({}), readings, {}, 0))
        return Observed(
            trial=trial,
            counters=list(_counted(trial)),
            cpu=_idle(BEGIN_S - 1, last_s + 1),
            lab=_described(trial.topology),
            differs=None,
            readings=readings,
            events=[],
            background=[],
            circuits=[State(trial.topology)],
            idle=_calibrated(trial),
            before=before,
            lines=lines,
            exits=exits,
            courses={job.name: undisturbed(job) for job in trial.jobs},
            began={job.name: _began(job) for job in trial.jobs},
            is_played=True,
        )

    def close(self) -> None:
        """Do nothing: nothing was started."""

    @staticmethod
    def _lines(job: Job, congestion_control: str, slower: float) -> dict[str, Lines]:
        """Return, by process, the lines that it would have written."""
        start_s = BEGIN_S + job.planned_s
        ranks = {name: rank for rank, name in enumerate(job.workers)}
        said: dict[str, Lines] = {}
        for name, node in job.processes.items():
            hello = {"rank": ranks.get(name), "node": node, "device": "none", "congestion_control": congestion_control}
            said[name] = [{"kind": "hello", **hello}]
        for i in range(job.iterations):
            ready_s = start_s + job.pace_s[:, i]
            sum_s = float(ready_s.max()) + slower * job.gst_theory_s
            for name, rank in ranks.items():
                pace_s = float(job.pace_s[rank, i])
                said[name].append(
                    {
                        **{"kind": "iteration", "i": i, "rank": rank, "node": job.processes[name], "loss": None},
                        **{"start": start_s, "ready": float(ready_s[rank]), "sum": sum_s, "end": sum_s},
                        **{"compute_s": pace_s, "overrun_s": 0.0, "wait_s": 0.0, "cpu_s": 0.0},
                    }
                )
            start_s = sum_s
        for own in said.values():
            own.append({"kind": "done", **DONE})
        return said


DONE: Mapping[str, Any] = {
    **dict.fromkeys(("cpu_s", "late_s", "stalled_s", "halted_s", "watched_s"), 0.0),
    **dict.fromkeys(("sent_segments", "resent_segments", "needless_segments", "max_rss_bytes"), 0),
    **{"wire_bytes": None, "sent": {}},
}
"""Fields that a process tells in its last line."""


def _counted(trial: Trial) -> Iterator[Counters]:
    """Yield the counters of links, as if they had carried what the plan says."""
    carried = np.sum([job.cost.link_bytes * job.iterations for job in trial.jobs], axis=0) / trial.network.goodput
    for link, count in enumerate(carried):
        yield Counters(link, round(float(count)), round(float(count) / trial.spec.links.mtu), 0)


def _idle(since_s: float, until_s: float) -> CpuLog:
    """Return a log of cores that had nothing to do."""
    log = CpuLog()
    for at_s in np.linspace(since_s, until_s, 3).tolist():
        log.add(at_s, CORES * at_s, 0.0, CORES * at_s, 0.0)
    return log


def _bursts(trial: Trial) -> Lines:
    """Return bursts into NICs, at the rates of their ways."""
    topology, goodput = trial.topology, trial.network.goodput
    return [
        {
            **{"name": topology.nodes[burst.dst].name, "port_address": address},
            **{"rate_bps": goodput * burst.rate_bps(topology), "asked_bps": burst.rate_bps(topology)},
        }
        for burst, _, address in burst_addresses(topology)
    ]


def _round_trips_s(topology: Topology) -> Measured:
    """Return the times (s) of a packet and its answer between all hosts, as the links' delays and rates have them."""
    hosts, names = topology.hosts, [node.name for node in topology.nodes]
    return {names[a]: [0.0 if a == b else _echoed_s(topology, a, b) for b in hosts] for a in hosts}


def _echoed_s(topology: Topology, a: int, b: int) -> float:
    burst = between(topology, a, b)
    links = [topology.links[link // 2] for path in burst.paths(topology)[:1] for link in path.links]
    return burst.round_trip_s(topology) + sum(2 * ECHO_BITS / link.rate_bps for link in links)


def _bits_s(trial: Trial) -> Measured:
    """Return the times (s) that a bit takes between all hosts while both hosts of each pair of a round send."""
    topology, goodput = trial.topology, trial.network.goodput
    arrived_bps: dict[tuple[int, int], float | None] = {}
    hosts = topology.hosts
    for pairs in rounds(len(hosts)):
        ways = [way for pair in pairs for way in (pair, pair[::-1])]
        shares = fair_bps([loads(topology, (hosts[a], hosts[b])) for a, b in ways], topology)
        arrived_bps |= {way: goodput * rate_bps for way, rate_bps in zip(ways, shares, strict=True)}
    rows = symmetric(len(hosts), by_bandwidth(arrived_bps)).tolist()
    return {topology.nodes[host].name: row for host, row in zip(hosts, rows, strict=True)}


def _linear(trial: Trial) -> Measured:
    bits_s = _bits_s(trial)
    return {name: [*row, *bits_s[name]] for name, row in _round_trips_s(trial.topology).items()}


MEASURED: Mapping[str, Callable[[Trial, Lines], Measured]] = {
    "rates": lambda _, before: rates_bps(before),
    "latency": lambda trial, _: _round_trips_s(trial.topology),
    "bandwidth": lambda trial, _: _bits_s(trial),
    "linear": lambda trial, _: _linear(trial),
}
"""Results of probes, by name, for a trial and the bursts into its NICs."""


def _calibrated(trial: Trial) -> Calibrated:
    """Return round trips and rates as they were asked for."""
    wanted, names = plan_of(trial.topology, link_settings(trial.spec)), [node.name for node in trial.topology.nodes]
    trips = [
        {
            **{"from": names[ping.way.src], "to": names[ping.way.dst], "least_s": ping.least_s, "most_s": ping.most_s},
            "median_s": ping.least_s,
        }
        for ping in wanted.pings
    ]
    goodput = trial.network.goodput
    rates = [
        {
            **{"name": names[burst.way.dst], "port_address": burst.way.remote},
            **{"rate_bps": goodput * burst.rate_bps, "asked_bps": burst.rate_bps},
        }
        for burst in wanted.bursts
    ]
    return Calibrated(trips, rates)


def _described(topology: Topology) -> dict[str, Any]:
    """Return the network as it was asked for."""
    return {"lab": "ideal", "links": [{"rate_bps": link.rate_bps, "delay_s": link.delay_s} for link in topology.links]}


def _began(job: Job) -> Began:
    return Began(job.planned_s, job.planned_s, job.planned_s, BEGIN_S)
