"""Synchronisations of schemes as traces."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from xml.etree import ElementTree

import pytest

import testbed
from testbed.base.errors import SchemeError, TopologyError
from testbed.topologies.build import build
from testbed.workloads.play.exchange import in_order
from testbed.workloads.sync.chunks import cut, whole
from testbed.workloads.sync.messages import messages
from testbed.workloads.trace.graph import Kind, Node, check, order
from testbed.workloads.trace.transfers import algorithm, network_file, transfers

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


def run(text: bytes) -> list[list[list[int]]]:
    """Run an algorithm to its end; return the contributions in each chunk of each rank, by the rank they are of."""
    algo = ElementTree.fromstring(text)
    ranks, chunks = int(algo.get("ngpus", 0)), int(algo.get("nchunksperloop", 0))
    buffers = [[[rank] for _ in range(chunks)] for rank in range(ranks)]
    wires: dict[tuple[int, int], deque[list[list[int]]]] = defaultdict(deque)
    blocks = {
        (int(gpu.get("id", -1)), int(tb.get("id", -1))): (int(tb.get("send", -1)), int(tb.get("recv", -1)), list(tb))
        for gpu in algo
        for tb in gpu
    }
    done = dict.fromkeys(blocks, 0)
    moved = True
    while moved:
        moved = False
        for (rank, block), (send, receive, steps) in blocks.items():
            while done[rank, block] < len(steps):
                step = steps[done[rank, block]]
                kind, first, count = step.get("type"), int(step.get("srcoff", -1)), int(step.get("cnt", -1))
                other, number = int(step.get("depid", -1)), int(step.get("deps", -1))
                if other >= 0 and done[rank, other] <= number:
                    break
                if other >= 0:
                    assert blocks[rank, other][2][number].get("hasdep") == "1"
                wire = wires[receive, rank]
                if kind == "s":
                    wires[rank, send].append([list(chunk) for chunk in buffers[rank][first : first + count]])
                elif kind in ("r", "rrc"):
                    if not wire:
                        break
                    came = wire.popleft()
                    assert len(came) == count
                    for place, chunk in enumerate(came, first):
                        buffers[rank][place] = chunk + (buffers[rank][place] if kind == "rrc" else [])
                else:
                    assert kind == "nop"
                done[rank, block] += 1
                moved = True
    assert all(done[key] == len(steps) for key, (_, _, steps) in blocks.items())
    assert not any(wires.values())
    return buffers


@pytest.mark.parametrize(
    ("scheme", "network", "chunks"),
    [
        ("ring", "star(hosts=4)", 4),
        ("tree", "star(hosts=6)", 1),
        ("double_binary_tree", "star(hosts=7)", 2),
        ("ps", "star(hosts=5)", 5),
        ("halving_doubling", "star(hosts=8)", 8),
        ("bml", "bcube(n=2,k=2)", 8),
        ("two_level", "spine_leaf(racks=2,hosts_per_rack=2,spines=1)", 4),
    ],
)
def test_every_rank_ends_with_each_contribution_once(scheme: str, network: str, chunks: int) -> None:
    made = testbed.forest(scheme, network).model
    ended = run(algorithm(made, 2**16))
    assert all(len(rank) == chunks for rank in ended)
    assert all(sorted(chunk) == list(range(len(made.workers))) for rank in ended for chunk in rank)


def test_a_ring_has_two_blocks_a_rank_and_its_steps_are_s_rrc_and_r() -> None:
    algo = ElementTree.fromstring(algorithm(testbed.forest("ring", "star(hosts=4)").model, 2**16))
    for rank, gpu in enumerate(algo):
        told = {(tb.get("send"), tb.get("recv")): [step.get("type") for step in tb] for tb in gpu}
        assert told == {
            (str((rank + 1) % 4), "-1"): ["s"] * 6,
            ("-1", str((rank - 1) % 4)): ["rrc"] * 3 + ["r"] * 3,
        }


@pytest.mark.parametrize(
    ("scheme", "network", "told"),
    [
        ("switchml", "star(hosts=4,ina=all)", "switchml adds on s0, and MSCCL has only ranks"),
        (
            "async_ps",
            "star(hosts=4)",
            "transfers of async_ps in a trial of the kind asynchronous are not known beforehand",
        ),
    ],
)
def test_others_are_refused(scheme: str, network: str, told: str) -> None:
    with pytest.raises(SchemeError) as caught:
        algorithm(testbed.forest(scheme, network).model, 2**16)
    assert caught.value.problem.startswith(told)


@pytest.mark.parametrize(
    ("text", "delay_s", "shape", "count", "latency"),
    [
        ("star(hosts=4)", 0.0, "Switch", 4, "0.0"),
        ("patch_panel(servers=4,degree=2,rings=[1])", 1e-6, "Ring", 4, "2000.0"),
        ("patch_panel(servers=5,degree=3,rings=[1])", 0.0, "Ring", 5, "0.0"),
    ],
)
def test_a_star_is_a_switch_and_a_ring_of_circuits_a_ring(
    text: str, delay_s: float, shape: str, count: int, latency: str
) -> None:
    topology = build(text, rate_bps=8_000_000_000, delay_s=delay_s)
    assert network_file(topology, topology.hosts) == (
        f"topology: [ {shape} ]\nnpus_count: [ {count} ]\nbandwidth: [ 1 ]  # GB/s\nlatency: [ {latency} ]  # ns\n"
    )


def test_other_networks_have_none() -> None:
    for text in ("fat_tree(k=4)", "bcube(n=2,k=2)", "patch_panel(servers=8,degree=2,rings=[3])"):
        topology = build(text, rate_bps=8_000_000_000, delay_s=0.0)
        with pytest.raises(TopologyError, match="neither by one switch nor in a ring by their numbers"):
            network_file(topology, topology.hosts)
    ring = build("patch_panel(servers=4,degree=2,rings=[1])", rate_bps=1_000_000, delay_s=0.0)
    with pytest.raises(TopologyError, match="neither"):
        network_file(ring, [0, 2, 1, 3])
