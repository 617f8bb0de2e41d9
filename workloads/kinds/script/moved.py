"""Trees and chunks of a script's collectives, as its engine has them, for players in simulated time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.workloads.kinds.ranks import Collected
from testbed.workloads.kinds.script.collectives.calls import BARRIER, Call, What
from testbed.workloads.kinds.script.collectives.shapes import EAGER_BYTES, EARLY_BYTES, direct_pieces, pieces
from testbed.workloads.kinds.script.collectives.trees import of_group
from testbed.workloads.kinds.script.ways import DIRECT
from testbed.workloads.play.exchange import Moved
from testbed.workloads.sync.chunks import FLOAT_BYTES
from testbed.workloads.sync.forest import Forest


def moved(plan: Forest, ranks: Sequence[int], asked: Collected, chunk_bytes: int) -> tuple[Sequence[Moved], str]:
    """Return the trees and chunks of a collective of float32 among these ranks, and who moves it: ``scheme``, ``ring``
    or ``direct``.

    Raises:
        SchemeError: it has no trees.
    """
    nodes = [plan.workers[rank] for rank in ranks]
    if len(nodes) == 1:
        return (), "scheme"
    if asked.op in DIRECT:
        return [_directly(plan, *ends, asked, len(nodes), chunk_bytes) for ends in _ends(nodes, asked)], "direct"
    forest, is_own = of_group(plan, nodes)
    call = BARRIER
    if asked.op != "barrier":
        what = What[asked.op.upper()]
        op = "sum" if what in (What.ALLREDUCE, What.REDUCE, What.REDUCE_SCATTER) else ""
        call = Call(what, "float32", asked.nbytes // FLOAT_BYTES, op, asked.root)
    moves = Moved(*pieces(forest, call, chunk_bytes), call.nbytes <= EAGER_BYTES, EARLY_BYTES)
    return [moves], "scheme" if is_own else "ring"


def _ends(nodes: Sequence[int], asked: Collected) -> Iterator[tuple[int, int]]:
    """Yield sender and receiver of each message of a collective that goes directly."""
    for src in nodes:
        for dst in nodes:
            is_sent = {
                "send": src == nodes[0],
                "scatter": src == nodes[asked.root],
                "gather": dst == nodes[asked.root],
            }.get(asked.op, True)
            if src != dst and is_sent:
                yield src, dst


def _directly(plan: Forest, src: int, dst: int, asked: Collected, ranks: int, chunk_bytes: int) -> Moved:
    nbytes = asked.nbytes if asked.op == "send" else asked.nbytes // ranks
    call = Call(What.SEND, "float32", max(1, nbytes // FLOAT_BYTES))
    made, chunks = direct_pieces(plan.nodes, (src, dst), call, chunk_bytes)
    return Moved(made, chunks, call.nbytes <= EAGER_BYTES, EARLY_BYTES)
