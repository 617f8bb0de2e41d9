"""Trials in a real lab without a run around them: in this process, one after another in a lab and before a referee that
all its tests share, so that neither is started, and imports PyTorch, once for each."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from analysis import dictionary
from analysis.schema import ENVIRONMENT, RECORD
from testbed.evidence.referee import Referee
from testbed.execution.execute import Outcome, Tick, execute
from testbed.experiment.expand import trials
from testbed.experiment.finding import settled
from testbed.experiment.provenance import congestion_control
from testbed.files.shape import check
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Launch
from testbed.spec import read


def fits_schema(outcome: Outcome) -> None:
    """What we write is what we read again, from the files of strangers, too."""
    record, lab = json.loads(json.dumps([outcome.record, outcome.lab]))
    check(record, RECORD)
    assert dictionary.faults(record) == []
    if outcome.samples is not None:
        assert {re.sub(r"_[1-9][0-9]*$", "_*", name) for name in outcome.samples} <= set(dictionary.SAMPLES)
    check({"lab": {record["id"]: lab}}, ENVIRONMENT)


class Bench:
    """Where they run."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._lab: NetnsLab | None = None

    @property
    def lab(self) -> NetnsLab:
        """What the next trial runs in, or the one that goes on."""
        self._lab = self._lab or NetnsLab()
        return self._lab

    def run(self, spec: str, folder: Path, tick: Tick = lambda *_: None) -> list[Outcome]:
        """What became of each trial of a spec whose directory is ``folder``; logs are there, too.

        ``tick`` is told how many iterations a trial has done.
        """
        found = []
        for trial in trials(settled(read(spec, "spec.yaml", folder))):
            lab, outcome = self.lab, None
            try:
                outcome = execute(trial, lab, self._referee, folder, congestion_control(trial.spec), tick)
            finally:
                if outcome is None or outcome.record["status"] == "failed":
                    self.close()
            found.append(outcome)
            fits_schema(outcome)
        return found

    def strike_first(
        self, node: str, number: int, patch: pytest.MonkeyPatch, goes_on_after_s: float | None = None
    ) -> None:
        """Send a node's process a signal as soon as the next trial's are started; and let it go on after a while."""
        lab = self.lab
        launch = lab.launch

        def struck(workers: Sequence[Launch]) -> None:
            launch(workers)
            lab.signal(node, number)
            if goes_on_after_s is not None:
                threading.Timer(goes_on_after_s, lab.signal, (node, signal.SIGCONT)).start()

        patch.setattr(lab, "launch", struck)

    def close(self) -> None:
        """End the lab, if there is one."""
        lab, self._lab = self._lab, None
        if lab is not None:
            lab.close()
