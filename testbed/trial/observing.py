"""What is seen of every trial while its processes run, whatever they are: what was done to it, and what the kernel and
the CPUs counted meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from testbed.base.errors import TrialError
from testbed.evidence import calibration
from testbed.evidence.spot_checks import Readings, SpotChecks
from testbed.lab.base import Counters, Lab
from testbed.machine.monitor import CpuLog
from testbed.perturb.circuits import History
from testbed.perturb.conductor import Conductor, Record
from testbed.perturb.patching import Patching
from testbed.trial import results
from testbed.trial.job_files import Files
from testbed.trial.model import Trial
from workloads.sync.cost import goodput

_T = TypeVar("_T")
ANOTHER = ", or take a scheme that goes on when a node dies, such as rina"


@dataclass(frozen=True)
class Observation:
    """The kernel's counts, the CPUs' log, the lab as read back, how the kernel's settings differed from what was asked
    for after, and what was read of them meanwhile, what was done on purpose, the bytes that each background flow sent,
    and the circuits that were met."""

    counters: list[Counters]
    cpu: CpuLog
    lab: dict[str, Any]
    differs: str | None
    readings: Readings
    events: list[Record]
    sent: list[int]
    history: History


def observe(
    trial: Trial,
    lab: Lab,
    files: Files,
    work: Callable[[Conductor, Readings], _T],
    samples: Mapping[str, Path],
    asking: Sequence[Path] = (),
) -> tuple[_T, Observation]:
    """What ``work`` returns, which starts a trial's processes and waits for their end; and what was seen meanwhile.
    ``work`` is given what is read back of the links, as it grows.

    Args:
        samples: each worker's file, by process; without any, ``work`` says when the trial begins.
        asking: the files of processes that may ask for other circuits.

    Raises:
        TrialError: as ``work`` does, with what was done to the trial; or a helper failed.
    """
    topology = trial.network.topology
    before = lab.counters()
    with (
        Patching(lab, topology, asking) as patching,
        Conductor(trial.schedule(), lab, samples, files.logs, patching) as conductor,
        lab.monitor() as monitor,
        SpotChecks(lab, trial.jct_theory_s or math.inf) as checks,
    ):
        try:
            found = work(conductor, checks.readings)
        except TrialError as error:
            instead = ANOTHER if trial.kind.writes_samples and not trial.survives else ""
            raise conductor.blamed(error, goes_on=trial.survives, instead=instead) from error
    sent = conductor.finish()
    events = sorted([*conductor.records, *patching.records], key=lambda one: one.begun_s or math.inf)
    counted, differs = results.since(before, lab.counters()), calibration.differs(lab)
    described, readings = lab.describe(), checks.readings
    return found, Observation(counted, monitor.log, described, differs, readings, events, sent, patching.history)


def background_bytes(trial: Trial, sent: Sequence[int]) -> dict[int, float]:
    """By directed link, the bytes that background flows put on it, headers included."""
    topology = trial.network.topology
    load: dict[int, float] = {}
    for (source, sink), count in zip(trial.background, sent, strict=True):
        for path in topology.paths(source, sink):
            for link in path.links:
                load[link] = load.get(link, 0.0) + count / goodput(trial.spec.links.mtu) * path.weight
    return load
