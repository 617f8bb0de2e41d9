"""The order in which nodes of a rank are issued, and ranks that wait for each other."""

from __future__ import annotations

import math

import pytest

from testbed.base.errors import SpecError
from testbed.workloads.trace.agenda import Agenda, check_ends
from testbed.workloads.trace.graph import Collective, Kind, Node, order


def _send(number: int, peer: int, tag: int, *after: int, priority: int = 0) -> Node:
    return Node(number, "", Kind.COMM_SEND, after, bytes=64, peer=peer, tag=tag, priority=priority)


def _recv(number: int, peer: int, tag: int, *after: int) -> Node:
    return Node(number, "", Kind.COMM_RECV, after, bytes=64, peer=peer, tag=tag)


def _sum(number: int, group: str, *after: int) -> Node:
    return Node(number, "", Kind.COMM_COLL, after, bytes=64, collective=Collective.ALL_REDUCE, group=group)


def test_the_more_urgent_of_two_sends_is_issued_first() -> None:
    agenda = Agenda(order([_send(1, 1, 1), _send(2, 1, 2, priority=1)], "rank 0"), range(2), {}, 1.0)
    agenda.begin(0.0)
    assert list(agenda.issued()) == [2, 1]
    assert not agenda.is_over


@pytest.mark.parametrize(("streams", "whole_s"), [((0, 0, 0, 0), 0.010), ((0, 0, 1, 0), 0.008)])
def test_a_diamond_takes_its_longest_way(streams: tuple[int, ...], whole_s: float) -> None:
    after = {1: (), 2: (1,), 3: (1,), 4: (2, 3)}
    nodes = [
        Node(number, "", Kind.COMP, after[number], duration_us=1000 * number, stream=(True, stream))
        for number, stream in enumerate(streams, 1)
    ]
    agenda = Agenda(order(nodes, "rank 0"), range(1), {}, 1.0)
    for begun_s in (0.0, 5.0):
        agenda.begin(begun_s)
        while not agenda.is_over:
            assert not list(agenda.issued())
            at_s = agenda.due_s
            agenda.computed()
        assert at_s - begun_s == pytest.approx(whole_s)
        assert agenda.due_s == math.inf


def test_ranks_that_go_on_are_no_error() -> None:
    crossed = {0: [_send(1, 1, 1), _recv(2, 1, 2, 1)], 1: [_send(1, 0, 2), _recv(2, 0, 1, 1)]}
    check_ends(crossed, {})
    check_ends({0: [_sum(1, "a"), _sum(2, "b", 1)], 1: [_sum(1, "b"), _sum(2, "a")]}, {"a": (0, 1), "b": (0, 1)})


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        (
            {0: [_recv(1, 1, 2), _send(2, 1, 1, 1)], 1: [_recv(1, 0, 1), _send(2, 0, 2, 1)]},
            "rank 0 for node 1 (receive of 64 bytes from rank 1, tag 2), "
            "rank 1 for node 1 (receive of 64 bytes from rank 0, tag 1)",
        ),
        (
            {0: [_sum(1, "a"), _send(2, 1, 1, 1)], 1: [_recv(1, 0, 1), _sum(2, "a", 1)]},
            "rank 0 for node 1 (ALL_REDUCE of 64 bytes in group a), "
            "rank 1 for node 1 (receive of 64 bytes from rank 0, tag 1)",
        ),
    ],
)
def test_ranks_that_wait_for_each_other_are_named(ranks: dict[int, list[Node]], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        check_ends(ranks, {"a": (0, 1)})
    assert caught.value.problem == f"ranks wait for each other for ever: {told}"
