"""Asynchronous trials in simulated time: worked examples, and whether they keep the rules of servers' ledgers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.topologies.build import build as network
from testbed.workloads.job import Compute
from testbed.workloads.kinds.asynchronous.account import attribute, orders
from testbed.workloads.kinds.asynchronous.kind import KIND
from testbed.workloads.kinds.asynchronous.ledger import most_stale
from testbed.workloads.kinds.asynchronous.plan import replicas, staleness
from testbed.workloads.kinds.parts import Iterations
from testbed.workloads.play.changes import Planned
from testbed.workloads.play.queues import Queues
from testbed.workloads.play.wires import Wires
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build

RATE_BPS = 8_000_000
FLOATS = 250_000
"""A million bytes: a second on a link."""
CLOSE = 1e-3
"""Share by which times are longer than those of floats alone: notes and headers."""
Line = dict[str, Any]


def played(
    scheme: str,
    hosts: int,
    paces_s: Sequence[float],
    count: int = 2,
    late_s: Callable[[int, int], float] = lambda _rank, _number: 0.0,
) -> tuple[Forest, dict[int, list[Line]], list[int]]:
    """A trial's plan, its lines by node, and what was told of iterations that were done. The first workers have these
    paces, and the others the last one."""
    topology = network(f"star(hosts={hosts})", rate_bps=RATE_BPS)
    plan, done = build(scheme, topology, [FLOATS]), list[int]()
    paces_s = [*paces_s, *[paces_s[-1]] * len(plan.workers)][: len(plan.workers)]
    asked = Iterations(FLOATS, count, [Compute("paced", pace_s) for pace_s in paces_s], done.append, late_s=late_s)
    wires = Wires(topology, Queues.over(topology), Planned())
    lines_of = KIND.simulation.begin(plan, asked, wires)
    wires.run()
    said = lines_of()
    return plan, {plan.nodes.index(name): [dict(line) for line in lines] for name, lines in said.items()}, done


def table(plan: Forest, said: dict[int, list[Line]]) -> pd.DataFrame:
    """The lines of all iterations."""
    return pd.DataFrame([line for worker in plan.workers for line in said[worker][:-1]])


def test_an_update_alone_goes_there_and_back() -> None:
    plan, said, done = played("async_ps", 2, [0.5], count=3)
    samples = table(plan, said)
    assert list(samples["sum"] - samples["ready"]) == pytest.approx([2.0] * 3, rel=CLOSE)
    assert list(samples["start"]) == pytest.approx([0.0, 2.5, 5.0], rel=CLOSE)
    assert (list(samples["staleness"]), list(samples["held_s"])) == ([0, 0, 0], [0, 0, 0])
    assert done == [1, 2, 3]


def test_workers_begin_iterations_as_late_as_they_are_told_to() -> None:
    plan, said, _ = played("async_ps", 3, [0.5], late_s=lambda rank, number: 10.0 if rank and not number else 0.0)
    by_rank = {rank: own.sort_values("i") for rank, own in table(plan, said).groupby("rank")}
    assert by_rank[0]["start"].tolist()[:2] == pytest.approx([0.0, 2.5], rel=CLOSE)
    assert by_rank[1]["start"].tolist()[0] == 10.0
    assert by_rank[1]["ready"].tolist()[0] == pytest.approx(10.5)


def test_a_replica_has_an_update_before_it_is_applied() -> None:
    plan, said, _ = played("async_ps(replication=chain)", 3, [0.0], count=1)
    (sample,) = table(plan, said).to_dict("records")
    assert sample["sum"] == pytest.approx(3.0, rel=CLOSE)
    assert [tuple(each) for each in said[2][-1]["replicated"]] == [(0, 0)]


def test_a_fast_worker_makes_more_updates_than_a_slow_one() -> None:
    plan, said, done = played("async_ps", 3, [0.0, 20.0], count=4)
    counts = table(plan, said)["rank"].value_counts().to_dict()
    assert counts == {0: 7, 1: 1}  # eight in all; the slow one has begun its own at once
    assert done[-1] == 4


def test_with_a_bound_of_0_workers_wait_for_the_slowest() -> None:
    plan, said, _ = played("ssp(staleness=0)", 3, [0.0, 20.0], count=4)
    samples = table(plan, said)
    assert samples["rank"].value_counts().to_dict() == {0: 4, 1: 4}
    fast = samples[samples["rank"] == 0]
    assert fast["held_s"].min() > 15.0
    assert list(fast["sum"] - fast["ready"] - fast["held_s"]) == pytest.approx([2.0] * 4, abs=1.1)


@pytest.mark.parametrize(("slow", "order"), [(0, [0, 1, 2]), (1, [1, 2, 0]), (2, [2, 0, 1])])
def test_a_server_writes_first_to_the_worker_that_others_waited_for(slow: int, order: list[int]) -> None:
    """All are released by its gradient. Then the server's loop comes to the others, one after the other."""
    plan, said, _ = played("ssp(staleness=0)", 4, [20.0 if rank == slow else 0.0 for rank in range(3)])
    first = table(plan, said).query("i == 0").sort_values("sum")
    assert first["rank"].tolist() == order


@settings(max_examples=40, deadline=None)
@given(
    scheme=st.sampled_from(["async_ps", "ssp(staleness={s})", "ssp(staleness={s},servers=2)", "async_ps(servers=3)"]),
    bound=st.integers(0, 3),
    replicated=st.booleans(),
    paces_s=st.lists(st.floats(0, 5), min_size=1, max_size=5),
    count=st.integers(1, 4),
)
def test_servers_and_workers_tell_one_story(
    scheme: str, bound: int, replicated: bool, paces_s: list[float], count: int
) -> None:
    """As after trials of processes: orders that can be, each update a sample, none more stale than allowed."""
    scheme = scheme.format(s=bound)
    if replicated:
        scheme = f"{scheme[:-1]},replication=chain)" if "(" in scheme else f"{scheme}(replication=chain)"
    plan, said, done = played(scheme, len(paces_s) + 6, paces_s, count)
    lines = [{"name": plan.nodes[node], **own[-1]} for node, own in said.items()]
    found = orders(plan, lines, count)
    samples = table(plan, said)
    attribute(samples.rename(columns={"i": "iteration"}), found)
    assert done[-1] == count
    limit = staleness(plan)
    if limit is not None:
        assert samples["staleness"].max() <= most_stale(len(plan.workers), limit)
    assert len(replicas(plan)) == (len(found) if replicated else 0)
    assert (samples["sum"] >= samples["ready"]).all()
