"""Autotune hears workers, tells plans, and notes what it did; real workers follow it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.control.autotune import KIND, Autotune
from testbed.control.feed import Feed
from testbed.control.registry import Context
from testbed.experiment.expand import trials
from testbed.perturb.events import Event
from testbed.spec import read
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.workloads.locality.masters import of_trees
from testbed.workloads.locality.tuning import FINETUNE, QUICKTUNE
from testbed.workloads.sync.neighbours import BUSY, RTT, SENT, of_node

from ..bench import Bench
from ..fake_lab import FakeLab
from ..records import check

SPEC = """
name: tuned
links: {rate: 10 Gbit/s}
workload:
  {kind: profile, model: resnet50, batch: 32, scale: 100, iterations: 45, compute: {mode: paced, pace: {32: 20 ms}}}
arms: [{topology: star(hosts=4), scheme: "two_level(groups=[[0,1,2,3]],classes=16,tune=true)"}]
timeout: 20 s
retries: 0
quiet: 0 s
"""
HOSTS = range(4)


def trial_of(text: str = SPEC) -> Trial:
    return trials(read(text, "spec.yaml", Path()))[0]


@dataclass
class Stage:
    """A trial in which a test says what workers say."""

    folder: Path
    trial: Trial = field(default_factory=trial_of)
    events: list[Event] = field(default_factory=list)
    at_s: float = 0.0
    next: int = 0

    def __post_init__(self) -> None:
        self.paths = {f"h{host}": self.folder / f"h{host}.jsonl" for host in HOSTS}
        self.feed = Feed(self.paths)
        self.context = Context(
            self.trial,
            FakeLab(),
            Files(self.folder, self.folder),
            lambda event, _: self.events.append(event),
        )
        self.autotune = Autotune(self.context)

    def say(self, host: int, **fields: Any) -> None:
        with self.paths[f"h{host}"].open("a") as file:
            file.write(json.dumps(fields) + "\n")

    def iterations(self, count: int, took_s: float, *, slow: int | None = None, plan: int = 0, **more: Any) -> None:
        """Have all workers do iterations, with a third of the rate to and from a ``slow`` one."""
        for i in range(self.next, self.next + count):
            self.at_s += took_s
            for host in HOSTS:
                others = [other for other in HOSTS if other != host]
                moments = dict.fromkeys(("start", "ready", "sum", "end"), self.at_s)
                seen = {
                    **{of_node(SENT, other): 550_000 for other in others},
                    **{of_node(RTT, other): 0.001 for other in others},
                    **{of_node(BUSY, other): 0.03 if slow in (host, other) else 0.01 for other in others},
                }
                said = {"i": i, "rank": host, "node": host, "loss": None, "plan": plan, **moments, **seen, **more}
                self.say(host, kind="iteration", **said)
        self.next += count
        self.autotune.look(self.feed)

    @property
    def told(self) -> list[dict[str, Any]]:
        path = self.folder / "plans.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def steps(self) -> list[dict[str, Any]]:
        return self.context.tuning.get("", [])


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_longer_iterations_are_answered_by_a_plan_with_fewer_masters_at_the_slow_host(stage: Stage) -> None:
    stage.iterations(12, 0.1)
    assert [(step["how"], step["plan"]) for step in stage.steps] == [(FINETUNE, None)]
    assert not stage.told
    assert not stage.events
    stage.iterations(3, 0.2, slow=2)
    (line,) = stage.told
    gms = of_trees([HOSTS], np.array(line["parents"])).globals.tolist()
    assert (line["plan"], gms) == (1, [5, 5, 2, 4])
    step = stage.steps[-1]
    assert (step["after"], step["how"], step["plan"], step["iteration_s"]) == (15, QUICKTUNE, 1, 0.2)
    assert step["global_masters"] == step["local_masters"] == {"h0": 5, "h1": 5, "h2": 2, "h3": 4}
    assert step["load_ratio"] == pytest.approx((16 + 2 * 5) / (16 + 2 * 2))
    assert 0.17 < step["predicted_s"] < 0.2
    (event,) = stage.events
    assert (event.kind, event.what) == (
        KIND,
        "quicktune after 15 iterations, the last ones of 0.2 s: plan 1, classes by global master: "
        "h0 5, h1 5, h2 2, h3 4",
    )


def test_the_plan_is_a_phase_from_the_iteration_on_that_workers_name(stage: Stage) -> None:
    stage.iterations(12, 0.1)
    stage.iterations(5, 0.2, slow=2)
    assert not stage.context.changes
    stage.iterations(1, 0.15, slow=2, plan=1)
    ((first, job, cause),) = stage.context.changes[""]
    assert (first, cause.kind) == (17, "measurement")
    assert cause.what == "quicktune after 15 iterations, the last ones of 0.2 s"
    assert job.plan.reduce[:, :4].tolist() == stage.told[0]["parents"]


def test_a_plan_that_is_followed_in_the_end_is_noted_when_the_trial_ends(stage: Stage) -> None:
    with stage.autotune as autotune:
        stage.iterations(12, 0.1)
        stage.iterations(3, 0.2, slow=2)
        look, autotune.look = autotune.look, lambda _: 0.0  # type: ignore[method-assign,assignment]
        stage.iterations(1, 0.2, slow=2, plan=1)
        autotune.look = look  # type: ignore[method-assign]
        assert not stage.context.changes
    assert stage.context.changes[""][0].first == 15


def test_a_plan_that_is_refused_is_an_event_and_not_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SchemeError("class 3 has two roots", fix="give it one")

    monkeypatch.setattr("testbed.control.plans.along", refuse)
    stage.iterations(12, 0.1)
    stage.iterations(3, 0.2, slow=2)
    assert not stage.told
    assert stage.events[-1].what.endswith("plan 1, left out: class 3 has two roots")
    monkeypatch.undo()
    stage.iterations(10, 0.2, slow=2)
    assert [line["plan"] for line in stage.told] == [1], "the next plan has its number"


def test_what_a_worker_leaves_out_is_an_event(stage: Stage) -> None:
    stage.say(1, kind="journal", iteration=3, left_out="plan 1: it is told twice", lines=1)
    stage.autotune.look(stage.feed)
    assert [event.what for event in stage.events] == ["h1 leaves out plan 1: it is told twice"]


@pytest.mark.parametrize("wrong", [{"end": "soon"}, {"rtt_s_2": "short"}, {"sent_bytes_1": -5}, {"unknown": 1}])
def test_lines_that_make_no_sense_are_passed_over(stage: Stage, wrong: dict[str, Any]) -> None:
    stage.iterations(12, 0.1, **wrong)
    assert not stage.steps
    stage.iterations(25, 0.1)
    assert {step["how"] for step in stage.steps} == {FINETUNE}


def test_a_worker_speaks_for_itself_alone(stage: Stage) -> None:
    stage.say(0, kind="iteration", i=0, rank=3, node=3, start=0, ready=0, sum=0, end=0, loss=None, plan=0)
    stage.iterations(12, 0.1)
    assert len(stage.steps) == 1


@pytest.mark.lab
def test_in_a_real_trial_masters_leave_the_host_whose_link_is_slow(bench: Bench, tmp_path: Path) -> None:
    slow = SPEC + "perturb: [{kind: rate, links: h2, share: 30 %, at: iteration 12}]\n"
    (outcome,) = bench.run(slow, tmp_path)
    record = outcome.record
    assert record["status"] == "done", record["error"]
    assert check(record, "bytes on the wire")["ok"]
    assert all(event["done_s"] is not None and not event["error"] for event in record["events"])
    quick = next(step for step in record["tuning"] if step["how"] == QUICKTUNE)
    others = [quick["global_masters"][name] for name in ("h0", "h1", "h3")]
    assert 3 * quick["global_masters"]["h2"] < sum(others), "a busy machine slows another host down as well"
    assert outcome.samples is not None
    assert outcome.samples["plan"].max() >= 1
    assert [phase["cause"] for phase in record["phases"]][:2] == ["beginning", "measurement"]
    told = [event for event in record["events"] if event["kind"] == KIND]
    assert len(told) == sum(step["plan"] is not None for step in record["tuning"])
    rows = outcome.samples[outcome.samples["iteration"] == 5]
    payload = record["metrics"]["wire_bytes_theory"] / record["iterations"] / 4
    assert rows.filter(like="sent_bytes_").sum(axis=1).tolist() == pytest.approx(4 * [payload], rel=0.05)
