"""One synchronisation of a scheme as a trace: sends and receives of every node, in the order of the engine.

A trace has no order of its own. So each send has a priority, the earlier the larger, and a control edge from the send
before it on the same connection. A node passes on what has come, so the order depends on the network: it is that of a
play on the network of the arm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import cast

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.plan import Plan
from testbed.workloads.play.exchange import in_order
from testbed.workloads.sync.chunks import ChunkTable, whole
from testbed.workloads.sync.forest import ABSENT, Forest
from testbed.workloads.sync.messages import Play
from testbed.workloads.trace.graph import Kind, Node

MOST_MESSAGES = 1_000_000
"""The most messages of a trace that is made: their nodes take 2 GB."""


def check_known(plan: Plan) -> None:
    """
    Raises:
        SchemeError: what a trial of this plan moves is not known before it runs.
    """
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
