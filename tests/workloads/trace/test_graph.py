"""Graphs of traces: order, checks, critical path."""

from __future__ import annotations

import pytest

from testbed.base.errors import SpecError
from testbed.workloads.trace.graph import Collective, Kind, Node, check, critical_path, order


def _comp(number: int, ms: int, *after: int, stream: int = 0) -> Node:
    return Node(number, "", Kind.COMP, after, duration_us=1000 * ms, stream=(True, stream))


def _sum(number: int, nbytes: int = 4096, group: str = "", kind: Collective = Collective.ALL_REDUCE) -> Node:
    return Node(number, "", Kind.COMM_COLL, bytes=nbytes, collective=kind, group=group)


@pytest.mark.parametrize(("stream", "whole_us"), [(0, 10_000), (1, 8_000)])
def test_a_diamond_takes_as_long_as_its_streams_allow(stream: int, whole_us: int) -> None:
    diamond = [_comp(1, 1), _comp(2, 2, 1), _comp(3, 3, 1, stream=stream), _comp(4, 4, 2, 3)]
    found_us, path = critical_path(order(diamond, "rank 0"))
    assert found_us == whole_us
    assert path == ([1, 2, 3, 4] if stream == 0 else [1, 3, 4])


def test_the_larger_priority_goes_first_then_the_smaller_id() -> None:
    sends = [
        Node(number, "", Kind.COMM_SEND, bytes=8, peer=1, tag=number, priority=priority)
        for number, priority in ((1, 0), (2, 5), (3, 0))
    ]
    assert [node.id for node in order(sends[::-1], "rank 0")] == [2, 1, 3]


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([_comp(1, 1), _comp(1, 1)], "rank 0: two nodes have the id 1"),
        ([_comp(1, 1, 7)], "rank 0: node 1 depends on node 7, which is not there"),
        (
            [_comp(1, 1, 2), _comp(2, 1, 1), _comp(3, 1, 2)],
            "rank 0: nodes depend on each other in a circle: 1 -> 2 -> 1",
        ),
    ],
)
def test_what_has_no_order_is_refused(nodes: list[Node], told: str) -> None:
    with pytest.raises(SpecError) as caught:
        order(nodes, "rank 0")
    assert caught.value.problem == told


def _send(peer: int, tag: int, nbytes: int = 8) -> Node:
    return Node(tag, "", Kind.COMM_SEND, bytes=nbytes, peer=peer, tag=tag)


def _receive(peer: int, tag: int, nbytes: int = 8) -> Node:
    return Node(tag, "", Kind.COMM_RECV, bytes=nbytes, peer=peer, tag=tag)


@pytest.mark.parametrize(
    ("ranks", "groups", "told"),
    [
        ({0: [_send(2, 7)], 1: [], 2: []}, {}, "rank 0 sends tag 7 to rank 2, which never receives it"),
        ({0: [], 1: [_receive(0, 7)]}, {}, "rank 1 receives tag 7 from rank 0, which never sends it"),
        (
            {0: [_send(1, 7, 8)], 1: [_receive(0, 7, 16)]},
            {},
            "rank 0 sends tag 7 to rank 1 with 8 bytes (node 7), which receives 16 (node 7)",
        ),
        (
            {0: [_send(5, 7)], 1: []},
            {},
            "rank 0: node 7 (send of 8 bytes to rank 5, tag 7), and the ranks are 0 to 1",
        ),
        (
            {0: [_sum(1), _sum(2, 64)], 1: [_sum(1, 64), _sum(2)]},
            {},
            "as collective 1 of a group, rank 0 asks for node 1 (ALL_REDUCE of 4096 bytes) and rank 1 asks for node 1 "
            "(ALL_REDUCE of 64 bytes)",
        ),
        (
            {0: [_sum(1)], 1: []},
            {},
            "as collective 1 of a group, rank 0 asks for node 1 (ALL_REDUCE of 4096 bytes) and rank 1 asks for nothing "
            "more",
        ),
        ({0: [], 1: []}, {"a": (0, 4)}, "group a has rank 4, and the ranks are 0 to 1"),
        (
            {0: [_sum(1, group="b")], 1: []},
            {"a": (0, 1)},
            "rank 0: node 1 (ALL_REDUCE of 4096 bytes in group b), and there are the groups a",
        ),
        (
            {0: [], 1: [_sum(1, group="a")]},
            {"a": (0,)},
            "rank 1: node 1 (ALL_REDUCE of 4096 bytes in group a), which has the ranks 0",
        ),
    ],
)
def test_ranks_that_do_not_fit_together_are_refused(
    ranks: dict[int, list[Node]], groups: dict[str, tuple[int, ...]], told: str
) -> None:
    with pytest.raises(SpecError) as caught:
        check(ranks, groups)
    assert caught.value.problem == told


@pytest.mark.parametrize(
    ("sent", "received", "found"),
    [
        ([(1, 0), (2, 7)], [(1, 0), (2, 0)], [0, 7]),
        ([(1, 3), (2, 7)], [(1, 9), (2, 0)], [9, 7]),
        ([(1, -3), (2, 0)], [(1, 0), (2, 0)], [-3, 0]),
        ([(1, 7), (1, 2)], [(1, 0), (1, 0)], [7, 2]),
        ([(1, 0), (1, 0)], [(1, 0), (1, 0)], [0, 0]),
    ],
)
def test_a_receive_without_a_priority_has_that_of_its_send(
    sent: list[tuple[int, int]], received: list[tuple[int, int]], found: list[int]
) -> None:
    sends = [_send(1, tag)._replace(id=number, priority=one) for number, (tag, one) in enumerate(sent)]
    receives = [_receive(0, tag)._replace(id=number, priority=one) for number, (tag, one) in enumerate(received)]
    by_id = {node.id: node.priority for node in check({0: sends, 1: receives}, {})[1]}
    assert [by_id[number] for number in range(len(received))] == found


def test_a_receive_is_as_urgent_as_the_later_ones_of_its_tag() -> None:
    """The urgent message cannot come before the one that was sent before it with the same tag."""
    sends = [_send(1, 7)._replace(id=1), _send(1, 7)._replace(id=2, after=(1,), priority=5)]
    receives = [_receive(0, 7)._replace(id=1), _receive(0, 7)._replace(id=2)]
    assert [node.priority for node in check({0: sends, 1: receives}, {})[1]] == [5, 5]


def test_ranks_that_fit_together_come_back_in_order() -> None:
    ranks = {0: [_comp(2, 1, 1), _sum(1), _send(1, 7)], 1: [_receive(0, 7), _sum(1)]}
    found = check(ranks, {})
    assert [node.id for node in found[0]] == [1, 2, 7]
