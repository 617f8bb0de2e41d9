"""Evidence about a trial: all that checks look at."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from testbed.evidence.bounds import Bounds
from testbed.machine.monitor import CpuLog
from testbed.machine.processes import ProcessLog
from testbed.recovery.deaths import Course
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.workloads.kinds.base import Told
from testbed.workloads.kinds.measures import Windows

if TYPE_CHECKING:
    from testbed.evidence.links import LinkRecord


@dataclass(frozen=True)
class Seen:
    """Evidence about one job of a finished trial, and about the network; nothing is measured any more.

    Attributes:
        job: the job as it ran.
        told: what its processes have told together.
        window: when it began and ended (s), on the clock of the samples and of ``cpu``.
        rates, expected_rates: bursts as :func:`testbed.fidelity.link_rate.judge` wants them, and how many there should
            be.
        round_trips: as :func:`testbed.fidelity.delay.judge` wants them.
        links: as :func:`testbed.evidence.links.link_records` gives them.
        cpu: how busy the cores were.
        done: the last line of each process, with its ``name``.
        aggregators: the names of those that only add for others.
        differs: what the kernel had that was not asked for, after the trial or while its processes ran.
        in_mid_run: how many directed links each reading within ``window`` covered.
        events: what was done to the trial on purpose, and when its network failed, as its JSON holds it.
        course: who died in it.
        bounds: the least that its numbers can be; None where nothing is known beforehand.
        spoilt_bytes: the most that its processes may have sent besides what counts, on any link.
        processes: whether they stood still or waited for a core, seen from outside.
        is_simulated: whether its numbers are a model's.
        clocks_s: by how much moments on two hosts may be apart, where hosts have clocks of their own.
        machines: NICs between machines, as :func:`testbed.fidelity.underlay.judge` wants them, where links cross.
    """

    trial: Trial
    job: Job
    told: Told
    window: tuple[float, float]
    rates: Sequence[Mapping[str, Any]]
    expected_rates: int
    round_trips: Sequence[Mapping[str, Any]]
    links: Sequence[LinkRecord]
    cpu: CpuLog
    done: Sequence[Mapping[str, Any]]
    aggregators: Collection[str]
    differs: str | None
    in_mid_run: Sequence[int]
    events: Sequence[Mapping[str, Any]]
    course: Course
    bounds: Bounds | None
    processes: ProcessLog = field(default_factory=ProcessLog)
    clocks_s: float = 0.0
    spoilt_bytes: float = 0.0
    is_simulated: bool = False
    machines: Sequence[Mapping[str, Any]] = ()

    @property
    def samples(self) -> pd.DataFrame | None:
        """Samples of every iteration; None of a command, which says nothing of its iterations."""
        return None if self.told.samples.empty else self.told.samples

    @cached_property
    def every(self) -> pd.DataFrame:
        """Samples of every iteration; only asked for where there are some."""
        assert self.samples is not None
        return self.samples

    @cached_property
    def counted(self) -> pd.DataFrame:
        """Samples without the warm-up."""
        return self.every[self.every["iteration"] >= self.job.work.warmup]

    @cached_property
    def to_stand_still(self) -> frozenset[str]:
        """Processes of hosts that the spec stops on purpose."""
        stopped = {host for one in self.trial.network.perturbations for host in one.stops}
        nodes = self.trial.topology.nodes
        return frozenset(name for name, node in self.job.processes.items() if nodes[node].name in stopped)

    @cached_property
    def windows(self) -> Windows:
        """Windows in which gradients were on the wire, after the warm-up (s); only asked for where there are
        samples."""
        overlapped = self.job.work.overlap != "none"
        return self.job.kind.own_samples.measures.on_the_wire(self.counted, overlapped=overlapped)[0]

    @cached_property
    def happened(self) -> frozenset[str]:
        """Kinds of events that were begun."""
        return frozenset(event["kind"] for event in self.events)
