"""Only VALID trials count, the others say why, and a number is what its trials say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.papers.evidence import (
    GST,
    ITERATION_TIMES,
    explained,
    gst_s,
    iteration_s,
    mean_of,
    measure,
    pooled,
    r_squared,
    reduction,
    spearman,
    speed_up,
    where,
)
from testbed.analysis.record.trial import RecordedCheck

from .made_up import ITERATIONS, WARMUP, Times, run, trial

FAST, SLOW = Times(0.1), Times(0.3)


def test_times_leave_out_the_warm_up() -> None:
    one = trial("a", 1, FAST)
    assert len(gst_s(one)) == len(iteration_s(one)) == ITERATIONS - WARMUP
    assert gst_s(one) == pytest.approx(0.1, rel=0.01)
    assert iteration_s(one) == pytest.approx(0.2, rel=0.01)
    assert iteration_s(replace(one, warmup=0))[0] == pytest.approx(2.0, rel=0.01)


def test_ratios() -> None:
    slow, fast = trial("slow", 1, SLOW), trial("fast", 1, FAST)
    assert reduction(slow, fast) == pytest.approx(50)
    assert speed_up(slow, fast) == pytest.approx(2)
    assert reduction(fast, slow) == pytest.approx(-100)


def test_iterations_are_samples_of_one_trial() -> None:
    found = measure(run([trial("a", 1, FAST)]), ["a"], gst_s, number=GST)
    assert (len(found.samples), found.of, found.valid, found.trials) == (ITERATIONS - WARMUP, "iterations", 1, 1)
    assert found.interval
    assert found.interval.low <= 0.1 <= found.interval.high


def test_medians_are_samples_of_three() -> None:
    found = measure(run([trial("a", 1, FAST, repeat=r) for r in range(3)]), ["a"], gst_s, number=GST)
    assert (len(found.samples), found.of, found.valid, found.trials) == (3, "trials", 3, 3)


def test_a_batch_is_taken_or_the_first() -> None:
    both = run([trial("a", 1, FAST), trial("a", 2, SLOW)])
    assert np.median(measure(both, ["a"], gst_s, 2, number=GST).samples) == pytest.approx(0.3, rel=0.01)
    assert np.median(measure(both, ["a"], gst_s, number=GST).samples) == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize(
    ("other", "doubt"),
    [
        (trial("b", 1, FAST, verdict="INVALID"), "b: INVALID in iteration times (CPU headroom)"),
        (trial("b", 1, FAST, verdict="UNWATCHED"), "b: UNWATCHED in iteration times"),
        (trial("b", 1, FAST, done=False), "b: failed: h0 died"),
        (trial("c", 1, FAST), "b: was not run"),
    ],
)
def test_what_does_not_count(other: object, doubt: str) -> None:
    found = measure(run([trial("a", 1, FAST), other]), ["a", "b"], reduction, number=ITERATION_TIMES)  # type: ignore[list-item]
    assert (found.samples, found.doubts, found.valid, found.trials) == ((), (doubt,), 1, 2)
    assert found.interval is None


def test_a_repeat_counts_where_all_of_its_trials_do() -> None:
    trials = [trial("a", 1, FAST, repeat=r) for r in range(4)] + [trial("b", 1, SLOW, repeat=r) for r in range(3)]
    trials.append(trial("b", 1, SLOW, repeat=3, verdict="INVALID"))
    found = measure(run(trials), ["b", "a"], reduction, number=ITERATION_TIMES)
    assert (len(found.samples), found.valid, found.trials) == (3, 7, 8)
    assert found.doubts == ("b: INVALID in iteration times (CPU headroom)",)


def test_in_simulated_time_what_is_simulated_counts_and_ran_once() -> None:
    trials = [trial(label, 1, FAST, verdict="SIMULATED") for label in "ab"]
    found = measure(replace(run(trials), resolved={"repeats": 5}), ["a", "b"], reduction, number=ITERATION_TIMES)
    assert (found.valid, found.trials, found.verdict) == (2, 2, "SIMULATED")
    invalid = [trials[0], trial("b", 1, FAST, verdict="INVALID")]
    found = measure(run(invalid), ["a", "b"], reduction, number=ITERATION_TIMES)
    assert (found.valid, found.samples) == (1, ())


def test_no_run() -> None:
    assert measure(None, ["a"], gst_s, number=GST).doubts == ("it was not run",)


def test_a_trial_counts_for_the_numbers_in_which_it_is_valid() -> None:
    """What made computing late says nothing of GST, and what failed elsewhere is no reason."""
    one = trial("a", 1, FAST)
    job = replace(one.numbers["gst"], verdict="INVALID", spoilt_by=("pacing",))
    late = replace(
        one,
        verdict="INVALID",
        checks=(RecordedCheck("pacing", False), RecordedCheck("CPU steal", False)),
        numbers=dict(one.numbers) | dict.fromkeys(("jct", "throughput", "iterations", "waiting"), job),
    )
    found = measure(run([late]), ["a"], gst_s, number=GST)
    assert (found.valid, found.trials, found.doubts) == (1, 1, ())
    found = measure(run([late]), ["a"], iteration_s, number=ITERATION_TIMES)
    assert (found.valid, found.samples) == (0, ())
    assert found.doubts == ("a: INVALID in iteration times (pacing)",)


def test_a_mean_of_several_runs_has_the_mean_of_their_intervals() -> None:
    fast, slow = (
        measure(run([trial("a", 1, times), trial("b", 1, SLOW)]), ["b", "a"], speed_up, number=ITERATION_TIMES)
        for times in (FAST, SLOW)
    )
    found = mean_of([fast, slow])
    assert fast.interval
    assert slow.interval
    assert found.interval == Interval(
        pytest.approx((fast.interval.value + slow.interval.value) / 2),
        pytest.approx((fast.interval.low + slow.interval.low) / 2),
        pytest.approx((fast.interval.high + slow.interval.high) / 2),
    )
    assert (found.samples, found.of) == ((*fast.samples, *slow.samples), "iterations")
    assert (found.valid, found.trials, found.doubts) == (4, 4, ())


def test_a_mean_of_a_run_that_is_missing_is_not_known() -> None:
    one = measure(run([trial("a", 1, FAST)]), ["a"], iteration_s, number=ITERATION_TIMES)
    found = mean_of([one, measure(None, ["a"], iteration_s, number=ITERATION_TIMES)])
    assert found.interval is None
    assert (found.valid, found.trials, found.doubts) == (1, 1, ("it was not run",))


def test_a_median_of_several_numbers_has_the_median_of_their_intervals() -> None:
    parts = [measure(run([trial("a", 1, Times(seconds))]), ["a"], gst_s, number=GST) for seconds in (0.1, 0.3, 0.2)]
    found = mean_of(parts, np.median)
    assert found.interval == parts[2].interval
    assert (found.valid, found.trials) == (3, 3)


def test_samples_of_several_measurements_are_pooled() -> None:
    parts = [measure(run([trial("a", 1, Times(seconds))]), ["a"], gst_s, number=GST) for seconds in (0.1, 0.3)]
    found = pooled([*parts, measure(None, ["a"], gst_s, number=GST)], "hosts")
    assert found.interval
    assert found.interval.value == pytest.approx(0.2, rel=0.01)
    assert (len(found.samples), found.of, found.valid, found.trials) == (2 * (ITERATIONS - WARMUP), "hosts", 2, 2)
    assert found.doubts == ("it was not run",)


def test_trials_are_taken_by_what_a_sweep_varies() -> None:
    swept = [replace(trial("a", 1, FAST), point={"scheme.k": k, "topology.hosts": 4}) for k in (2, 3)]
    whole = run([*swept, trial("b", 1, SLOW)])
    part = where(whole, k=3)
    assert part
    assert [(each.label, each.point.get("scheme.k")) for each in part.trials] == [("a", 3), ("b", None)]
    assert where(whole, k=3, hosts=5) == replace(whole, trials=whole.trials[2:])
    assert where(None, k=3) is None


X = np.arange(1.0, 9.0)
LINE = np.stack([X, np.ones_like(X)], axis=1)


def test_a_line_is_a_line() -> None:
    assert r_squared(LINE, 3 * X + 2) == pytest.approx(1)


def test_noise_about_a_level_is_no_line() -> None:
    assert r_squared(LINE, np.array([1.0, -1, 1, -1, -1, 1, -1, 1])) == pytest.approx(0, abs=0.05)


def test_interval() -> None:
    rng = np.random.default_rng(1)
    exact = explained(LINE, [np.array([x, x]) for x in X])
    assert (exact.low, exact.value, exact.high) == pytest.approx((1, 1, 1))
    noisy = explained(LINE, [x + rng.normal(0, 2, 10) for x in X])
    assert noisy.low < noisy.value < 1
    assert noisy.low < noisy.high < 1


def test_spearman() -> None:
    cells = [np.array([x, x + 0.1]) for x in X]
    assert spearman(X**3, cells).value == pytest.approx(1)
    assert spearman(-X, cells).value == pytest.approx(-1)
    swapped = spearman(X[[1, 0, *range(2, 8)]], cells)
    assert swapped.value == pytest.approx(stats.spearmanr(X[[1, 0, *range(2, 8)]], X).statistic)
    noisy = spearman(X, [x + np.random.default_rng(int(x)).normal(0, 3, 10) for x in X])
    assert noisy.low < noisy.value < 1
    assert spearman(X, [cell[:1] for cell in cells]).low == -np.inf
