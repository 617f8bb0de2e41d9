"""Claims of PLink Collectives, decided from made-up runs and from models: they hold, fail, or cannot be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.analysis.papers import collectives
from testbed.analysis.papers.claim import Finding, Runs, Verdict
from testbed.analysis.papers.collectives import (
    BEST,
    GLOO,
    MPI,
    ORDERS,
    OTHERS,
    PAPER,
    PERCENTILES,
    RANDOM,
    REORDER,
    RING,
    SPEARMAN,
    WORST,
)
from testbed.analysis.papers.collectives_theory import BOUNDS, EXAMPLES, Ends, bound, near_and_far
from testbed.analysis.papers.evidence import gst_s, sum_to_sum_s
from testbed.analysis.record.happened import Found, FoundOrder
from testbed.analysis.recorded import Run, Trial
from testbed.workloads.ranks import annealing, exact

from .made_up import Times, run, trial

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED
CLAIMS = {claim.name: claim for claim in PAPER.claims}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "STEPS_A_HOST", 20)
    monkeypatch.setattr(collectives, "SEEDS", 2)
    monkeypatch.setattr(collectives, "COSTS", {"ring": None})


def decide(name: str, runs: Runs) -> Finding:
    return CLAIMS[name].decide(runs)


def failing(found: Finding) -> list[str]:
    return [check.says for check in found.checks if check.verdict == FAILS]


def test_costs_and_forests_are_those_counted_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "ends", lambda _: Ends((24, 48), BOUNDS["ring"]))
    found = decide("coll.costs", {})
    assert [check.why for check in found.checks if check.verdict != HOLDS] == []
    assert len(found.checks) == len(EXAMPLES) + len(BOUNDS) + 2
    assert found.rows[0].paper == 3.7
    assert found.rows[0].theory == pytest.approx(4)


def test_other_costs_and_forests_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "ends", lambda _: Ends((24, 48), (1.875, 6.0)))
    monkeypatch.setattr(collectives, "bound", lambda *_: 2.0)
    monkeypatch.setattr(collectives, "two_racks", lambda _: (12, 24, 12))
    monkeypatch.setattr(collectives, "lightgbm", lambda: {"a": 1.5, "b": 3.75, "c": 2.0})
    found = decide("coll.costs", {})
    assert len(failing(found)) == len(EXAMPLES) - 1 + len(BOUNDS) + 2
    assert found.checks[-1].why == "it is 1.875, 6"


def test_annealing_is_near_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "STEPS_A_HOST", 500)
    monkeypatch.setattr(collectives, "MOST_S", 120.0)  # how soon it is done is for a calm machine
    found = decide("coll.solver", {})
    assert found.verdict == HOLDS
    interval = found.rows[0].interval
    assert interval
    assert 1 <= interval.value <= 1.02
    assert found.rows[0].ours
    assert (len(found.rows[0].ours.samples), len(found.rows)) == (2, 2)


def test_annealing_that_is_far_or_slow_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "annealed_over_optimum", lambda seed: 1.0 + 0.05 * seed)
    monkeypatch.setattr(collectives, "MOST_S", 0.0)
    assert failing(decide("coll.solver", {})) == [
        "annealed cost / proven optimum, rings of 16, at most: 1.02",
        "64 hosts, ring: 0 s at most",
    ]


def test_without_the_exact_solver_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (exact, collectives):
        monkeypatch.setattr(module, "is_installed", lambda: False)
    found = decide("coll.solver", {})
    assert found.verdict == UNDECIDED
    assert "2 seeds: pip install" in found.checks[0].why


RATIOS = dict.fromkeys((RING, GLOO, *OTHERS), 4.0)


def reordered(ratios: Mapping[str, float], forests: Mapping[str, float], verdict: str = "VALID") -> Run:
    """A run whose worst orders are slower by these ratios, while their forests have others."""
    trials = []
    for name, times in ratios.items():
        for order, seconds, bound_s in ((BEST, 0.4, 0.38), (WORST, 0.4 * times, 0.38 * forests[name])):
            made = trial(f"{name}, {order}", 32, Times(seconds, pace_s=0.0), verdict=verdict)
            trials.append(replace(made, metrics=replace(made.metrics, gst_theory_s=bound_s)))
    return run(trials)


def test_a_sums_time_does_not_depend_on_when_ranks_begin() -> None:
    """Rank 0 has each sum, and so its next gradient, 0.3 s before the others."""
    made = trial("ring, worst", 32, Times(1.0, pace_s=0.0))
    assert made.samples is not None
    early = made.samples["rank"] == 0
    drifted = made.samples.assign(
        sum_s=made.samples["sum_s"] - 0.3 * early, ready_s=made.samples["ready_s"] - 0.3 * early
    )
    times = sum_to_sum_s(replace(made, samples=drifted))
    assert times == pytest.approx(sum_to_sum_s(made))
    assert times == pytest.approx(1.0, rel=0.05)
    assert len(times) == len(gst_s(made))


def test_orders_gain_what_forests_say() -> None:
    ratios = {**RATIOS, OTHERS[0]: 1.2, OTHERS[3]: 2.0}
    found = decide("coll.reorder", {REORDER.spec: reordered(ratios, ratios)})
    assert [check.why for check in found.checks if check.verdict != HOLDS] == []
    rows = {row.name: row for row in found.rows}
    assert rows["ring: worst / best"].theory == pytest.approx(4)
    assert rows["halving-doubling: worst / best"].theory == pytest.approx(1.2)
    bound_row = rows["BCube, worst: a sum's time over its forest's bound"].interval
    assert bound_row
    assert bound_row.value == pytest.approx(0.4 / 0.38, rel=0.01)


@pytest.mark.parametrize(
    ("ratios", "says"),
    [
        ({RING: 3.4}, ["ring: worst / best: the forests' ratio, within 10%", "more"]),
        ({"BCube": 3.5}, ["BCube: worst / best: the forests' ratio, within 10%"]),
        ({"BCube": 4.3}, ["BCube: worst / best, over the ring's: 1.05 at most"]),
    ],
)
def test_orders_that_gain_something_else_fail(ratios: dict[str, float], says: list[str]) -> None:
    failed = failing(decide("coll.reorder", {REORDER.spec: reordered({**RATIOS, **ratios}, RATIOS)}))
    assert failed[0] == says[0]
    assert len(failed) == (6 if "more" in says else 1)  # a ring that gains less: each of the others gains more


def test_invalid_trials_decide_nothing() -> None:
    found = decide("coll.reorder", {REORDER.spec: reordered(RATIOS, RATIOS, "INVALID")})
    assert found.verdict == UNDECIDED
    assert "ring, best: INVALID in GST (CPU headroom)" in found.checks[0].why


def drawn(best_s: float = 0.4, median_s: float = 1.4, draws: int = 15) -> Run:
    """A run of random orders, the n-th of which is slower by n - 8 hundredths, and of the best one."""
    randoms = [
        replace(trial(RANDOM, 32, Times(median_s + (n - 8) / 100)), point={"order.draw": n})
        for n in range(1, draws + 1)
    ]
    return run([*randoms, trial(BEST, 32, Times(best_s))])


def test_the_best_order_is_faster_than_random_ones() -> None:
    found = decide("coll.random", {ORDERS.spec: drawn()})
    assert [check.why for check in found.checks if check.verdict != HOLDS] == []
    median, fastest, slowest = (row.interval for row in found.rows)
    assert median
    assert slowest
    assert fastest
    assert [each.value for each in (median, slowest, fastest)] == pytest.approx([3.5, 1.47 / 0.4, 0.4 / 1.33], rel=1e-3)
    assert all(row.theory for row in found.rows)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"best_s": 0.6}, ["median random order / best: 3 at least"]),
        (
            {"best_s": 1.45},
            ["best / fastest random order: 1.03 at most", "median random order / best: 3 at least"],
        ),
    ],
)
def test_random_orders_otherwise(changed: dict[str, Any], says: list[str]) -> None:
    assert failing(decide("coll.random", {ORDERS.spec: drawn(**changed)})) == says


def test_a_draw_that_was_not_run_leaves_it_open() -> None:
    assert decide("coll.random", {ORDERS.spec: drawn(draws=14)}).verdict == UNDECIDED


def predicted(order: Mapping[int, float], arms: tuple[str, ...] = (GLOO,)) -> Run:
    """A run of orders by percentile: predicted costs rise with it, and GST (s) is as given."""

    def ordered(label: str, percentile: int) -> Trial:
        search = FoundOrder(
            order=[],
            cost_s=0.01 + 1e-4 * percentile,
            by_number_s=1.0,
            best_s=0.01,
            worst_s=0.02,
            bound_s=None,
            proven=False,
        )
        made = trial(label, 32, Times(order[percentile]))
        found = Found("", "latency", {}, {}, 1.0, search)
        at: dict[str, Any] = {"order.percentile": percentile}
        return replace(
            made, point=at, found=(found,), metrics=replace(made.metrics, gst_theory_s=order[percentile] / 2)
        )

    return run([ordered(label, percentile) for label in arms for percentile in PERCENTILES])


RISING = {percentile: 0.4 + 0.01 * percentile for percentile in PERCENTILES}


def test_predictions_rank_orders_as_times_do() -> None:
    found = decide("coll.spearman", {SPEARMAN.spec: predicted(RISING)})
    assert [check.why for check in found.checks if check.verdict != HOLDS] == []
    gloo, mpi = found.rows
    assert gloo.interval
    assert (gloo.interval.value, gloo.theory) == pytest.approx((1, 1))
    assert gloo.paper == (0.58, 0.78)
    assert (mpi.interval, mpi.theory) == (None, None)
    assert gloo.ours
    assert (gloo.ours.valid, gloo.ours.trials) == (10, 10)
    both = decide("coll.spearman", {SPEARMAN.spec: predicted(RISING, (GLOO, MPI))})
    assert both.rows[1].interval


def test_predictions_that_do_not_rank_them_fail() -> None:
    falls = dict(zip(RISING, reversed(RISING.values()), strict=True))
    found = decide("coll.spearman", {SPEARMAN.spec: predicted(falls)})
    assert failing(found) == ["Gloo: Spearman's coefficient: 0.58 at least"]


def test_an_order_that_was_not_run_leaves_the_coefficient_open() -> None:
    whole = predicted(RISING)
    part = replace(whole, trials=whole.trials[1:])
    found = decide("coll.spearman", {SPEARMAN.spec: part})
    assert found.verdict == UNDECIDED
    assert "Gloo: was not run" in found.checks[0].why


@pytest.mark.parametrize("name", [claim.name for claim in PAPER.claims if claim.experiments])
def test_what_was_not_run_does_not_hold(name: str) -> None:
    assert decide(name, {}).verdict != HOLDS


def test_hosts_of_a_good_order_are_in_their_rack() -> None:
    near, far = near_and_far()
    assert sorted(near) == sorted(far) == [*range(16)]
    assert bound("ring", near) < bound("ring", [*range(16)]) <= bound("ring", far)
    assert np.isclose(bound("ps", near), bound("ps", far))
