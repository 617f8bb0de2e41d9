"""Workers agree on the next plan by one number in each sum, whoever has which lines."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import SchemeError, SpecError, WorkerError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.kinds.asked import Asked
from testbed.workloads.kinds.tuned.ballot import MOST_AHEAD, Ballot
from testbed.workloads.kinds.tuned.kind import MOST_PARENTS
from testbed.workloads.process.told import MOST_BYTES
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.told_plans import along, read, told

STAR = build_topology("star(hosts=3)", rate_bps=100)
FIRST = build("two_level(groups=[[0,1,2]],classes=2,tune=true)", STAR, [])
NEXT = [[-1, 0, 0], [1, -1, 1]]


def line(number: object, parents: object = NEXT) -> bytes:
    return json.dumps({"time": 1.5, "plan": number, "parents": parents}).encode()


def settle(*ballots: Ballot) -> list[bool]:
    """Whether each worker has switched after an iteration."""
    total = float(np.float32(sum(ballot.vote() for ballot in ballots)))
    return [ballot.count(total) is not None for ballot in ballots]


def test_all_switch_once_all_have_the_plan_and_none_before() -> None:
    workers = [Ballot(FIRST) for _ in range(3)]
    assert settle(*workers) == [False] * 3
    for late in (1, 2):
        assert workers[late].take(line(1)) is None
        assert settle(*workers) == [False] * 3
    assert workers[0].take(line(1)) is None
    assert settle(*workers) == [True] * 3
    assert [worker.plan for worker in workers] == [1] * 3
    assert settle(*workers) == [False] * 3, "until there is another one"


def test_the_plan_is_that_of_the_line() -> None:
    ballot = Ballot(FIRST)
    ballot.take(json.dumps(told(2.0, 1, np.array(NEXT))).encode())
    agreed = ballot.count(3.0)
    assert agreed is not None
    assert agreed.reduce.tolist() == [[-1, 0, 0, -2], [1, -1, 1, -2]] == agreed.broadcast.tolist()
    kinds.verify(agreed, STAR)


def test_a_plan_that_is_told_twice_or_late_is_left_out() -> None:
    workers = [Ballot(FIRST) for _ in range(3)]
    for worker in workers:
        worker.take(line(1))
        assert worker.take(line(1, [[0, -1, 0]] * 2)) == "plan 1: it is told twice"
    assert settle(*workers) == [True] * 3
    assert workers[0].take(line(1)) == "plan 1: it comes late, after plan 1 was settled"
    assert workers[0].take(line(2 + MOST_AHEAD)) == "plan 1002: plan 2 is the next one"
    assert settle(*workers) == [False] * 3


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (line(1)[:30], "a line that is no plan: "),
        (line(1)[:30] + line(2), "a line that is no plan: "),
        (b"\xff", "a line that is no plan: "),
        (b"[" * 100_000, "a line that is no plan: "),
        (b"{}", "a line that is no plan: {} has no number of a plan"),
        (line(0), "a line that is no plan: "),
        (line(True), "a line that is no plan: "),
        (line("1"), "a line that is no plan: "),
        (line(1, None), "plan 1: its parents are object[], not int[2, 3]"),
        (line(1, NEXT[:1]), "plan 1: its parents are int64[1, 3], not int[2, 3]"),
        (line(1, [[-1, 0, 0, 0]] * 2), "plan 1: its parents are int64[2, 4], not int[2, 3]"),
        (line(1, [[-1, 0, 0], [0, -1]]), "plan 1: its parents are float64[0], not int[2, 3]"),
        (line(1, [[-1, 0, 0.5]] * 2), "plan 1: its parents are float64[2, 3], not int[2, 3]"),
        (line(1, [[-1, 0, 3]] * 2), "plan 1: its parents are -1 to 3, of 3 hosts"),
        (line(1, [[-1, 0, 2**40]] * 2), "plan 1: its parents are -1 to 1099511627776, of 3 hosts"),
        (line(1, [[-1, 0, -2]] * 2), "plan 1: scheme "),
        (line(1, [[-1, -1, 0]] * 2), "plan 1: scheme "),
        (line(1, [[-1, 2, 1]] * 2), "plan 1: scheme "),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_plan_that_is_broken_or_of_another_model_is_left_out_by_all_and_the_next_one_is_taken(
    broken: bytes, why: str
) -> None:
    """One worker gets the broken line, and the others a right one of that number."""
    workers = [Ballot(FIRST) for _ in range(3)]
    said = workers[1].take(broken)
    assert said is not None
    assert said.startswith(why)
    for worker in (workers[0], workers[2]):
        assert worker.take(line(1)) is None
    assert settle(*workers) == [False] * 3
    for worker in workers:
        assert worker.take(line(2)) is None
    assert sorted(settle(*workers) for _ in range(2)) == [[False] * 3, [True] * 3]
    assert [worker.plan for worker in workers] == [2] * 3


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), world=st.integers(1, 6))
def test_whoever_gets_which_lines_when_all_follow_the_same_plans(seed: int, world: int) -> None:
    """Lines come to each worker at other times, and some get lost, are wrong, or come twice."""
    draw = random.Random(seed)
    topology = build_topology(f"star(hosts={world})", rate_bps=100)
    first = build(f"two_level(groups=[{[*range(world)]}],classes=1,tune=true)".replace(" ", ""), topology, [])
    workers, inboxes = [Ballot(first) for _ in range(world)], [list[bytes]() for _ in range(world)]
    followed: list[list[int]] = [[] for _ in range(world)]
    last = 12
    for number in range(1, last + 1):
        root = draw.randrange(world)
        right = line(number, [[root if host != root else -1 for host in range(world)]])
        for inbox in inboxes:
            inbox += draw.choice([[right]] * 8 + [[right, right], [], [right[:20], right[20:]], [line(number, 7)]])
        for _ in range(draw.randrange(3)):
            for worker, inbox in zip(workers, inboxes, strict=True):
                while inbox and draw.random() < 0.5:
                    worker.take(inbox.pop(0))
            switched = settle(*workers)
            assert len(set(switched)) == 1
            for worker, those in zip(workers, followed, strict=True):
                those.append(worker.plan)
    for worker, inbox in zip(workers, inboxes, strict=True):
        for late in [*inbox, line(last + 1, [[-1] + [0] * (world - 1)])]:
            worker.take(late)
    for _ in range(last + 1):
        assert len(set(settle(*workers))) == 1
    assert all(those == followed[0] for those in followed)
    assert [worker.plan for worker in workers] == [last + 1] * world, "no lost plan stops the later ones"


def test_a_sum_of_many_workers_is_exact() -> None:
    assert float(np.float32(4000 + 4001)) == 8001


def test_a_controller_is_told_why_parents_make_no_sums() -> None:
    with pytest.raises(SchemeError, match="its parents are int64"):
        along(FIRST, np.array(NEXT[:1]))


def test_a_plan_is_small_enough_to_be_told() -> None:
    kind, asked = kinds.of(FIRST), Asked("none", False, "none", 3, True, True, "netns")
    classes = MOST_PARENTS // 8
    nets = [build_topology(f"star(hosts={hosts})", rate_bps=100) for hosts in (8, 9)]
    most, more = (
        build(f"two_level(groups=[{[*net.hosts]}],classes={classes},tune=true)".replace(" ", ""), net, [])
        for net in nets
    )
    kind.refuse(most, nets[0], asked)
    longest = json.dumps(told(1e9, 1, np.full((classes, 8), 99_999))).encode()
    assert len(longest) < MOST_BYTES
    assert read(longest)[0] == 1
    with pytest.raises(SpecError, match="65,536 classes of 9 hosts") as caught:
        kind.refuse(more, nets[1], asked)
    assert caught.value.fix == "give it classes=58254 or fewer"


def test_samples_of_different_plans_in_one_iteration_fail_the_trial() -> None:
    import pandas as pd

    samples = pd.DataFrame({"iteration": [0, 0, 1, 1], "rank": [0, 1, 0, 1], "plan": [0, 0, 1, 0]})
    kind = kinds.of(FIRST)
    assert kind.told(FIRST, samples[:2], [], 1).samples is not None
    with pytest.raises(WorkerError, match=r"different plans of .* in iteration 1"):
        kind.told(FIRST, samples, [], 2)


def test_any_two_workers_are_connected_and_the_kind_has_what_a_forest_has(topology: Callable[..., Topology]) -> None:
    net = topology("star(hosts=4)")
    plain, tuned = (build(f"two_level(groups=[[0,1],[2,3]]{more})", net, []) for more in ("", ",tune=true"))
    kind = kinds.of(tuned)
    assert (plain.kind, tuned.kind, kind.name) == ("forest", "tuned", "tuned")
    assert all(len(process.meets) == 3 for process in kind.processes(tuned))
    assert np.array_equal(plain.reduce, tuned.reduce)
    assert (kind.cost(tuned, net, 1e6).link_bytes == kinds.of(plain).cost(plain, net, 1e6).link_bytes).all()
    assert kind.chunk_bytes(tuned, 1e6, 8e8) == kinds.of(plain).chunk_bytes(plain, 1e6, 8e8)
    assert kind.decode(kind.encode(tuned)).kind == "tuned"
