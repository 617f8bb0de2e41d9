"""Plans that are switched in mid-run without a death: bounds, bytes and the verdict follow them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import SchemeError, TrialError
from testbed.control import registry
from testbed.control.registry import Context
from testbed.evidence.referee import Referee
from testbed.execution.execute import execute
from testbed.execution.observed import Observed
from testbed.experiment.expand import trials
from testbed.lab.measurements import Counters
from testbed.perturb.circuits import State
from testbed.recovery.deaths import switched, undisturbed
from testbed.spec import read
from testbed.testing import IdealPlace
from testbed.trial import phases
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.trial.phases import Cause, Change, Phase
from testbed.workloads.kinds.forest.kind import ForestKind
from testbed.workloads.kinds.parts import Control
from testbed.workloads.sync.schemes import build

from ..bench import Bench, fits_schema
from ..doubles.timed import AFTER, Timed

SPEC = """
name: switched
links: {rate: 100 Mbit/s}
workload: {kind: profile, model: lenet5, scale: 10, batch: 16, iterations: 6, compute: none}
arms: [{topology: star(hosts=3), scheme: ring}]
timeout: 20 s
retries: 0
quiet: 0 s
"""
TIMER = Cause("timer", "1 s had passed")


def trial_of(text: str = SPEC) -> Trial:
    return trials(read(text, "spec.yaml", Path()))[0]


def other(job: Job, scheme: str = "tree") -> Job:
    return phases.replanned(job, build(scheme, job.network.topology, job.gradient.tensors))


class Switching(IdealPlace):
    """A place in which a timer switches the plan to ``tree`` after so many iterations. It may keep that to itself."""

    def __init__(self, after: int, *, tells: bool = True) -> None:
        super().__init__()
        self._after, self._tells = after, tells

    def run(self, trial: Trial, files: Files, congestion_control: str, tick: Any) -> Observed:
        seen = super().run(trial, files, congestion_control, tick)
        job = trial.job
        course = switched(undisturbed(job), [Change(self._after, other(job), TIMER)])
        longer_s = course.phases[-1].job.gst_theory_s - job.gst_theory_s
        for line in (line for lines in seen.lines.values() for line in lines if line["kind"] == "iteration"):
            before = max(0, line["i"] - self._after)
            for key in ("start", "ready", "sum", "end"):
                line[key] += longer_s * (before + (key in ("sum", "end") and line["i"] >= self._after))
        carried = phases.link_bytes(course.phases) / trial.network.goodput
        seen.counters = [Counters(link, round(count), 0, 0) for link, count in enumerate(carried.tolist())]
        if self._tells:
            seen.courses = {job.name: course}
        return seen


def played(place: IdealPlace, folder: Path) -> dict[str, Any]:
    with Referee() as referee:
        outcome = execute(trial_of(), place, referee, folder, "reno", lambda *_: None)
    fits_schema(outcome)
    return outcome.record


def test_bounds_bytes_and_verdict_follow_a_plan_that_a_timer_switched(tmp_path: Path) -> None:
    record = played(Switching(2), tmp_path)
    ring, tree = trial_of().job, other(trial_of().job)
    assert tree.gst_theory_s > 1.2 * ring.gst_theory_s, "or it would not matter"
    assert [(one["first"], one["stop"], one["cause"], one["scheme"]) for one in record["phases"]] == [
        (0, 2, "beginning", "ring"),
        (2, 6, "timer", "tree"),
    ]
    assert record["phases"][1]["why"] == TIMER.what
    assert [one["gst_median_s"] for one in record["phases"]] == pytest.approx([ring.gst_theory_s, tree.gst_theory_s])
    assert record["metrics"]["gst_ratio"] == pytest.approx(1.0), "each iteration has the bound of its plan"
    assert record["fidelity"]["numbers"]["gst"]["certified"]
    expected = (2 * ring.cost.link_bytes + 4 * tree.cost.link_bytes) / ring.network.goodput
    assert [link["theory_bytes"] for link in record["links"]] == pytest.approx(expected.tolist(), abs=1)
    assert record["failover"] is None


def test_a_plan_that_was_switched_in_silence_is_seen_in_the_bytes(tmp_path: Path) -> None:
    record = played(Switching(2, tells=False), tmp_path)
    assert "phases" not in record
    assert record["fidelity"]["verdict"] == "INVALID"
    assert "bytes on the wire" in record["fidelity"]["numbers"]["gst"]["spoilt_by"]


def test_a_plan_that_is_refused_and_a_job_that_replans_itself_take_none() -> None:
    trial = trial_of()
    context = Context(trial, None, None, None)  # type: ignore[arg-type]
    plan: Any = build("ps", trial.topology, [100])
    with pytest.raises(SchemeError):
        context.replan(trial.job, 3, replace(plan, share=plan.share * 0), TIMER)
    for first in (-1, trial.job.iterations + 1):  # a worker may have named it
        with pytest.raises(TrialError, match=f"switches the plan at iteration {first}"):
            context.replan(trial.job, first, plan, TIMER)
    assert not context.changes
    racks = '"spine_leaf(racks=2,hosts_per_rack=2,spines=1)", scheme: rina'
    rina = trial_of(SPEC.replace("star(hosts=3), scheme: ring", racks))
    with pytest.raises(TrialError, match="takes none of a controller"):
        context.replan(rina.job, 3, rina.job.plan, TIMER)


def test_circuits_that_move_begin_a_phase_and_an_iteration_in_between_is_one_of_its_own() -> None:
    spec = SPEC.replace("star(hosts=3)", '"patch_panel(servers=6,degree=2,rings=[1])"')
    job = trial_of(spec).job
    after = trial_of(spec.replace("rings=[1]", "rings=[[0,2,4,1,3,5]]")).topology
    history = [State(job.network.topology), State(after, 2.5, 2.6)]
    windows = {i: (float(i), i + 0.9) for i in range(6)}
    split = phases.over_circuits(Phase(0, 6, job), history, windows)
    assert [(one.first, one.stop, one.cause.kind) for one in split] == [
        (0, 2, "beginning"),
        (2, 3, "circuits"),
        (3, 6, "circuits"),
    ]
    assert split[2].job.gst_theory_s > job.gst_theory_s == split[1].job.gst_theory_s
    mixed = 0.5 / 0.8 * split[0].job.cost.link_bytes + 0.3 / 0.8 * split[2].job.cost.link_bytes
    assert np.allclose(split[1].job.cost.link_bytes, mixed)


@pytest.mark.lab
@pytest.mark.parametrize(("scheme", "is_right"), [("ring", True), ("tree", False)])
def test_a_controller_tells_the_plan_in_a_lab_and_the_kernels_bytes_are_held_against_it(
    scheme: str, is_right: bool, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers stay with their ring, whatever is told of them."""
    monkeypatch.setattr(ForestKind, "control", Control(("timed",)))
    monkeypatch.setitem(registry.BUILT_IN, "timed", (Timed.__module__, "Timed"))
    monkeypatch.setattr(Timed, "scheme", scheme)
    # Three seconds in all: the harness may be late by one on a busy machine.
    (outcome,) = bench.run(
        SPEC.replace("100 Mbit/s", "500 Mbit/s").replace("iterations: 6", "iterations: 10"), tmp_path
    )
    record = outcome.record
    assert (record["status"], record["error"]) == ("done", None)
    assert [(one["first"], one["cause"], one["scheme"]) for one in record["phases"]] == [
        (0, "beginning", "ring"),
        (AFTER, "timer", scheme),
    ]
    (wire,) = [check for check in record["fidelity"]["checks"] if check["name"] == "bytes on the wire"]
    assert wire["ok"] is is_right
