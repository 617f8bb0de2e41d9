"""An AllReduce as MSCCL's XML: for each rank thread blocks that send chunks to a peer, or receive them from one.

A class of the forest is one or several chunks. Each rank has a thread block for what it sends to a peer, and another
one for what it receives from it. Steps are ``s`` (send), ``rrc`` (receive, add to the own chunk) and ``r`` (receive). A
step may wait for one step of another block; where it needs more, steps ``nop`` before it wait for those.
"""

from __future__ import annotations

from collections import defaultdict
from math import gcd
from typing import NamedTuple, cast
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from testbed.base.errors import SchemeError
from testbed.workloads.plan import Plan
from testbed.workloads.sync.chunks import whole
from testbed.workloads.sync.forest import ABSENT, Forest
from testbed.workloads.sync.messages import messages
from testbed.workloads.trace.transfers import check_known

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
