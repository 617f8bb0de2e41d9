"""What the kind declares: rings of groups, plans that come back from files, least times, and bytes that must match."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.base.errors import SpecError, WorkerError
from testbed.topologies.build import build
from testbed.workloads import kinds
from testbed.workloads.kinds.hybrid.parts import HeldOperators
from testbed.workloads.kinds.hybrid.plan import HybridCost, Plan
from testbed.workloads.kinds.hybrid.schemes import planned
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.strategy import Strategy, read
from testbed.workloads.sync.cost import Shaper
from tests.workloads.kinds.hybrid.test_hybrid_plan import SMALL, TWO

star = partial(build, rate_bps=8 * 10**6)
"""A megabyte a second."""
SEEN = ("mp_wait_forward_s", "mp_wait_backward_s", "late_s")


def made(scheme: str, model: Model, given: Any, servers: int = 4) -> Plan:
    return planned(scheme, star(f"star(hosts={servers})"), model, read(model, servers, given))


def test_rings_of_groups_are_those_that_the_scheme_names() -> None:
    given = {"a": [0, 2], "rest": "all"}
    everyone = (0, 1, 2, 3)
    assert made("ring", TWO, given).rings == {everyone: [everyone], (0, 2): [(0, 2)]}
    strides = made("multi_ring(strides=[1,3])", TWO, given).rings
    assert strides == {everyone: [[0, 1, 2, 3], [0, 3, 2, 1]], (0, 2): [[0, 2], [0, 2]]}
    named = made("multi_ring(permutations=[[0,2,1,3],[2,0],[3,1,2,0]])", TWO, given)
    assert named.rings == {everyone: [(0, 2, 1, 3), (3, 1, 2, 0)], (0, 2): [(2, 0)]}
    assert named.scheme == "multi_ring(permutations=[[0,2,1,3],[2,0],[3,1,2,0]])"


def test_a_group_of_which_nobody_says_how_to_sum_is_refused() -> None:
    with pytest.raises(SpecError, match=r"multi_ring has no permutation of \[0, 2\], a group of the strategy"):
        made("multi_ring(permutations=[[0,1,2,3]])", TWO, {"a": [0, 2], "rest": "all"})


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    plan = made("multi_ring(strides=[1,3])", SMALL, {"e0": [0], "e1": [1, 2], "rest": "all"})
    kinds.save(plan, tmp_path / "plan")
    again = kinds.load(tmp_path / "plan")
    assert isinstance(again, Plan)
    assert (again.scheme, again.nodes, again.workers) == (plan.scheme, plan.nodes, plan.workers)
    assert (again.model.operators, again.strategy) == (plan.model.operators, plan.strategy)
    assert (again.messages, again.layout) == (plan.messages, plan.layout)
    assert list(again.flows) == list(plan.flows)
    encoded, twice = (kinds.of(one).encode(one) for one in (plan, again))
    assert all(np.array_equal(encoded[name], twice[name]) for name in encoded.keys() | twice.keys())


def test_what_is_held_elsewhere_makes_another_plan() -> None:
    """So that a trial with another strategy has another identity, even where bytes are the same."""
    one, other = (made("ring", SMALL, {"e0": [server], "rest": "all"}) for server in (0, 1))
    assert kinds.of(one).encode(one)["hybrid"] != kinds.of(other).encode(other)["hybrid"]


def test_least_times_by_hand() -> None:
    """``e`` is on server 0 and ``b`` on both; ``a`` only on server 1. Multiply-adds are the same in each, so of the
    pace server 0 has 2/3 for ``e`` (both servers' samples) and 1/3 for ``b``, and server 1 2/3 for ``a`` and 1/3.
    Each sends ``b``'s 1,600 bytes once in an AllReduce of two: 1.6 ms at a megabyte a second."""
    plan = made("ring", TWO, {"e": [0], "a": [1], "b": "all"}, 2)
    kind = kinds.of(plan)
    assert HeldOperators().paces(plan) == pytest.approx((1.0, 1.0))
    cost = kinds.cost(plan, star("star(hosts=2)"), 1600)
    assert isinstance(cost, HybridCost)
    assert cost.bound_s() == pytest.approx(0.0016)
    assert cost.wire_bytes == pytest.approx(2 * 1600 + sum(one.bytes for one in plan.messages if not one.is_local))
    pace_s = np.array([[0.1, 0.2], [0.3, 0.1]])
    # Either may end an iteration last: 0.1 s each time. Server 1 alone computes for 0.4 s, and sends partial sums of
    # 800 bytes before it gets the sum.
    assert kind.least_jct_s(cost, Shaper(), pace_s, "none") == pytest.approx(0.4 + 2 * 0.0008)
    alike_s = np.full((2, 3), 0.1)
    assert kind.least_jct_s(cost, Shaper(), alike_s, "none") == pytest.approx(3 * (0.1 + 0.0016))


def test_least_times_include_messages() -> None:
    """Without computing, each of three iterations has at least the bytes of the busiest link, messages and sums."""
    plan = made("ring", TWO, {"e": [0], "a": [1], "b": "all"}, 2)
    cost = kinds.cost(plan, star("star(hosts=2)"), 1600)
    busiest_s = float(cost.link_bytes.max()) / 1e6
    assert busiest_s > 0.0016 + 0.0006
    assert kinds.of(plan).least_jct_s(cost, Shaper(), np.zeros((2, 3)), "none") == pytest.approx(3 * busiest_s)


def test_a_server_that_holds_less_computes_for_less() -> None:
    plan = made("ring", TWO, {"e": [0], "rest": "all"}, 2)
    assert HeldOperators().paces(plan) == pytest.approx((4 / 3, 2 / 3))


def told(plan: Plan, sent: dict[int, dict[int, int]], iterations: int) -> object:
    done = [
        {"name": plan.nodes[node], "payload_bytes": {str(to): count for to, count in those.items()}}
        for node, those in sent.items()
    ]
    waits = {"mp_wait_forward_s": 0.5, "mp_wait_backward_s": 0.25, "late_s": 0.0, "overrun_s": 0.0}
    samples = pd.DataFrame(
        [{"iteration": i, "rank": rank, **waits} for i in range(iterations) for rank in plan.workers]
    )
    return kinds.of(plan).told(plan, samples, done, iterations).medians


def test_bytes_between_servers_are_those_of_the_plan() -> None:
    plan = made("ring", TWO, {"e": [0], "rest": "all"}, 2)
    each = {(src, dst): round(count) for src, dst, count in plan.flows}
    sent = {src: {dst: 3 * each[src, dst]} for src, dst in each}
    assert told(plan, sent, 3) == ("mp_wait_forward_s", "mp_wait_backward_s")
    sent[1][0] += 4
    with pytest.raises(WorkerError, match=r"h1 sent .* to h0, where the plan of 3 iterations has"):
        told(plan, sent, 3)


def test_an_overrun_that_made_nothing_longer_is_none() -> None:
    """A step was 30 ms late on one server. It counts as far as some server waited, or was done late, in that iteration:
    not in 0, for 20 ms in 1 and 2, for 30 ms in 3."""
    plan = made("ring", TWO, {"e": [0], "rest": "all"}, 2)
    changed_s = [(0.0, 0.0, 0.0), (0.02, 0.0, 0.0), (0.0, 0.005, 0.015), (0.5, 0.0, 0.0)]
    samples = pd.DataFrame(
        [
            {"iteration": i, "rank": rank, "overrun_s": 0.03 * rank, **dict(zip(SEEN, found, strict=True))}
            for i, each in enumerate(changed_s)
            for rank, found in enumerate([each, (0.0, 0.0, 0.0)])
        ]
    )
    sent = {(src, dst): 4 * round(count) for src, dst, count in plan.flows}
    done = [
        {"name": plan.nodes[node], "payload_bytes": {str(to): n for (src, to), n in sent.items() if src == node}}
        for node in plan.workers
    ]
    found = kinds.of(plan).told(plan, samples, done, 4).samples
    assert found.groupby("iteration")["overrun_s"].max().tolist() == pytest.approx([0, 0.02, 0.02, 0.03])


def test_a_strategy_of_another_number_of_servers_is_refused() -> None:
    with pytest.raises(SpecError, match="the strategy is for 3 servers"):
        planned("ring", star("star(hosts=4)"), TWO, Strategy(3, ((0, 1, 2),) * 3))
