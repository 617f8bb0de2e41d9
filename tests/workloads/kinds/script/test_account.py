"""What the collectives of a script come to."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from testbed.base.check import ALL
from testbed.topologies.build import build
from testbed.workloads.kinds.base import Told
from testbed.workloads.kinds.ranks import Account, Call, Compared, Failed, Logged, RankRows
from testbed.workloads.kinds.script import checks
from testbed.workloads.kinds.script.account import account, allowed, bus_factor, collectives, covered_s
from testbed.workloads.kinds.script.measures import ScriptMeasures
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build as build_forest
from tests.workloads.kinds.script.made import call, ranks, sums

TOPOLOGY = build("star(hosts=2)", rate_bps=8_000_000, delay_s=0.0)
PLAN = scripted(build_forest("ring", TOPOLOGY, [1]))


def found(told: list[RankRows], warmup: int = 0, plan: Forest = PLAN) -> Account:
    return account(plan, TOPOLOGY, told, warmup)


def test_gst_begins_when_the_last_rank_asks_for_the_last_sum_and_ends_when_the_last_rank_has_it() -> None:
    first, second = ranks(sums([4000] * 3))
    late = [replace(one, asked_s=one.asked_s + 0.02, done_s=one.done_s + 0.05) for one in second.calls]
    samples = found([first, replace(second, calls=late)]).samples
    assert samples is not None
    by = samples.groupby("iteration")
    assert list((by["sum_s"].max() - by["ready_s"].max()).round(6)) == [0.13] * 3
    assert list(samples.loc[samples["rank"] == 0, "start_s"].round(6)) == [0.5, 1.1, 2.1]


def test_an_iteration_of_several_sums_is_ready_with_the_last_one() -> None:
    samples = found(ranks(sums([400, 900] * 2, every_s=0.5))).samples
    assert samples is not None
    assert list(samples["ready_s"][:2]) == [1.5, 2.5]
    assert list(samples["sum_s"][:2]) == [1.6, 2.6]


def test_an_iteration_ends_at_the_mark() -> None:
    samples = found(ranks(sums([700] * 2), marks_s=(1.5, 2.5))).samples
    assert samples is not None
    assert list(samples["end_s"][:2]) == [1.5, 2.5]
    assert list(samples["start_s"][:2]) == [0.5, 1.5]


def test_a_sum_that_is_noted_after_the_mark_belongs_before_it() -> None:
    calls = [call(i, 700, 1.0 + i, took_s=0.55 if i == 1 else 0.1) for i in range(3)]  # Gloo's thread was late once
    logged = [Logged(1.3 + i, {"loss": 3.0 - i}) for i in range(3)]
    samples = found(ranks(calls, logged=logged, marks_s=(1.5, 2.5, 3.5))).samples
    assert samples is not None
    assert list(samples["end_s"][:3]) == [1.5, 2.5, 3.5]
    assert list(samples["sum_s"][:3]) == [1.1, 2.5, 3.1]
    assert list(samples["loss"][:3]) == [3.0, 2.0, 1.0]


def test_what_the_script_waits_for_is_exposed_and_the_rest_is_hidden() -> None:
    calls = [call(i, 700, 1.0 + i, took_s=0.4, waited_s=0.1) for i in range(3)]
    assert found(ranks(calls), warmup=1).metrics == pytest.approx(
        {"exposed_s": 0.1, "hidden_s": 0.3, "throughput_sps": None, "connect_s": None}
    )


def test_who_adds_for_others_is_at_work_while_collectives_are_on_their_way() -> None:
    calls = [call(i, 700, 1.0 + i, took_s=0.4, waited_s=0.1) for i in range(3)]
    samples = found(ranks(calls)).samples
    assert samples is not None
    assert ScriptMeasures().adding_s(samples) == (pytest.approx(1.2), "while collectives were on their way")


def test_a_wait_that_is_not_seen_is_from_the_last_bucket_to_the_last_sum() -> None:
    """As of DDP, which waits for futures of all its buckets at the end of the backward pass."""
    calls = [call(i, 400 + 500 * (i % 2), 1.0 + 0.5 * i, took_s=0.6 - 0.2 * (i % 2), waited_s=None) for i in range(4)]
    metrics = found(ranks(calls)).metrics
    assert metrics["exposed_s"] == pytest.approx(0.4)
    assert metrics["hidden_s"] == pytest.approx(0.5)  # the first bucket is asked for 0.5 s before the last


def test_the_time_of_a_call_itself_counts_as_waited_for() -> None:
    """It has copies of arrays and plans in it. DDP's own wait begins with its last call."""
    seen = found(ranks([call(i, 400, 1.0 + i, took_s=0.3, waited_s=0.1, asking_s=0.2) for i in range(4)]))
    assert seen.metrics["exposed_s"] == pytest.approx(0.3)
    assert seen.collectives[0]["waited_s"] == pytest.approx(0.3)
    calls = [call(i, 400 + i % 2, 1.0 + 0.5 * i, took_s=0.4, waited_s=None, asking_s=0.05) for i in range(8)]
    assert found(ranks(calls)).metrics["exposed_s"] == pytest.approx(0.05 + 0.4)


def of_power_sgd(**first: object) -> list[Call]:
    """Three iterations of a hook that asks for a sum at 0 s, computes from 0.2 to 0.5 s, and asks for another one."""
    return [
        one
        for i in range(3)
        for one in (
            call(2 * i, 700, 1.0 + i, took_s=0.2, **{"waited_s": None, **first}),
            call(2 * i + 1, 400, 1.5 + i, took_s=0.1, waited_s=None, chained=True),
        )
    ]


def test_what_a_hook_computes_between_its_sums_is_not_waited_for() -> None:
    metrics = found(ranks(of_power_sgd())).metrics
    assert metrics["exposed_s"] == pytest.approx(0.3)
    assert metrics["hidden_s"] == pytest.approx(0.0)


def test_a_wait_whose_beginning_nobody_saw_is_unknown() -> None:
    of = found(ranks(of_power_sgd(waited_s=0.2)))
    assert (of.metrics["exposed_s"], of.metrics["hidden_s"]) == (None, None)
    assert of.samples is not None
    busy_s = (of.samples["end_s"] - of.samples["start_s"]).groupby(of.samples["iteration"]).max().sum()
    assert ScriptMeasures().adding_s(of.samples)[0] == pytest.approx(busy_s)


@pytest.mark.parametrize(
    ("spans", "total_s"), [([], 0.0), ([(0, 1), (2, 4)], 3.0), ([(0, 3), (1, 2)], 3.0), ([(1, 3), (0, 2)], 3.0)]
)
def test_spans_that_overlap_count_once(spans: list[tuple[float, float]], total_s: float) -> None:
    assert covered_s(spans) == total_s


def test_losses_and_samples_are_those_that_the_script_tells() -> None:
    logged = [Logged(1.2 + i, {"loss": 3.0 - i, "samples": 16.0}) for i in range(3)]
    of = found(ranks(sums([700] * 3), logged=logged), warmup=1)
    assert of.samples is not None
    assert list(of.samples["loss"][:3]) == [3.0, 2.0, 1.0]
    # Two ranks tell of 16 samples three times, from their meeting at 0.5 s to the end of the last iteration at 3.1 s.
    assert of.metrics["throughput_sps"] == pytest.approx(2 * 3 * 16 / 2.6)


def test_samples_that_are_told_before_marks_are_of_their_iterations() -> None:
    logged = [Logged(1.3 + i, {"samples": 16.0}) for i in range(4)]  # the last one after the last mark, as of a test
    of = found(ranks(sums([700] * 3), logged=logged, marks_s=(1.5, 2.5, 3.5)), warmup=1)
    assert of.metrics["throughput_sps"] == pytest.approx(2 * 3 * 16 / 3.0)


def test_samples_that_are_no_number_give_no_throughput() -> None:
    logged = [Logged(1.2 + i, {"samples": math.inf}) for i in range(3)]
    assert found(ranks(sums([700] * 3), logged=logged)).metrics["throughput_sps"] is None


def test_a_script_without_repetition_has_collectives_and_no_iterations() -> None:
    of = found(ranks(sums([300, 400])))
    assert (of.samples, of.cost) == (None, None)
    assert [one["bytes"] for one in of.collectives] == [300, 400]


def test_the_warmup_leaves_an_iteration() -> None:
    assert found(ranks(sums([700] * 2)), warmup=9).warmup == 1


def test_each_link_has_the_bytes_of_all_sums() -> None:
    of = found(ranks(sums([4000] * 3)))
    assert of.cost is not None
    once = cost(PLAN, TOPOLOGY, 4000)
    np.testing.assert_allclose(of.cost.link_bytes, once.link_bytes)
    assert of.cost.bound_s() == pytest.approx(once.bound_s())


def test_sums_before_the_iterations_are_on_the_links_and_not_in_the_bound() -> None:
    of = found(ranks(sums([9000, 4000, 4000])))
    assert of.cost is not None
    once = cost(PLAN, TOPOLOGY, 4000)
    np.testing.assert_allclose(of.cost.link_bytes, once.link_bytes * 17 / 8)  # of 17,000 bytes in two iterations
    assert of.cost.bound_s() == pytest.approx(once.bound_s())


def test_collectives_are_told_by_kind_and_size() -> None:
    calls = [*sums([1_000_000] * 2, every_s=5.0), call(2, 5000, 20.0, op="broadcast", root=0)]
    (large, small) = collectives(PLAN, TOPOLOGY, ranks(calls))
    assert (large["op"], large["bytes"], large["count"]) == ("allreduce", 1_000_000, 2)
    assert large["median_s"] == pytest.approx(0.1)
    assert large["algbw_bps"] == large["busbw_bps"] == pytest.approx(8e7)
    assert large["least_s"] == pytest.approx(1.0)
    assert (small["op"], small["least_s"]) == ("broadcast", None)


def test_messages_of_some_ranks_are_counted_one_by_one_and_change_no_sums() -> None:
    """The second rank sends twice, and the first one receives from somebody else."""
    first, second = ranks(sums([700] * 3))
    sends = [call(i, 50, 1.2 + i, op="send", by="direct", root=0) for i in range(2)]
    told = [
        replace(first, calls=[*first.calls, call(0, 90, 1.5, op="recv", by="direct", root=1)], nonfinite=[(0, 0, "x")]),
        replace(second, calls=[*sends, *second.calls]),
    ]
    assert {one["op"]: one["count"] for one in found(told).collectives} == {"allreduce": 3, "recv": 1, "send": 2}
    samples = found(told).samples
    assert samples is not None
    assert list(samples["nonfinite"][:3]) == [1, 0, 0]


def test_only_sums_of_all_ranks_have_the_bound_of_the_schemes_trees() -> None:
    among_some = replace(call(0, 1_000_000, 1.0), group=1, ranks=1)
    (one,) = collectives(PLAN, TOPOLOGY, ranks([among_some]))
    assert (one["by"], one["least_s"]) == ("scheme", None)


@pytest.mark.parametrize(
    ("op", "factor"),
    [("allreduce", 1.5), ("reduce_scatter", 0.75), ("all_gather", 0.75), ("broadcast", 1.0), ("barrier", None)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(op: str, factor: float | None) -> None:
    assert bus_factor(op, 4) == factor


def test_a_sum_that_differs_from_gloos_by_more_than_rounding_is_found() -> None:
    bad = [Compared(0, 1, "float32", 1e-3), Compared(0, 0, "float32", 1e-8)]
    samples = found(ranks(sums([700] * 2), compared=bad)).samples
    assert samples is not None
    assert samples["sum_error"][0] < 1 < samples["sum_error"][1]


def test_switches_that_add_in_fixed_point_may_round_more() -> None:
    topology = build("star(hosts=2,ina=all)", rate_bps=1_000_000, delay_s=0.0)
    switch = scripted(build_forest("switchml", topology, [1]))
    assert allowed("float32", switch) > 100 * allowed("float32", PLAN)
    assert allowed("int32", switch) == allowed("int32", PLAN) < 1e-15


def test_numbers_that_are_not_finite_are_found_where_they_arose() -> None:
    samples = found(ranks(sums([700] * 3), nonfinite=[(0, 1, "input")])).samples
    assert samples is not None
    assert list(samples["nonfinite"][:3]) == [0, 1, 0]
    assert math.isnan(samples["sum_error"][0])


def test_checks_name_the_first_rank_and_iteration_with_odd_numbers() -> None:
    first, second = ranks(sums([700] * 3), compared=[Compared(0, 2, "float32", 1e-8)])
    samples = found([first, replace(second, nonfinite=[(0, 1, "sum")])]).samples
    compared, finite = checks.checks(Told(samples))
    assert compared.ok
    assert not finite.ok
    assert "first on rank 1 in iteration 1" in finite.detail


def test_collectives_that_failed_are_counted_by_rank_and_add_no_sums() -> None:
    errors = [Failed(1, 0, "allreduce", 1, "RuntimeError: no room"), Failed(1, 0, "barrier", None, "ValueError: no")]
    first, second = ranks(sums([700] * 3))
    told = found([first, replace(second, failed=errors)])
    assert (found([first, second]).sums, told.sums, told.failed) == (3, 2, errors)
    others = [Failed(rank, 7, "broadcast", 0, "OSError: none") for rank in (0, 2, 3)]
    (check,) = checks.checks(Told(pd.DataFrame(), failed=[*errors, *others]))
    assert (check.name, check.value, check.ok, check.threatens, check.machine) == ("collectives", 5, False, ALL, False)
    assert check.detail == (
        "5 failed; rank 0: 1, the first was broadcast 0 of group 7 (OSError: none), rank 1: 2, the first was allreduce "
        "1 of group 0 (RuntimeError: no room), rank 2: 1, the first was broadcast 0 of group 7 (OSError: none) and 1 "
        "more"
    )
    (check,) = checks.checks(Told(pd.DataFrame(), failed=[]))
    assert (check.ok, check.value, check.detail) == (True, 0.0, "none failed on any rank")
