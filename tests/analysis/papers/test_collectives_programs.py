"""Claims about programs that run unchanged, decided from made-up runs: they hold, fail, or cannot be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from testbed.analysis.papers.claim import Finding, Verdict
from testbed.analysis.papers.collectives_programs import (
    BEST,
    CLAIMS,
    DNN,
    LEAST_BYTES,
    LIGHTGBM,
    MODELS,
    MOST_BYTES,
    NUMBERS,
    SCHEMES,
    SCRIPT,
    WORST,
    dnn,
    least_s,
    lightgbm,
    script,
)
from testbed.analysis.recorded import Trial

from .made_up import Times, run, trial

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED


def trees(label: str, tree_s: float) -> Trial:
    """A trial of two ranks, whose first tree takes ten times as long."""
    times = [10 * tree_s, *(tree_s * (1 + 0.001 * i) for i in range(4))]
    return replace(trial(label, 0, Times(1.0)), logged={"tree_s": [times, times]})


def of_trees(worst_s: float) -> Finding:
    return lightgbm({LIGHTGBM.spec: run([trees(BEST, 2.0), trees(WORST, worst_s), trees(NUMBERS, 4.0)])})


def failing(found: Finding) -> list[str]:
    return [check.says for check in found.checks if check.verdict == FAILS]


def test_lightgbm_is_faster_in_the_best_order() -> None:
    found = of_trees(5.0)
    assert found.verdict == HOLDS
    measured = {row.name: row.ours.interval.value for row in found.rows if row.ours and row.ours.interval}
    assert measured["worst over best, time of a tree"] == pytest.approx(2.5)
    assert measured["order of numbers over best"] == pytest.approx(2.0)
    assert measured["a tree, best"] == pytest.approx(2.0, rel=0.01)


def test_lightgbm_gains_too_little() -> None:
    assert failing(of_trees(2.4)) == ["worst over best, time of a tree: 1.3 or more"]


def training(label: str, gst_s: float, loss: float) -> Trial:
    made = trial(label, 0, Times(gst_s))
    assert made.samples is not None
    return replace(made, samples=made.samples.assign(loss=loss))


def of_script(worst_s: float, loss: float = 3.0) -> Finding:
    trials = [
        training(f"{scheme}, {order}", gst_s, loss if (scheme, order) == ("ring", WORST) else 3.0)
        for scheme in SCHEMES
        for order, gst_s in ((BEST, 0.1), (WORST, worst_s))
    ]
    return script({SCRIPT.spec: run(trials)})


def test_a_script_sums_faster_in_the_best_order() -> None:
    found = of_script(0.4, 3.0 * (1 + 1e-5))
    assert found.verdict == HOLDS
    assert [row.ours.interval.value for row in found.rows[:2] if row.ours and row.ours.interval] == [
        pytest.approx(4.0)
    ] * 2


def test_a_script_that_gains_too_little_or_learns_otherwise_fails() -> None:
    assert failing(of_script(0.25)) == [f"{scheme}: worst over best: 3 or more" for scheme in SCHEMES]
    assert failing(of_script(0.4, 3.01)) == [
        "losses of ring, worst from those of Gloo, best: 0.0001 at most, as a share"
    ]


def of_models(times: Callable[[str, float], Times]) -> Finding:
    trials = [
        replace(trial(label, 32, times(model, of_link)), point={"workload.model": model})
        for model in MODELS
        for label, of_link in ((BEST, LEAST_BYTES), (WORST, MOST_BYTES))
    ]
    return dnn({DNN.spec: run(trials)})


def test_iterations_are_as_theory_has_them() -> None:
    found = of_models(lambda model, of_link: Times(least_s(model, of_link), pace_s=0.0))
    assert found.verdict == HOLDS
    assert [row.theory for row in found.rows] == pytest.approx([3.96, 3.40], abs=0.01)


def test_iterations_that_compute_longer_fail() -> None:
    assert len(failing(of_models(lambda model, of_link: Times(least_s(model, of_link), pace_s=0.2)))) == len(MODELS)


def test_nothing_is_decided_without_runs_or_with_invalid_ones() -> None:
    for decide in (lightgbm, script, dnn):
        assert decide({}).verdict == UNDECIDED
    bad = [
        replace(trees(label, 1.0), numbers=trial(label, 0, Times(1.0), verdict="INVALID").numbers)
        for label in (BEST, WORST)
    ]
    assert lightgbm({LIGHTGBM.spec: run(bad)}).verdict == UNDECIDED


def test_losses_that_nobody_told_decide_nothing() -> None:
    trials = [trial(f"{scheme}, {order}", 0, Times(0.1)) for scheme in SCHEMES for order in (BEST, WORST)]
    checks = {check.says: check.verdict for check in script({SCRIPT.spec: run(trials)}).checks}
    assert [verdict for says, verdict in checks.items() if says.startswith("losses")] == [UNDECIDED] * 3


def test_all_are_claims_of_the_paper() -> None:
    assert [claim.name for claim in CLAIMS] == ["coll.lightgbm", "coll.script", "coll.dnn"]
