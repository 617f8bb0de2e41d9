"""The schedule of a node, as the thesis's AggEngine has it: what it does with one chunk of each class, as a DAG.

``Fetch`` puts the node's own gradient into a merge buffer, ``ReceiveFrom`` adds what comes from nodes, ``SendTo`` sends
the content to nodes, and ``Deliver`` writes it back to the gradient. A ``ReceiveFrom`` after a ``SendTo`` begins with
an empty buffer: the node has given its partial sum away, and gets the whole sum. Chunks do not depend on each other,
but for windows, which are left out here.

Source: PHub thesis section 4.2.2 (Parameter Link).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal, NamedTuple

from testbed.workloads.sync.forest import ABSENT, Forest
from testbed.workloads.sync.messages import of_classes

Deed = Literal["Fetch", "ReceiveFrom", "SendTo", "Deliver"]


class Action(NamedTuple):
    """An action of a node.

    Attributes:
        number: its place in the schedule.
        klass: the class of its chunk.
        nodes: the nodes to which it sends, or from which it receives.
        after: numbers of the actions that must be done before.
    """

    number: int
    klass: int
    what: Deed
    nodes: tuple[int, ...]
    after: tuple[int, ...]


def schedule(forest: Forest, node: int) -> list[Action]:
    """Make the schedule of a node; classes come in the order in which it first sends or receives something of them."""
    sent: dict[tuple[int, str], list[int]] = defaultdict(list)
    came: dict[tuple[int, str], list[int]] = defaultdict(list)
    order: dict[int, None] = {}
    for one in of_classes(forest, range(forest.classes)):
        if node in (one.src, one.dst):
            order[one.what.klass] = None
            where, other = (sent, one.dst) if one.src == node else (came, one.src)
            where[one.what.klass, one.what.phase].append(other)
    found: list[Action] = []

    def add(what: Deed, nodes: list[int], after: list[int]) -> list[int]:
        found.append(Action(len(found), klass, what, tuple(nodes), tuple(after)))
        return [len(found) - 1]

    for klass in [*order, *(c for c in range(forest.classes) if c not in order)]:
        is_member = node in forest.workers and (forest.members is None or bool(forest.members[klass, node]))
        last = add("Fetch", [], []) if is_member else []
        last = add("ReceiveFrom", came[klass, "up"], last) if came[klass, "up"] else last
        last = add("SendTo", sent[klass, "up"], last) if sent[klass, "up"] else last
        last = add("ReceiveFrom", came[klass, "down"], last) if came[klass, "down"] else last
        if sent[klass, "down"]:
            add("SendTo", sent[klass, "down"], last)
        if is_member and forest.broadcast[klass, node] != ABSENT:
            add("Deliver", [], last)
    return found
