"""The graph of a trace: nodes of each rank with what they depend on, checked and put into an order.

A node that communicates is issued when its dependencies are done; of several, that with the largest priority goes
first, then that with the smallest id. Collectives of a group are issued in the order in which :func:`order` has them,
because all ranks of a group must ask for the same ones in the same order.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeGuard

from testbed.base.errors import SpecError
from testbed.base.listing import shortened
from testbed.workloads.sync.chunks import FLOAT_BYTES

Groups = Mapping[str, tuple[int, ...]]
"""Ranks of each group, by name; the group without a name is all ranks."""
Ends = tuple[int, int, int]
"""Sender, receiver and tag of a message."""
MOST_NAMED = 5
"""How many ids a message names."""
LONGEST_US = 86_400_000_000
"""The longest a node may compute: a day."""


class Kind(IntEnum):
    """The type of a node, by its number in Chakra's schema."""

    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


class Collective(IntEnum):
    """A collective, by its number in Chakra's schema."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


class Node(NamedTuple):
    """Something that a rank does.

    Attributes:
        after: ids of the nodes whose results it needs.
        control: ids of other nodes that must be done before.
        duration_us: how long it computes.
        bytes: size of a message, or of the array that a rank gives a collective.
        peer: the other rank of a message.
        root: the rank within its group whose array is broadcast, or that gets the sum of a reduction.
        stream: nodes of one stream compute one after the other.
    """

    id: int
    name: str
    kind: Kind
    after: tuple[int, ...] = ()
    control: tuple[int, ...] = ()
    duration_us: int = 0
    bytes: int = 0
    peer: int = -1
    tag: int = 0
    collective: Collective | None = None
    group: str = ""
    root: int = 0
    priority: int = 0
    stream: tuple[bool, int] = (True, 0)

    @property
    def before(self) -> tuple[int, ...]:
        return self.after + self.control

    @property
    def computes(self) -> bool:
        return self.kind < Kind.COMM_SEND

    def ends(self, rank: int) -> tuple[int, int]:
        """Return sender and receiver of a message that this rank sends or receives."""
        return (rank, self.peer) if self.kind == Kind.COMM_SEND else (self.peer, rank)

    def __str__(self) -> str:
        return f"node {self.id} ({self.what})"

    @property
    def what(self) -> str:
        """Say what it does, as in ``send of 4096 bytes to rank 1, tag 7``."""
        if self.kind == Kind.COMM_SEND:
            return f"send of {self.bytes} bytes to rank {self.peer}, tag {self.tag}"
        if self.kind == Kind.COMM_RECV:
            return f"receive of {self.bytes} bytes from rank {self.peer}, tag {self.tag}"
        if self.collective is not None:
            group = f" in group {self.group}" if self.group else ""
            return f"{self.collective.name} of {self.bytes} bytes{group}"
        return f"{self.kind.name} of {self.duration_us} us"


class Trace(NamedTuple):
    """The nodes of all ranks, and how they are played.

    Attributes:
        ranks: by rank, from 0 on, its nodes in order (:func:`check`).
        scale: what sizes are divided by.
        pace: what the time of each node that computes is multiplied by.
    """

    ranks: Mapping[int, Sequence[Node]]
    groups: Groups
    iterations: int = 1
    scale: float = 1.0
    pace: float = 1.0


def are_ranks(value: object) -> TypeGuard[list[int]]:
    """Whether a value of somebody's JSON is the ranks of a group."""
    return isinstance(value, list) and bool(value) and all(type(rank) is int and rank >= 0 for rank in value)


PARTED = frozenset(
    {Collective.ALL_TO_ALL, Collective.REDUCE_SCATTER, Collective.REDUCE_SCATTER_BLOCK, Collective.SCATTER}
)
"""Collectives whose arrays are parts of the same length, one for each rank."""
ROOTED = frozenset({Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER})
"""Collectives in which a rank is the root."""


def floats_of(node: Node, scale: float, ranks: int) -> int:
    """Return the length of the array that a rank gives when sizes are divided by ``scale``, in a group of so many."""
    floats = max(1, round(node.bytes / scale / FLOAT_BYTES))
    return -(-floats // ranks) * ranks if node.collective in PARTED else floats


def counted_from(first: int, nodes: Sequence[Node], groups: Groups) -> tuple[list[Node], Groups]:
    """Number ranks from 0 on that a trace numbers from ``first`` on."""
    own = [node._replace(peer=node.peer - first) if node.peer >= 0 else node for node in nodes]
    return own, {name: tuple(one - first for one in ranks) for name, ranks in groups.items()}


def within(ranks: Collection[int], groups: Groups, used: Collection[str] = ()) -> Groups:
    """Leave out groups that have other ranks, too, unless they are used."""
    return {name: members for name, members in groups.items() if name in used or set(members) <= set(ranks)}


def order(nodes: Sequence[Node], whose: str) -> list[Node]:
    """Put nodes into an order in which each comes after those that it depends on; ``whose`` names them in errors.

    Raises:
        SpecError: an id comes twice or is not there, or nodes depend on each other in a circle.
    """
    by_id = {node.id: node for node in nodes}
    if len(by_id) < len(nodes):
        twice = next(number for number, count in Counter(node.id for node in nodes).items() if count > 1)
        raise SpecError(f"{whose}: two nodes have the id {twice}", fix="give each node an id of its own")
    left: dict[int, int] = {}
    later: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        before = set(node.before)
        left[node.id] = len(before)
        for number in before:
            if number not in by_id:
                raise SpecError(
                    f"{whose}: node {node.id} depends on node {number}, which is not there",
                    fix="write the whole trace, or remove the dependency",
                )
            later[number].append(node.id)
    ready = [(-node.priority, node.id) for node in nodes if not left[node.id]]
    heapq.heapify(ready)
    found = []
    while ready:
        node = by_id[heapq.heappop(ready)[1]]
        found.append(node)
        for number in later[node.id]:
            left[number] -= 1
            if not left[number]:
                heapq.heappush(ready, (-by_id[number].priority, number))
    if len(found) < len(nodes):
        circle = " -> ".join(map(str, _circle(by_id, left)))
        raise SpecError(f"{whose}: nodes depend on each other in a circle: {circle}", fix="remove a dependency")
    return found


def _circle(by_id: Mapping[int, Node], left: Mapping[int, int]) -> list[int]:
    """Return ids of a circle among nodes that still wait, each after the one that waits for it."""
    at = min(number for number, count in left.items() if count)
    seen: dict[int, int] = {}
    while at not in seen:
        seen[at] = len(seen)
        at = min(number for number in by_id[at].before if left[number])
    circle = [*list(seen)[seen[at] :], at]
    return circle if len(circle) <= 2 * MOST_NAMED else [*circle[: 2 * MOST_NAMED], at]


def check(ranks: Mapping[int, Sequence[Node]], groups: Groups) -> dict[int, list[Node]]:
    """Check the nodes of all ranks together; return them in order, receives with the priorities of their sends.

    Raises:
        SpecError: ranks do not fit together, or a node asks for what cannot be played.
    """
    found = {rank: order(nodes, f"rank {rank}") for rank, nodes in ranks.items()}
    for name, members in groups.items():
        if outside := sorted(set(members) - set(ranks)):
            raise SpecError(
                f"group {name} has rank {outside[0]}, and the ranks are {_ranks(ranks)}", fix="correct its ranks"
            )
    pairs = _paired(found)
    _check_collectives(found, groups)
    urgent = _priorities(pairs)
    return {rank: prioritised(nodes, urgent[rank]) for rank, nodes in found.items()}


def prioritised(nodes: Sequence[Node], priorities: Mapping[int, int]) -> list[Node]:
    """Give nodes other priorities, by id. Their order stays, so that of collectives does not depend on it."""
    return [node._replace(priority=priorities[node.id]) if node.id in priorities else node for node in nodes]


def priorities_of_receives(nodes: Sequence[Node]) -> dict[int, int]:
    """Return the priorities of a rank's receives, by id, where they have some."""
    return {node.id: node.priority for node in nodes if node.kind == Kind.COMM_RECV and node.priority}


def members_of(node: Node, ranks: Collection[int], groups: Groups) -> tuple[int, ...]:
    """Return the ranks of a collective's group; an unnamed one, or one of all that no file tells of, is all ranks."""
    return groups.get(node.group, tuple(sorted(ranks)))


def messages(nodes: Sequence[Node], rank: int, kind: Kind) -> Iterator[tuple[Ends, Node]]:
    """Yield a rank's sends or receives, each with sender, receiver and tag."""
    for node in nodes:
        if node.kind == kind:
            yield (*node.ends(rank), node.tag), node


def _paired(ranks: Mapping[int, Sequence[Node]]) -> dict[Ends, list[tuple[Node, Node]]]:
    """Return sends with their receives. Raises SpecError: one has no other, or they do not fit."""
    sent: dict[Ends, list[Node]] = defaultdict(list)
    received: dict[Ends, list[Node]] = defaultdict(list)
    pairs: dict[Ends, list[tuple[Node, Node]]] = {}
    for rank, nodes in ranks.items():
        for kind, by_ends in ((Kind.COMM_SEND, sent), (Kind.COMM_RECV, received)):
            for key, node in messages(nodes, rank, kind):
                if node.peer not in ranks:
                    raise SpecError(
                        f"rank {rank}: {node}, and the ranks are {_ranks(ranks)}",
                        fix="take as many hosts as the trace has ranks, or ranks that talk only among themselves",
                    )
                if node.peer == rank:
                    raise SpecError(f"rank {rank}: {node}, which is itself", fix="remove the node")
                by_ends[key].append(node)
    for key in sorted(sent.keys() | received.keys()):
        src, dst, tag = key
        given, taken = sent[key], received[key]
        if len(given) > len(taken):
            often = f" {len(given)} times" if taken else ""
            rest = f"which receives it {len(taken)} times" if taken else "which never receives it"
            raise SpecError(f"rank {src} sends tag {tag} to rank {dst}{often}, {rest}", fix="add the receive")
        if len(given) < len(taken):
            often = f" {len(taken)} times" if given else ""
            rest = f"which sends it {len(given)} times" if given else "which never sends it"
            raise SpecError(f"rank {dst} receives tag {tag} from rank {src}{often}, {rest}", fix="add the send")
        pairs[key] = list(zip(given, taken, strict=True))
        for one, other in pairs[key]:
            if one.bytes != other.bytes:
                raise SpecError(
                    f"rank {src} sends tag {tag} to rank {dst} with {one.bytes} bytes (node {one.id}), which receives "
                    f"{other.bytes} (node {other.id})",
                    fix="give both the same comm_size",
                )
    return pairs


def _priorities(pairs: Mapping[Ends, Sequence[tuple[Node, Node]]]) -> dict[int, dict[int, int]]:
    """Return, by rank and id, the priorities that receives without one get.

    A large message leaves when its receiver has asked for it, so a receive must be as urgent as its send. Messages of
    one tag come in order, so it must also be as urgent as the later ones of its tag.
    """
    urgent: dict[int, dict[int, int]] = defaultdict(dict)
    for (_, dst, _), some in pairs.items():
        priority = some[-1][0].priority
        for send, receive in reversed(some):
            priority = max(priority, send.priority)
            if priority and not receive.priority:
                urgent[dst][receive.id] = priority
    return urgent


def _check_collectives(ranks: Mapping[int, Sequence[Node]], groups: Groups) -> None:
    by_group: dict[tuple[int, ...], dict[int, list[Node]]] = defaultdict(lambda: defaultdict(list))
    for rank, nodes in ranks.items():
        for node in nodes:
            if node.kind == Kind.COMM_COLL:
                if node.group and groups and node.group not in groups:
                    raise SpecError(
                        f"rank {rank}: {node}, and there are the groups {shortened(list(groups), MOST_NAMED)}",
                        fix="add its ranks to the file of groups",
                    )
                members = members_of(node, ranks, groups)
                if rank not in members:
                    raise SpecError(
                        f"rank {rank}: {node}, which has the ranks {shortened(list(map(str, members)), MOST_NAMED)}",
                        fix="add the rank to the group, or remove the node",
                    )
                by_group[members][rank].append(node)
    for members, told in by_group.items():
        first = members[0]
        for rank in members:
            mine, theirs = told[rank], told[first]
            for number in range(max(len(mine), len(theirs))):
                one, other = (nodes[number] if number < len(nodes) else None for nodes in (theirs, mine))
                if (
                    one
                    and other
                    and (one.collective, one.bytes, one.root) == (other.collective, other.bytes, other.root)
                ):
                    continue
                told_by = " and ".join(
                    f"rank {which} asks for {node or 'nothing more'}" for which, node in ((first, one), (rank, other))
                )
                raise SpecError(
                    f"as collective {number + 1} of a group, {told_by}", fix="have all its ranks ask in the same order"
                )


def _ranks(ranks: Mapping[int, object]) -> str:
    return f"{min(ranks)} to {max(ranks)}"


def critical_path(nodes: Sequence[Node]) -> tuple[int, list[int]]:
    """Return how long a rank computes at least (us), if communication takes no time, and ids of the nodes that make it
    so long. Nodes are in order; those of one stream compute one after the other."""
    end_us: dict[int, int] = {}
    why: dict[int, int | None] = {}
    last: dict[tuple[bool, int], int] = {}
    for node in nodes:
        before = [*node.before, *([last[node.stream]] if node.computes and node.stream in last else [])]
        latest = max(before, key=end_us.__getitem__, default=None)
        why[node.id] = latest
        end_us[node.id] = (0 if latest is None else end_us[latest]) + node.duration_us * node.computes
        if node.computes:
            last[node.stream] = node.id
    at: int | None = max(end_us, key=end_us.__getitem__, default=None)
    whole_us, path = 0 if at is None else end_us[at], list[int]()
    while at is not None:
        path.append(at)
        at = why[at]
    return whole_us, path[::-1]
