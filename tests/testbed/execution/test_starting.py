"""When a job began: its processes, and its first iteration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from testbed.control.feed import Feed
from testbed.execution import several
from testbed.execution.files import Files
from testbed.execution.starting import Began, Starting, spans
from testbed.experiment.expand import trials
from testbed.lab.programs import Launch
from testbed.spec import read

from ..fake_lab import FakeLab

SPEC = """
name: jobs
workload: {kind: profile, model: lenet5, scale: 100, batch: 16, iterations: 3, compute: none}
links: {rate: 100 Mbit/s}
arms:
  - topology: star(hosts=4)
    jobs:
      - {name: a, scheme: ring, hosts: 2}
      - {name: b, scheme: ring, hosts: 2}
"""


class Noting(FakeLab):
    """A lab that only notes when processes are to be started."""

    def launch(self, workers: Sequence[Launch]) -> None:
        self._note("launch", list(workers))


def test_starting_the_processes_is_no_waiting(tmp_path: Path) -> None:
    (trial,) = trials(read(SPEC, "spec.yaml", Path()))
    lab, feed = Noting(), Feed(dict.fromkeys(trial.processes))
    starting = Starting(trial.jobs, [], lab, Files(tmp_path, tmp_path), None)
    starting.postpone(feed)
    starting.look(feed)
    for name, note in zip(("a", "b"), lab.notes, strict=True):
        one = starting.began[name]
        assert one.origin_s <= one.origin_s + one.started_s <= note.at_s


def test_moments_are_from_the_beginning_of_the_trial() -> None:
    began = Began(1.0, 3.5, origin_s=100.0)
    assert spans({"a": began}, "a") == {"submitted_s": 1.0, "started_s": 3.5, "queued_s": 2.5}
    samples = pd.DataFrame({"start_s": [106.0, 105.25], "end_s": [107.0, 108.0]})
    assert several.begun_s(samples, began) == pytest.approx(5.25)
