"""Synchronisations of schemes as traces."""

from __future__ import annotations

from collections import Counter

import pytest

import testbed
from testbed.base.errors import SchemeError
from testbed.topologies.build import build
from testbed.workloads.play.exchange import in_order
from testbed.workloads.sync.chunks import cut, whole
from testbed.workloads.sync.messages import messages
from testbed.workloads.trace.graph import Kind, Node, check, order
from testbed.workloads.trace.transfers import transfers

BPS = 8_000_000


def _of(ranks: dict[int, list[Node]], kind: Kind) -> list[Node]:
    return [node for nodes in ranks.values() for node in nodes if node.kind == kind]


def of(scheme: str, network: str, floats: int = 2**16) -> tuple[list[str], dict[int, list[Node]]]:
    """Transfers of a scheme on a network."""
    return transfers(testbed.forest(scheme, network).model, floats, build(network, rate_bps=BPS))


@pytest.mark.parametrize(("hosts", "sends", "nbytes"), [(4, 24, 262_144), (8, 112, 131_072)])
def test_a_ring_of_a_mebibyte(hosts: int, sends: int, nbytes: int) -> None:
    names, ranks = of("ring", f"star(hosts={hosts})", 2**18)
    assert names == [f"h{i}" for i in range(hosts)]
    assert [node.bytes for node in _of(ranks, Kind.COMM_SEND)] == [nbytes] * sends
    assert len(_of(ranks, Kind.COMM_RECV)) == sends


@pytest.mark.parametrize(
    ("scheme", "network"),
    [
        ("ps", "star(hosts=5)"),
        ("bml", "bcube(n=2,k=2)"),
        ("two_level", "spine_leaf(racks=2,hosts_per_rack=2,spines=1)"),
        ("halving_doubling", "star(hosts=8)"),
        ("switchml", "star(hosts=4,ina=all)"),
        ("tree", "star(hosts=6)"),
    ],
)
def test_each_send_is_received_and_ranks_keep_the_order_of_the_scheme(scheme: str, network: str) -> None:
    forest = testbed.forest(scheme, network).model
    _, ranks = of(scheme, network)
    ordered = check(ranks, {})
    for rank, nodes in ordered.items():
        last: dict[int, int] = {}
        for node in nodes:
            if node.kind == Kind.COMM_SEND:
                assert node.control == ((last[node.peer],) if node.peer in last else ()), (scheme, rank)
                last[node.peer] = node.id
    sent = Counter(node.bytes for node in _of(ranks, Kind.COMM_SEND))
    assert sent == Counter(one.bytes for one in messages(forest, whole(forest, 2**16)))


def test_a_rank_issues_the_more_urgent_of_two_sends_first() -> None:
    _, ranks = of("ps", "star(hosts=4)")
    first = [node for node in order(ranks[0], "rank 0") if node.kind == Kind.COMM_SEND and not node.after]
    assert [node.priority for node in first] == sorted((node.priority for node in first), reverse=True)


def test_an_asynchronous_scheme_has_none() -> None:
    with pytest.raises(SchemeError, match="transfers of async_ps in a trial of the kind asynchronous are not known"):
        of("async_ps", "star(hosts=4)")


def test_a_trace_of_too_many_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.workloads.trace.transfers.MOST_MESSAGES", 23)
    with pytest.raises(SchemeError, match="ring has 24 messages; a trace has at most 23"):
        of("ring", "star(hosts=4)")


def test_between_several_connections_the_order_is_that_of_the_simplest_network() -> None:
    network = "star(hosts=5,server_nics=2,routing=every_nic)"
    forest = testbed.forest("ps(colocated=false)", network).model
    chunks = whole(forest, 2**16)
    assert in_order(forest, chunks, build(network, rate_bps=BPS)) == list(messages(forest, chunks))


def test_chunks_are_messages_of_their_own() -> None:
    forest = testbed.forest("ring", "star(hosts=4)").model
    _, ranks = transfers(
        forest, 2**16, build("star(hosts=4)", rate_bps=BPS), lambda one: cut(one, 2**16, [(0, 2**16)], 2**15)
    )
    assert [node.bytes for node in _of(ranks, Kind.COMM_SEND)] == [2**15] * 48
    check(ranks, {})
