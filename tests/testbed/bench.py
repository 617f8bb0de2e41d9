"""Trials in a real lab without a run around them: in this process, one after another in a lab and before a referee that
all its tests share, so that neither is started, and imports PyTorch, once for each.

Trials that need PyTorch have a lab of their own. Most trials that fail, and so end their lab, do not need it: the next
one that trains would have to import it again. Bursts that measure links last a third of what they do in runs: while one
lasts, it takes all cores that it can get."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from testbed.analysis import dictionary
from testbed.analysis.schema import ENVIRONMENT, RECORD
from testbed.base.python import code_command
from testbed.evidence import referee as referees
from testbed.evidence.referee import Referee
from testbed.execution.execute import Outcome, Tick, execute
from testbed.execution.place import InLab
from testbed.experiment.expand import trials
from testbed.experiment.finding import settled
from testbed.experiment.provenance import congestion_control
from testbed.files.shape import check
from testbed.lab.base import Lab
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Launch
from testbed.spec import read
from testbed.trial import job_files
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.workloads.bursts.arrivals import LEAST_BITS
from tests.record_faults import faults


def fits_schema(outcome: Outcome) -> None:
    """What we write is what we read again, from the files of strangers, too."""
    record, lab = json.loads(json.dumps([outcome.record, outcome.lab]))
    check(record, RECORD)
    assert faults(record) == []
    if outcome.samples is not None:
        assert {re.sub(r"_[1-9][0-9]*$", "_*", str(name)) for name in outcome.samples} <= set(dictionary.SAMPLES)
    check({"lab": {record["id"]: lab}}, ENVIRONMENT)


HASTY = """
import gc, sys, threading
gc.disable()
from testbed.evidence import referee
importing = threading.Event()
importing.set()
threading.Thread(target=referee._show_life, args=(importing, 1), daemon=True).start()
from testbed.workloads.learning import reference
importing.clear()
reference.MOST_EVALUATED = 2
referee.main(int(sys.argv[1]))
"""


class HastyReferee(Referee):
    """Computes the accuracy after the first and the last iteration alone, and not after 25: a pass over a test set
    takes longer than most trainings here. All else is judged as ever."""

    def check(self, *asked: Any, **more: Any) -> dict[str, Any]:
        hasty = mock.patch.object(referees, "module_command", lambda _, *words: code_command(HASTY, *words))
        with hasty:  # a process may have to be started
            return super().check(*asked, **more)


def needs_torch(job: Job) -> bool:
    """Whether one of a job's processes imports PyTorch; a program imports its own."""
    return job.is_synchronised and (job.work.uses_torch or job.kind.software.uses_torch(job.plan))


class Bench:
    """Where they run."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._labs: dict[bool, NetnsLab] = {}
        self._needs_torch = False

    @property
    def lab(self) -> NetnsLab:
        """What the trial that goes on runs in, or ran the last one."""
        if self._needs_torch not in self._labs:
            self._labs[self._needs_torch] = NetnsLab()
        return self._labs[self._needs_torch]

    def run(
        self, spec: str, folder: Path, tick: Tick = lambda *_: None, labels: Container[str] | None = None
    ) -> list[Outcome]:
        """What became of each trial of a spec whose directory is ``folder``; logs are there, too.

        ``tick`` is told how many iterations a trial has done. With ``labels``, only arms that are called so run.
        """
        found = []
        for trial in trials(settled(read(spec, "spec.yaml", folder))):
            if labels is not None and trial.label not in labels:
                continue
            self._needs_torch = any(needs_torch(job) for job in trial.jobs)
            lab, outcome = self.lab, None
            try:
                outcome = self._outcome(trial, lab, folder, tick)
            finally:
                if outcome is None or outcome.record["status"] == "failed":
                    self._labs.pop(self._needs_torch).close()
            found.append(outcome)
        return found

    def run_in(self, lab: Lab, spec: str, folder: Path) -> Outcome:
        """What became of the only trial of a spec in another lab."""
        (trial,) = trials(settled(read(spec, "spec.yaml", folder)))
        return self._outcome(trial, lab, folder, lambda *_: None)

    def _outcome(self, trial: Trial, lab: Lab, folder: Path, tick: Tick) -> Outcome:
        with (
            mock.patch.object(job_files, "PROBE_S", job_files.PROBE_S * 0.8),
            mock.patch.object(job_files, "LEAST_BITS", LEAST_BITS / 6),
        ):
            found = execute(trial, InLab(lab), self._referee, folder, congestion_control(trial.spec), tick)
        fits_schema(found)
        return found

    def strike_first(
        self, node: str, number: int, patch: pytest.MonkeyPatch, goes_on_after_s: float | None = None
    ) -> None:
        """Send a node's process a signal as soon as the next trial's are started; and let it go on after a while."""
        launch = NetnsLab.launch

        def struck(lab: NetnsLab, workers: Sequence[Launch]) -> None:
            launch(lab, workers)
            lab.signal(node, number)
            if goes_on_after_s is not None:
                threading.Timer(goes_on_after_s, lab.signal, (node, signal.SIGCONT)).start()

        patch.setattr(NetnsLab, "launch", struck)

    def close(self) -> None:
        """End the labs that there are."""
        while self._labs:
            self._labs.popitem()[1].close()
