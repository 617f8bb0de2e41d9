"""Traces in simulated time: schemes that were exported take as long as when they are played directly."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import testbed
from testbed.topologies.build import build
from testbed.workloads.kinds.script.collectives.calls import Call, What
from testbed.workloads.kinds.script.collectives.shapes import direct_pieces
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.changes import Planned
from testbed.workloads.play.exchange import Moved
from testbed.workloads.play.fluid import Fluid
from testbed.workloads.play.player import Player
from testbed.workloads.play.synchronisation import synchronisation
from testbed.workloads.play.wires import Wires
from testbed.workloads.sync.chunks import whole
from testbed.workloads.trace import chakra
from testbed.workloads.trace.graph import Kind, Node, Trace, check
from testbed.workloads.trace.simulated import Ranks
from testbed.workloads.trace.transfers import transfers

FLOATS = 3 * 2**15
"""So many that all chunks of a scheme have the same size."""
UNEVEN_FLOATS = 100_003
BPS = 8_000_000


def play(trace: Trace, network: str, names: Sequence[str] = (), delay_s: float = 0.0) -> Ranks:
    """Play sends and receives of ranks on these nodes of a network; of hosts where none are named."""
    topology = build(network, rate_bps=BPS, delay_s=delay_s)
    number = {node.name: place for place, node in enumerate(topology.nodes)}
    nodes = [number[name] for name in names] or list(topology.hosts)

    def moves(ranks: Sequence[int], asked: Any) -> tuple[Sequence[Moved], str]:
        ends = (nodes[ranks[0]], nodes[ranks[1]])
        call = Call(What.SEND, "float32", asked.nbytes // 4)
        return [Moved(*direct_pieces(list(number), ends, call, 1 << 40), is_eager=call.nbytes <= 65_536)], "direct"

    wires = Wires(topology, Fluid(np.array(topology.rates_bps)), Planned())
    played = Ranks(trace, nodes, moves, wires, lambda _: None)
    played.play()
    return played


def trips(ranks: dict[int, list[Node]]) -> dict[int, list[Node]]:
    """Write nodes as Chakra's files, and read them again."""
    found = {}
    for rank, nodes in ranks.items():
        file = io.BytesIO()
        chakra.write(file, rank, nodes, {})
        file.seek(0)
        found[rank] = chakra.read(file, f"x.{rank}.et").nodes
    return found


EVERYWHERE = (
    "ring",
    "ps",
    "hierarchical_ps",
    "double_binary_tree",
    "halving_doubling",
    "two_level",
    "h_ar",
    "rina",
    "multi_ring(strides=[1,3])",
)
SCHEMES = {
    "star(hosts=8)": (*EVERYWHERE, "tree"),
    "bcube(n=2,k=3)": (*EVERYWHERE, "bml"),
    "fat_tree(k=4)": (*EVERYWHERE, "hierarchical"),
}
IN_THE_SUITE = {
    "star(hosts=8)": ("ring", "double_binary_tree", "halving_doubling", "h_ar", "multi_ring(strides=[1,3])", "tree"),
    "bcube(n=2,k=3)": ("ps", "halving_doubling", "two_level", "multi_ring(strides=[1,3])", "bml"),
    "fat_tree(k=4)": ("ring", "hierarchical_ps", "rina", "hierarchical"),
}


def exported() -> Iterator[object]:
    """Each scheme with chunks that have the same size and with others; most of them are rehearsed."""
    for network, schemes in SCHEMES.items():
        for scheme, floats in itertools.product(schemes, (FLOATS, UNEVEN_FLOATS)):
            is_one_of_few = scheme in IN_THE_SUITE[network] and (floats == UNEVEN_FLOATS or network == "star(hosts=8)")
            marks = () if is_one_of_few else pytest.mark.rehearse
            yield pytest.param(network, scheme, floats, marks=marks)


@pytest.mark.parametrize(("network", "scheme", "floats"), list(exported()))
def test_an_exported_scheme_takes_as_long_as_the_scheme(network: str, scheme: str, floats: int) -> None:
    pytest.importorskip("google.protobuf")
    forest = testbed.forest(scheme, network).model
    topology = build(network, rate_bps=BPS)
    *_, (direct_s, _) = Player(Arena(topology), synchronisation(forest, whole(forest, floats))).told()
    names, ranks = transfers(forest, floats, topology)
    played = play(Trace(check(trips(ranks), {}), {}), network, names)
    assert max(took[0] for took in played.iterations_s) == pytest.approx(direct_s, rel=1e-9)


@pytest.mark.parametrize(("nbytes", "asked_first"), [(20_000, 0), (1_000_000, 0), (1_000_000, 1)])
def test_the_more_urgent_of_two_messages_comes_first(nbytes: int, asked_first: int) -> None:
    """A small one leaves at once; a large one leaves when its receiver has asked for it, so that is urgent, too, with
    or without a priority of its own."""
    sends = [
        Node(number, "", Kind.COMM_SEND, bytes=number * nbytes, peer=1, tag=number, priority=priority)
        for number, priority in ((1, 0), (2, 1))
    ]
    came = [
        Node(number, "", Kind.COMM_RECV, bytes=number * nbytes, peer=0, tag=number, priority=priority)
        for number, priority in ((1, 0), (2, asked_first))
    ]
    played = play(Trace(check({0: sends, 1: came}, {}), {}), "star(hosts=2)")
    rows = sorted((row["done_s"], row["bytes"]) for row in played.lines[1] if row["kind"] == "call")
    assert [size for _, size in rows] == [2 * nbytes, nbytes]
