"""Plans in forms of other programs: one synchronisation of a scheme as a trace or as MSCCL's XML, and networks as
ASTRA-sim's analytical back end has them.

A trace has sends and receives of every node, in the order of the engine. It has no order of its own. So each send has a
priority, the earlier the larger, and a control edge from the send before it on the same connection. A node passes on
what has come, so the order depends on the network: it is that of a play on the network of the arm.

An AllReduce as MSCCL's XML has for each rank thread blocks that send chunks to a peer, or receive them from one. A
class of the forest is one or several chunks. Each rank has a thread block for what it sends to a peer, and another one
for what it receives from it. Steps are ``s`` (send), ``rrc`` (receive, add to the own chunk) and ``r`` (receive). A
step may wait for one step of another block; where it needs more, steps ``nop`` before it wait for those.

ASTRA-sim's ranks are around a switch or in a ring, with one rate and delay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import gcd
from typing import NamedTuple, cast
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from testbed.base.errors import SchemeError, TopologyError
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.plan import Plan
from testbed.workloads.play.exchange import in_order
from testbed.workloads.sync.chunks import ChunkTable, whole
from testbed.workloads.sync.forest import ABSENT, Forest
from testbed.workloads.sync.messages import Play, messages
from testbed.workloads.trace.graph import Kind, Node

MOST_MESSAGES = 1_000_000
"""The most messages of a trace that is made: their nodes take 2 GB."""


def check_known(plan: Plan) -> None:
    """Raise SchemeError if what a trial of this plan moves is not known before it runs."""
    kind = kinds.of(plan)
    if not kind.simulation.is_of_trees:
        raise SchemeError(
            f"transfers of {plan.scheme} in a trial of the kind {kind.name} are not known beforehand",
            fix="take a synchronous scheme, such as ring, for a profile or a training without a strategy",
        )


def transfers(
    plan: Plan, floats: int, network: Topology, chunks: Callable[[Forest], ChunkTable] | None = None
) -> tuple[list[str], dict[int, list[Node]]]:
    """Return the names of the nodes that take part, by rank, workers first; and by rank, what each does on a network.
    Chunks of a class are one, unless ``chunks`` cuts them.

    Raises:
        SchemeError: what moves is not known before it runs.
    """
    check_known(plan)
    plan = cast("Forest", plan)  # only trees are simulated
    others = [node for node in range(len(plan.nodes)) if node not in plan.workers]
    nodes = [
        *plan.workers,
        *(node for node in others if (plan.reduce[:, node] != ABSENT).any()),
    ]
    ranks = {node: rank for rank, node in enumerate(nodes)}
    found: dict[int, list[Node]] = {rank: [] for rank in ranks.values()}
    sent: dict[tuple[int, int], int] = {}
    received: dict[int, int] = {}  # by the number of a message, the node of its receiver that adds it or has it
    tags: dict[tuple[int, str], int] = defaultdict(lambda: len(tags))
    table = chunks(plan) if chunks else whole(plan, floats)
    if (count := int(Play(plan, table).incoming().sum())) > MOST_MESSAGES:
        problem = f"{plan.scheme} has {count:,} messages; a trace has at most {MOST_MESSAGES:,}"
        raise SchemeError(problem, fix="take fewer hosts")
    for number, one in enumerate(in_order(plan, table, network)):
        src, dst = ranks[one.src], ranks[one.dst]
        tag, called = tags[one.what.klass, one.what.phase], f"class {one.what.klass} {one.what.phase}"
        first = 3 * number + 1
        found[src].append(
            Node(
                first,
                f"{called} to {dst}",
                Kind.COMM_SEND,
                tuple(received[before] for before in one.after),
                (sent[src, dst],) if (src, dst) in sent else (),
                bytes=one.bytes,
                peer=dst,
                tag=tag,
                priority=-number,
                stream=(False, 0),
            )
        )
        sent[src, dst] = first
        came = Node(
            first + 1, f"{called} from {src}", Kind.COMM_RECV, bytes=one.bytes, peer=src, tag=tag, priority=-number
        )
        found[dst].append(came._replace(stream=(False, 0)))
        received[one.number] = first + 1
        if one.what.phase == "up":
            found[dst].append(Node(first + 2, f"{called} added", Kind.COMP, (first + 1,), stream=(False, 0)))
            received[one.number] = first + 2
    return [plan.nodes[node] for node in nodes], found


MOST_CHUNKS = 4096
"""The most chunks of an algorithm: each rank of a ring has one."""


class Step(NamedTuple):
    """A step of a thread block.

    Attributes:
        kind: ``s``, ``r``, ``rrc`` or ``nop``.
        first, chunks: the first chunk, and how many.
        after: block and number of the step that must be done before.
    """

    kind: str
    first: int
    chunks: int
    after: tuple[int, int] | None


class _Rank:
    """The thread blocks of a rank, by peer and whether they send to it."""

    def __init__(self) -> None:
        self.blocks: dict[tuple[int, bool], list[Step]] = {}
        self._numbers: dict[tuple[int, bool], int] = {}

    def add(self, peer: int, chunks: tuple[int, int], kind: str, after: set[tuple[int, int]]) -> tuple[int, int]:
        """Append a step that comes after others; return its block and number."""
        key = peer, kind == "s"
        block = self._numbers.setdefault(key, len(self._numbers))
        steps = self.blocks.setdefault(key, [])
        latest: dict[int, int] = {}
        for other, number in after:  # steps of a block follow each other, so its last one is enough
            latest[other] = max(number, latest.get(other, -1))
        latest.pop(block, None)
        waits = sorted(latest.items())
        steps += [Step("nop", 0, 0, other) for other in waits[:-1]]
        steps.append(Step(kind, *chunks, waits[-1] if waits else None))
        return block, len(steps) - 1


def algorithm(plan: Plan, floats: int) -> bytes:
    """Return the XML of a scheme's AllReduce.

    Raises:
        SchemeError: others than the workers take part, its parts are too uneven, or its transfers are not known.
    """
    check_known(plan)
    forest = cast("Forest", plan)  # only trees are simulated
    ranks = {node: rank for rank, node in enumerate(forest.workers)}
    others = [
        node for node in range(len(forest.nodes)) if node not in ranks and (forest.reduce[:, node] != ABSENT).any()
    ]
    if others or forest.members is not None:
        what = f"adds on {forest.nodes[others[0]]}" if others else "has sums of some workers alone"
        raise SchemeError(f"{plan.scheme} {what}, and MSCCL has only ranks", fix="take ring or tree")
    shares = [int(share) for share in forest.share]
    unit = gcd(*shares)
    counts = [share // unit for share in shares]
    if sum(counts) > MOST_CHUNKS:
        raise SchemeError(
            f"{plan.scheme} would have {sum(counts):,} chunks, and {MOST_CHUNKS:,} are the most",
            fix="take a scheme whose classes are alike, such as ring",
        )
    firsts = [sum(counts[:klass]) for klass in range(len(counts))]
    return _text(forest.scheme, sum(counts), _steps(forest, floats, ranks, list(zip(firsts, counts, strict=True))))


def _steps(forest: Forest, floats: int, ranks: dict[int, int], chunks: list[tuple[int, int]]) -> list[_Rank]:
    made = [_Rank() for _ in ranks]
    wrote: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)  # by rank and class, the step that did last
    read: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)  # and those that have sent its chunks since
    for message in messages(forest, whole(forest, floats)):
        src, dst, klass = ranks[message.src], ranks[message.dst], message.what.klass
        read[src, klass].add(made[src].add(dst, chunks[klass], "s", wrote[src, klass]))
        kind = "rrc" if message.what.phase == "up" else "r"
        wrote[dst, klass] = {made[dst].add(src, chunks[klass], kind, wrote[dst, klass] | read.pop((dst, klass), set()))}
    return made


def _text(name: str, chunks: int, ranks: list[_Rank]) -> bytes:
    whole_algorithm = Element(
        "algo", name=name, proto="Simple", nchannels="1", nchunksperloop=str(chunks), ngpus=str(len(ranks)),
        coll="allreduce", inplace="1",
    )  # fmt: skip
    for number, rank in enumerate(ranks):
        gpu = SubElement(
            whole_algorithm, "gpu", id=str(number), i_chunks=str(chunks), o_chunks=str(chunks), s_chunks="0"
        )
        awaited = {step.after for steps in rank.blocks.values() for step in steps if step.after}
        for block, ((peer, sends), steps) in enumerate(rank.blocks.items()):
            send, receive = (str(peer), "-1") if sends else ("-1", str(peer))
            made = SubElement(gpu, "tb", id=str(block), send=send, recv=receive, chan="0")
            for at, step in enumerate(steps):
                block_of, number_of = step.after or (-1, -1)
                SubElement(
                    made, "step", s=str(at), type=step.kind, srcbuf="i", srcoff=str(step.first), dstbuf="i",
                    dstoff=str(step.first), cnt=str(step.chunks), depid=str(block_of), deps=str(number_of),
                    hasdep=str(int((block, at) in awaited)),
                )  # fmt: skip
    indent(whole_algorithm)
    return tostring(whole_algorithm) + b"\n"


_FIX = "write a network file for ASTRA-sim by hand"


def network_file(topology: Topology, workers: Sequence[int]) -> str:
    """Return the text of the network file for these nodes, by rank.

    Raises:
        TopologyError: its analytical network is not like that.
    """
    shape = _shape([_next(topology, worker) for worker in workers], workers)
    if not shape:
        raise TopologyError(
            f"{topology.expression} joins its ranks neither by one switch nor in a ring by their numbers", fix=_FIX
        )
    rates, delays = ({*values} for values in zip(*((one.rate_bps, one.delay_s) for one in topology.links), strict=True))
    if len(rates) > 1 or len(delays) > 1:
        raise TopologyError(f"links of {topology.expression} have several rates or delays", fix=_FIX)
    hop_s = delays.pop() * (2 if topology.panels else 1)  # a circuit is two links
    return (
        f"topology: [ {shape} ]\nnpus_count: [ {len(workers)} ]\nbandwidth: [ {rates.pop() / 8e9:.9g} ]  # GB/s\n"
        f"latency: [ {1e9 * hop_s:.1f} ]  # ns\n"
    )


def _next(topology: Topology, node: int) -> list[int]:
    """List the nodes that links or circuits of a node lead to."""
    found = [topology.head(topology.circuits.get(link, link)) for link in topology.ports[node]]
    return sorted(one for one in found if topology.nodes[one].kind != "panel")


def _shape(neighbours: Sequence[Sequence[int]], workers: Sequence[int]) -> str:
    """Name the shape; empty if there is no name."""
    if len(neighbours[0]) == 1 and neighbours[0][0] not in workers and all(one == neighbours[0] for one in neighbours):
        return "Switch"
    around = [sorted((workers[rank - 1], workers[(rank + 1) % len(workers)])) for rank in range(len(workers))]
    return "Ring" if len(workers) > 2 and list(neighbours) == around else ""
