"""Verdicts: right where the truth is known, seldom wrong where nothing changed, and never from what must not decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.analysis.cell import Cell
from testbed.analysis.comparing.compare import LEVEL, REPEATS, THRESHOLDS, Comparison, compare, least_repeats
from testbed.analysis.comparing.measured import Measured, Side, replaced
from testbed.analysis.numbers.statistics import p_differ
from testbed.base import exits
from testbed.base.errors import IncomparableError, UsageError
from testbed.comparison.options import exit_code

from ..sides import RING, about, measured, side, with_verdicts

PS = Cell("PS", 16)
GST = {"gst": THRESHOLDS["gst"]}


def verdicts(found: Comparison) -> dict[str, str]:
    return {one.metric: one.verdict for one in found.judged}


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.05, "worse"), (1.0, "same"), (1.01, "same"), (0.95, "better"), (1.03, "inconclusive")]
)
def test_a_change_of_known_size(factor: float, verdict: str) -> None:
    found = compare(side("a", {RING: about(0.2)}), side("b", {RING: about(0.2 * factor, seed=2)}), thresholds=GST)
    assert verdicts(found) == {"gst": verdict}


def test_more_samples_a_second_are_better() -> None:
    base, new = side("a", {RING: about(0.2)}), side("b", {RING: about(0.3, seed=2)})
    assert set(verdicts(compare(base, new)).values()) == {"worse"}
    assert set(verdicts(compare(new, base)).values()) == {"better"}
    found = {one.metric: one for one in compare(base, new).judged}
    assert found["throughput"].ratio is not None
    assert found["throughput"].ratio.high < 1 < found["throughput"].slowdown.low  # type: ignore[union-attr]


@settings(max_examples=25)
@given(st.lists(st.floats(0.98, 1.02), min_size=10, max_size=10, unique=True), st.floats(0.5, 2))
def test_worse_and_better_are_each_others_mirror(values: list[float], factor: float) -> None:
    base, new = side("a", {RING: values}), side("b", {RING: [factor * value for value in reversed(values)]})
    there, back = (compare(*pair, thresholds=GST).judged[0].verdict for pair in ((base, new), (new, base)))
    assert (there, back) not in {("worse", "worse"), ("better", "better"), ("same", "worse"), ("same", "better")}
    if factor > 1.15:  # whatever ten values within 2 % are
        assert (there, back) == ("worse", "better")


@pytest.mark.parametrize("spread", [0.02, 0.3])
def test_identical_runs_are_not_called_worse_however_much_repeats_scatter(spread: float) -> None:
    """150 comparisons of two cells: at 1 % one expects 1 or 2, and 5 or more once in 50 times; the seed is fixed."""
    generator = np.random.default_rng(7)
    cells = [RING, PS]
    alarms = 0
    for _ in range(150):
        base, new = (
            side(name, {cell: list(generator.lognormal(0, spread, REPEATS)) for cell in cells}) for name in "ab"
        )
        alarms += bool(compare(base, new, thresholds=GST).of("worse"))
    assert alarms <= 4


def test_noise_below_the_threshold_hides_no_slowdown_of_5_percent() -> None:
    generator = np.random.default_rng(8)
    found = []
    for _ in range(100):
        base, new = generator.normal(0.2, 0.002, REPEATS), generator.normal(0.21, 0.002, REPEATS)  # 1 % of scatter
        found.append(bool(compare(side("a", {RING: base}), side("b", {RING: new}), thresholds=GST).of("worse")))
    assert sum(found) >= 95


def test_few_repeats_decide_nothing_and_say_how_many_would() -> None:
    found = compare(side("a", {RING: about(0.2, 5)}), side("b", {RING: about(0.3, 5)}))
    assert set(verdicts(found).values()) == {"inconclusive"}
    assert found.judged[0].why == "too few repeats: 5 and 5, and 3 tests want 6 each"
    assert not found.suspicious  # as many again would say no more
    assert set(verdicts(compare(side("a", {RING: about(0.2, 6)}), side("b", {RING: about(0.3, 6)}))).values()) == {
        "worse"
    }


@pytest.mark.parametrize("tests", [1, 3, 18, 375, 1800])
def test_the_fewest_repeats_are_those_whose_test_can_be_significant(tests: int) -> None:
    repeats = least_repeats(tests)
    apart = [p_differ(range(n), range(n, 2 * n)) for n in (repeats, repeats - 1)]
    assert tests * apart[0] <= LEVEL < tests * apart[1]
    assert repeats <= REPEATS


def test_the_test_has_a_say_beside_the_interval() -> None:
    """One repeat of ten is as fast as ever; among 31 cells that is not rare enough."""
    others = {Cell("ring", batch): about(0.1) for batch in range(100, 130)}
    base = [1.0 + i / 100 for i in range(10)]
    new = [0.9, *(1.2 * value for value in base[1:])]
    found = compare(side("a", {RING: base, **others}), side("b", {RING: new, **others}), thresholds=GST).judged[0]
    assert found.ratio is not None
    assert found.ratio.low > 1.03
    assert (found.verdict, found.why) == (
        "inconclusive",
        "beyond the threshold, but the test does not confirm it (p = 0.047)",
    )
    alone = compare(side("a", {RING: base}), side("b", {RING: new}), thresholds=GST).judged[0]
    assert alone.verdict == "worse"


def test_cells_are_judged_apart_and_corrected_together() -> None:
    base = side("a", {RING: about(0.2), PS: about(0.1, seed=3)})
    new = side("b", {RING: about(0.21, seed=2), PS: about(0.1, seed=4)})
    found = compare(base, new, thresholds=GST)
    assert [(one.cell, one.verdict) for one in found.judged] == [(RING, "worse"), (PS, "same")]
    alone = compare(base, side("b", {RING: about(0.21, seed=2)}), thresholds=GST)
    assert found.judged[0].p_value == pytest.approx(2 * (alone.judged[0].p_value or 0))
    assert alone.judged[1].why == "b does not have it"
    assert alone.judged[1].verdict == "inconclusive"


def test_arms_of_one_run_are_compared_in_pairs() -> None:
    """What slows a pair of repeats slows both, and is not seen."""
    slow = np.random.default_rng(5).uniform(1, 1.4, 12)
    run = side("a", {RING: 0.2 * slow, PS: 0.21 * slow})
    found = compare(run, run, arms=[("ring", "PS")], thresholds=GST)
    assert found.paired
    assert found.judged[0].ratio is not None
    assert found.judged[0].ratio.low == pytest.approx(1.05)
    apart = compare(run, replace(run, path=run.path / "other"), arms=[("ring", "PS")], thresholds=GST)
    assert not apart.paired
    assert apart.judged[0].ratio is not None
    assert apart.judged[0].ratio.low < 1 < apart.judged[0].ratio.high


def test_arms_of_which_one_alone_sweeps_a_field_are_compared_at_each_of_its_values() -> None:
    few, many = (Cell("PS", 16, (("scheme.servers", count),)) for count in "14")
    run = side("a", {RING: about(0.2), few: about(0.3, seed=2), many: about(0.2, seed=3)})
    found = {one.cell: one for one in compare(run, run, arms=[("PS", "ring")], thresholds=GST).judged}
    assert (found[few].verdict, found[many].verdict) == ("better", "same")
    with pytest.raises(IncomparableError) as raised:
        compare(run, run, arms=[("ring", "PS")])
    assert raised.value.problem == (
        "nothing to compare: ring, batch 16: 2 cells of PS would do, which differ in scheme.servers"
    )


WITHOUT_PARTNER = {
    "batch": ([Cell("PS", 16), Cell("PS", 64)], "PS has no batch 32 in a, only 16 and 64"),
    "value": (
        [Cell("PS", 32, (("topology.hosts", "4"),)), Cell("PS", 32, (("topology.hosts", "8"),))],
        "PS has no topology.hosts=2, only 4 and 8",
    ),
    "values": (
        [Cell("PS", 32, (("arm.rate", "100"), ("topology.hosts", "4")))],
        "PS has no arm.rate=200, only 100, and no topology.hosts=2, only 4",
    ),
    "together": (
        [
            Cell("PS", 32, (("arm.rate", "100"), ("topology.hosts", "2"))),
            Cell("PS", 32, (("arm.rate", "200"), ("topology.hosts", "4"))),
        ],
        "PS does not have these values together",
    ),
}


@pytest.mark.parametrize("case", WITHOUT_PARTNER)
def test_a_cell_without_a_partner_is_told_once_with_the_setting_that_differs(case: str) -> None:
    others, why = WITHOUT_PARTNER[case]
    cell = Cell("ring", 32, (("arm.rate", "200"), ("topology.hosts", "2")), "rate=200 bit/s, hosts=2")
    run = side("a", {cell: about(0.2)} | {other: about(0.2, seed=i) for i, other in enumerate(others)})
    with pytest.raises(IncomparableError) as raised:
        compare(run, run, arms=[("ring", "PS")])
    assert raised.value.problem == f"nothing to compare: ring, batch 32, rate=200 bit/s, hosts=2: {why}"


def test_pairs_need_both_halves() -> None:
    run = side("a", {RING: about(0.2), PS: about(0.3, seed=2)})
    half = replace(run, trials=run.trials[1:15])  # ring's first and PS's last are gone
    found = compare(half, half, arms=[("ring", "PS")], thresholds=GST).judged[0]
    assert len(found.base) == len(found.new) == 4
    assert found.base == tuple(one.values["gst"] for one in run.trials[1:5])


def test_invalid_and_failed_trials_never_decide() -> None:
    base = side("a", {RING: about(0.2)})
    spoilt = [measured(RING, 20 + i, 9.0, verdict) for i, verdict in enumerate(["INVALID", "FAILED"] * 10)]
    new = replace(side("b", {RING: about(0.2, seed=2)}), trials=(*spoilt, *side("b", {RING: about(0.2)}).trials))
    found = compare(base, new)
    assert set(verdicts(found).values()) == {"same"}
    assert len(found.left_out) == 20
    nothing = replace(new, trials=tuple(spoilt))
    with pytest.raises(IncomparableError, match="a has 10 VALID; b has 10 FAILED, 10 INVALID"):
        compare(base, nothing, accept_failures=True)


def test_trials_of_arms_that_are_not_compared_are_not_left_out() -> None:
    bml = Cell("BML", 32)
    cells = {cell: about(0.2, seed=seed) for seed, cell in enumerate((RING, PS, bml))}
    spoilt = tuple(measured(cell, 10, 9.0, "INVALID") for cell in cells)
    run = replace(side("a", cells), trials=(*side("a", cells).trials, *spoilt))
    new = replace(side("b", cells), trials=run.trials)
    assert {one.id for one in compare(run, run, arms=[("ring", "PS")]).left_out} == {one.id for one in spoilt[:2]}
    told = compare(run, new, arms=[("ring", "PS")]).left_out
    assert [(one.side, one.id) for one in told] == [("a", spoilt[0].id), ("b", spoilt[1].id)]


def in_jct(one: Measured, verdict: str) -> Measured:
    """The trial with that verdict of its JCT, and so of its throughput."""
    return replace(one, verdict="INVALID", verdicts=dict(one.verdicts) | {"jct": verdict, "throughput": verdict})


def test_each_metric_is_judged_by_its_own_verdict() -> None:
    """All JCTs are INVALID, and twice as long; no GST is."""
    base, new = side("a", {RING: about(0.2)}), side("b", {RING: about(0.2, seed=2)})
    spoilt = [replace(one, values=dict(one.values) | {"jct": 2 * one.values["jct"]}) for one in new.trials]
    new = replace(new, trials=tuple(in_jct(one, "INVALID") for one in spoilt))
    found = compare(base, new)
    assert verdicts(found) == {"gst": "same", "jct": "inconclusive", "throughput": "inconclusive"}
    gst, jct, _ = found.judged
    assert (len(gst.new), gst.unmeasured) == (10, False)
    assert (jct.new, jct.unmeasured, jct.why) == ((), True, "b has no VALID trial with it (10 INVALID)")
    assert {(one.side, one.verdict, one.metrics) for one in found.left_out} == {("b", "INVALID", ("jct", "throughput"))}
    with pytest.raises(IncomparableError, match="only VALID trials count: a has 10 VALID; b has 10 INVALID"):
        compare(base, new, thresholds={"jct": 0.03})
    played = [replace(one, trials=tuple(in_jct(trial, "SIMULATED") for trial in one.trials)) for one in (base, new)]
    with pytest.raises(IncomparableError, match="a has 10 SIMULATED") as refused:
        compare(*played, thresholds={"jct": 0.03})
    assert refused.value.fix == "testbed report a b --out FILE has them side by side, and says how far off they are"
    mixed = replace(new, trials=(*new.trials[:4], *side("b", {RING: about(0.2, seed=2)}).trials[4:]))
    assert [len(one.new) for one in compare(base, mixed).judged] == [10, 6, 6]


def test_a_metric_that_is_invalid_on_both_sides_is_told_beside_one_that_is_valid() -> None:
    """The gate was asked about JCT, so it does not pass; JCT decides nothing, and takes no test from GST."""
    sides = [side(name, {RING: about(0.2, seed=i)}) for i, name in enumerate("ab")]
    base, new = (replace(one, trials=tuple(in_jct(trial, "INVALID") for trial in one.trials)) for one in sides)
    new = replace(new, trials=tuple(replace(one, spoilt_by={"jct": ("stalls", "CPU steal")}) for one in new.trials))
    found = compare(base, new)
    assert verdicts(found) == {"gst": "same", "jct": "inconclusive", "throughput": "inconclusive"}
    gst, jct, throughput = found.judged
    assert (jct.unmeasured, throughput.unmeasured) == (True, True)
    assert jct.why == "INVALID on both sides: a has 10 INVALID; b has 10 INVALID, failed checks: stalls, CPU steal"
    assert throughput.why == "INVALID on both sides: a has 10 INVALID; b has 10 INVALID"
    assert exit_code(found, accept_inconclusive=True) == exits.UNDECIDED
    asked_gst = compare(base, new, thresholds=GST)
    assert (verdicts(asked_gst), exit_code(asked_gst)) == ({"gst": "same"}, exits.OK)
    assert asked_gst.judged[0].p_value == gst.p_value
    unlike = replace(new, trials=(in_jct(new.trials[0], "UNWATCHED"), *new.trials[1:]))
    assert compare(base, unlike).judged[2].why == (
        "not VALID on both sides: a has 10 INVALID; b has 9 INVALID, 1 UNWATCHED"
    )


def failing(count: int, of: int = 10, seed: int = 2) -> Side:
    """A side of whose trials the first ones FAILED, and the others are as fast as ever."""
    return with_verdicts(side("b", {RING: about(0.2, of, seed=seed)}), *["FAILED"] * count)


def test_more_failures_than_in_the_baseline_are_found() -> None:
    base = side("a", {RING: about(0.2)})
    found = compare(base, failing(4), thresholds=GST)
    assert verdicts(found) == {"gst": "same"}
    assert [(one.cell, one.arm, one.base, one.new) for one in found.failures] == [(RING, "ring", (0, 10), (4, 10))]
    assert not found.failures_accepted
    assert compare(base, failing(4), thresholds=GST, accept_failures=True).failures_accepted
    as_before = replace(failing(4, seed=1), name="a", path=base.path)
    assert not compare(as_before, failing(4), thresholds=GST).failures
    assert not compare(as_before, failing(6, of=15), thresholds=GST).failures  # as large a share
    assert compare(as_before, failing(7, of=15), thresholds=GST).failures
    assert not compare(as_before, failing(0), thresholds=GST).failures


def test_where_every_trial_failed_that_is_found_though_nothing_can_be_compared() -> None:
    found = compare(side("a", {RING: about(0.2)}), failing(10), thresholds=GST)
    assert found.failures[0].new == (10, 10)
    assert verdicts(found) == {"gst": "inconclusive"}
    with pytest.raises(IncomparableError, match="b has 10 FAILED"):
        compare(side("a", {RING: about(0.2)}), failing(10), thresholds=GST, accept_failures=True)


def test_failures_of_what_was_measured_again_are_not_forgotten() -> None:
    new = replaced(failing(4), side("b", {RING: about(0.2, seed=3)}))
    assert compare(side("a", {RING: about(0.2)}), new, thresholds=GST).failures[0].new == (4, 20)


def test_how_many_more_trials_a_decision_needs_is_known() -> None:
    """Of three tests: six and five repeats can decide, ten and four, too; three want eleven."""

    def lacking(base: int, valid: int) -> dict[Cell, int]:
        new = with_verdicts(side("b", {RING: about(0.3, 10)}), *["INVALID"] * (10 - valid))
        return compare(side("a", {RING: about(0.2, base)}), new).lacking

    assert [lacking(6, valid) for valid in (5, 4, 1)] == [{}, {RING: 1}, {RING: 4}]
    assert [lacking(10, valid) for valid in (4, 3)] == [{}, {RING: 1}]
    assert [lacking(3, valid) for valid in (10, 2)] == [{RING: 1}, {RING: 9}]


def test_a_cell_whose_failures_decide_lacks_no_trials() -> None:
    base = side("a", {RING: about(0.2, 6)})
    assert compare(base, failing(6)).lacking == {}
    assert compare(base, failing(6), accept_failures=True).lacking == {RING: 1}


def test_a_cell_without_valid_trials_is_inconclusive_beside_one_that_has_them() -> None:
    base = side("a", {RING: about(0.2), PS: about(0.1)})
    new = with_verdicts(side("b", {PS: about(0.1, seed=2), RING: about(0.2, seed=2)}), *["INVALID"] * 10)
    found = {one.cell: one for one in compare(base, new, thresholds=GST).judged}
    assert found[PS].why == "b has no VALID trial with it (10 INVALID)"
    assert (found[PS].verdict, found[RING].verdict) == ("inconclusive", "same")
    with pytest.raises(IncomparableError, match="PS of b has no VALID trial with it") as refused:
        compare(base, new, arms=[("ring", "PS")], thresholds=GST)
    assert refused.value.fix.startswith("testbed report RUN says why trials are not VALID")


def test_nothing_in_common_is_no_pass() -> None:
    with pytest.raises(IncomparableError, match="nothing to compare: a has ring, batch 16; b has PS, batch 16"):
        compare(side("a", {RING: about(0.2)}), side("b", {PS: about(0.2)}))
    many = {Cell("PS", batch): about(0.2) for batch in (8, 16, 32)}
    with pytest.raises(IncomparableError, match="a has ring, batch 16; b has 3 cells, such as PS, batch 8\n"):
        compare(side("a", {RING: about(0.2)}), side("b", many))
    with pytest.raises(IncomparableError, match="b has no trial"):
        compare(side("a", {RING: about(0.2)}), side("b", {}))


def test_a_run_is_not_compared_with_itself() -> None:
    run = side("a", {RING: about(0.2), PS: about(0.2)})
    for arms in (None, [("ring", "ring")]):
        with pytest.raises(UsageError, match="a would be compared with itself"):
            compare(run, run, arms=arms)


def test_points_of_a_sweep_are_cells_of_their_own() -> None:
    slow, fast = (Cell("ring", 16, (("links.rate", rate),)) for rate in ("100 Mbit/s", "200 Mbit/s"))
    base = side("a", {slow: about(0.4), fast: about(0.2)})
    new = side("b", {slow: about(0.4, seed=2), fast: about(0.25, seed=3)})
    found = {one.cell: one.verdict for one in compare(base, new, thresholds=GST).judged}
    assert found == {slow: "same", fast: "worse"}


def test_what_looks_slower_is_suspicious_until_it_was_measured_again() -> None:
    base = side("a", {RING: about(0.2), PS: about(0.2)})
    new = side("b", {RING: about(0.25), PS: about(0.2, seed=3)})
    assert compare(base, new).suspicious == (RING,)
    some = [0.198, 0.199, 0.200, 0.201, 0.2065, 0.2085, 0.213, 0.214, 0.215, 0.216]
    noisy = side("b", {RING: some, PS: about(0.2, seed=3)})
    found = compare(base, noisy, thresholds=GST)
    assert found.judged[0].verdict == "inconclusive"
    assert found.suspicious == (RING,)
    assert compare(base, replace(new, again=frozenset([RING]))).suspicious == ()


def test_metrics_that_a_workload_does_not_have_are_not_asked_for() -> None:
    """A command has no GST."""
    sides = [side(name, {RING: about(0.2, seed=i)}) for i, name in enumerate("ab")]
    without = [
        replace(one, trials=tuple(replace(t, values={"jct": t.values["jct"]}) for t in one.trials)) for one in sides
    ]
    assert verdicts(compare(*without)) == {"jct": "same"}
    with pytest.raises(IncomparableError, match="neither a nor b has gst"):
        compare(*without, thresholds=GST)
    lost = verdicts(compare(sides[0], without[1]))
    assert lost == {"gst": "inconclusive", "jct": "same", "throughput": "inconclusive"}


def test_a_new_scheme_under_an_old_label_is_told() -> None:
    base, new = side("a", {RING: about(0.2)}), side("b", {RING: about(0.1)})
    new = replace(new, arms={"ring": {**new.arms["ring"], "scheme": "tree"}})
    assert compare(base, new).schemes == ("ring: ring in a, tree in b",)
