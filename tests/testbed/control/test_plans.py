"""Plans that a controller tells, and its view of what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.control.feed import Feed
from testbed.control.plans import Plans
from testbed.control.registry import Context
from testbed.experiment.expand import trials
from testbed.lab.netns import NetnsLab
from testbed.spec import read
from testbed.trial.phases import Cause
from testbed.workloads.sync.told_plans import NAME

SPEC = """
name: told
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: lenet5, scale: 10, batch: 16, iterations: 6, compute: none}
arms: [{topology: star(hosts=2), scheme: "two_level(groups=[[0,1]],tune=true)"}]
"""
LEFT, RIGHT = np.array([[-1, 0], [-1, 0]]), np.array([[1, -1], [1, -1]])


class Told:
    """A job of two workers, what they write, and what was made of it."""

    def __init__(self, folder: Path) -> None:
        (trial,) = trials(read(SPEC, "spec.yaml", Path()))
        self.events: list[str] = []
        self.path = folder / NAME
        lab = SimpleNamespace(tell=lambda path, said: NetnsLab.tell(None, path, said))  # type: ignore[arg-type]
        files: Any = SimpleNamespace(work=folder)
        self.context = Context(trial, lab, files, lambda event, _: self.events.append(event.what))  # type: ignore[arg-type]
        self.plans = Plans(self.context, trial.job)
        self._files = {name: folder / name for name in trial.job.workers}
        for path in self._files.values():
            path.touch()
        self.feed = Feed(self._files)

    def say(self, worker: str, kind: str, **fields: object) -> None:
        with self._files[worker].open("a") as file:
            file.write(json.dumps({"kind": kind, **fields}) + "\n")

    @property
    def changes(self) -> list[tuple[int, str, list[list[int]]]]:
        made = self.context.changes.get("", [])
        return [(first, cause.what, job.plan.reduce[:, :2].tolist()) for first, job, cause in made]  # type: ignore[attr-defined]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_a_plan_holds_from_the_first_sample_that_names_it(told: Told) -> None:
    told.plans.tell(RIGHT, Cause("tuned", "right"))
    told.plans.tell(LEFT, Cause("tuned", "left"))
    assert [json.loads(line)["plan"] for line in told.path.read_text().splitlines()] == [1, 2]
    for i, plan in enumerate([0, 0, 1, 1, 2]):
        told.say("h0", "iteration", i=i, plan=plan)
        told.say("h1", "iteration", i=i, plan=plan)
        assert len(told.plans.look(told.feed)) == 2
        assert (told.plans.told, told.plans.followed) == (2, plan)
    assert told.changes == [(2, "right", RIGHT.tolist()), (4, "left", LEFT.tolist())]
    assert told.plans.first == 4


def test_a_plan_that_was_left_out_is_an_event_and_no_change(told: Told) -> None:
    for _ in range(2):
        told.plans.tell(RIGHT, Cause("tuned", "right"))
    for worker in ("h0", "h1"):
        told.say(worker, "journal", iteration=0, left_out="plan 1: it is told twice", lines=1)
    told.say("h1", "iteration", i=3, plan=2)
    told.plans.look(told.feed)
    assert told.events == ["h0 leaves out plan 1: it is told twice"]
    assert [first for first, *_ in told.changes] == [3]


def test_lines_that_nobody_should_write_change_nothing(told: Told) -> None:
    told.plans.tell(RIGHT, Cause("tuned", "right"))
    for plan in (-1, True, "1", None, 7, 0, [1]):
        told.say("h0", "iteration", i=1, plan=plan)
    told.say("h0", "iteration", plan=1)
    told.say("h0", "journal", left_out=["plan"])
    told.plans.look(told.feed)
    assert (told.changes, told.events) == ([], [])


def test_what_processes_wrote_last_counts_too(told: Told) -> None:
    told.plans.close()
    told.plans.tell(RIGHT, Cause("tuned", "right"))
    told.plans.look(told.feed)
    told.say("h0", "iteration", i=5, plan=1)
    told.plans.close()
    assert [first for first, *_ in told.changes] == [5]


def test_parents_that_make_no_sums_are_not_told(told: Told) -> None:
    with pytest.raises(SchemeError, match="roots"):
        told.plans.tell(np.array([[-1, -1], [-1, 0]]), Cause("tuned"))
    assert not told.path.exists()
    assert told.plans.told == 0
