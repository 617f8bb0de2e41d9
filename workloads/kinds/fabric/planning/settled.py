"""Pieces of planned ways, and those that are settled, whose way stays whatever comes, until each transfer begins. Pure
logic, no I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from testbed.workloads.kinds.fabric.planning.traffic import Leg, leg
from testbed.workloads.kinds.fabric.scheduling.model import Group, Transfer, Way
from testbed.workloads.kinds.fabric.scheduling.network import Load, Network


@dataclass(frozen=True)
class Unit:
    """Updates that are applied in one step: one that goes straight to the server or the replica, or a group.

    Attributes:
        group: None of an update alone.
        shards: of each shard the transfers of the members, in their order, and last, of a group, the sum's.
    """

    members: tuple[int, ...]
    group: Group | None
    shards: tuple[tuple[Transfer, ...], ...]

    @property
    def start_s(self) -> float:
        """When the first byte is to be on a wire; for a root's own update alone, when it is to be added."""
        every = [*chain.from_iterable(self.shards)]
        return min(one.start_s for one in [one for one in every if one.source != one.target] or every)


def units(way: Way, targets: Sequence[int]) -> list[Unit]:
    """Group what goes to servers or a replica into units, in the order in which they are to be applied."""
    to = {(one.target, one.members, one.shard): one for one in way.transfers}
    by = {(one.source, one.members, one.shard): one for one in way.transfers if one.target in targets}
    found = []
    for number in way.direct:
        alone = [(to[target, (number,), shard],) for shard, target in enumerate(targets)]
        found.append(Unit((number,), None, tuple(alone)))
    for group in way.groups:
        sums = [by[group.aggregator, group.members, shard] for shard in range(len(targets))]
        parts = [[to[group.aggregator, (number,), one.shard] for number in group.members] for one in sums]
        found.append(Unit(group.members, group, tuple((*of, one) for of, one in zip(parts, sums, strict=True))))
    return found


@dataclass(frozen=True)
class Piece:
    """A transfer that is settled and has not begun.

    Attributes:
        group: of the group that it belongs to; -1 of an update that goes straight to the server.
        parts: of a sum, the transfers of its members.
    """

    transfer: Transfer
    group: int
    parts: tuple[Transfer, ...] = ()


class Settled:
    """The settled transfers that have not begun."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    @property
    def start_s(self) -> float:
        """When the first of them is to begin; infinity if there is none."""
        return min((piece.transfer.start_s for piece in self._pieces), default=math.inf)

    def add(self, unit: Unit, group: int) -> None:
        """Add a unit whose way is settled. The group of its first shard has the number ``group``, and others follow."""
        for shard, transfers in enumerate(unit.shards):
            number = group + shard if unit.group else -1
            parts = transfers[: len(unit.members)]
            self._pieces += [Piece(one, number) for one in parts]
            self._pieces += [Piece(one, number, parts) for one in transfers[len(unit.members) :]]

    def pass_on(self, transfer: Transfer, first: Transfer) -> None:
        """Add a transfer that passes weights on, once they have come with ``first``."""
        self._pieces.append(Piece(transfer, -1, (first,)))

    def has(self, number: int) -> bool:
        """Whether an update, itself, is still to be sent."""
        return any(one.transfer.members == (number,) for one in self._pieces)

    def forget(self, members: Container[int]) -> None:
        """Drop transfers of these updates, alone or in sums."""
        self._pieces = [one for one in self._pieces if not any(number in members for number in one.transfer.members)]

    def keep(self, wanted: Callable[[Transfer], bool]) -> None:
        """Drop all transfers but the wanted ones."""
        self._pieces = [one for one in self._pieces if wanted(one.transfer)]

    def due(self, until_s: float) -> list[Piece]:
        """Take the transfers that are to begin by then, the first one first; from now on they count as begun."""
        found = sorted(
            (one for one in self._pieces if one.transfer.start_s <= until_s), key=lambda one: one.transfer.start_s
        )
        self._pieces = [one for one in self._pieces if one.transfer.start_s > until_s]
        return found

    @property
    def is_interrupted(self) -> bool:
        """Whether a transfer that has not begun has a pause planned, and still an end: a daemon that has begun to send
        does not pause. :meth:`again` lets it begin later."""
        every = (piece.transfer for piece in self._pieces)
        return any(one.resumed_s is not None and one.end_s < math.inf for one in every)

    def again(self, network: Network, now_s: float, expected_s: Callable[[Transfer], float | None]) -> None:
        """Give all transfers new times, in the same order, with what ``network`` has left, and reserve it there.
        ``expected_s`` returns when a transfer that is on its way is expected, None for any other."""
        ends: dict[Leg, float] = {}
        again = []
        for piece in sorted(self._pieces, key=lambda one: (one.transfer.start_s, bool(one.parts))):
            one, ready_s = piece.transfer, now_s
            for part in piece.parts:
                known_s = ends.get(leg(part))
                ready_s = max(ready_s, expected_s(part) or 0.0 if known_s is None else known_s)
            made = network.reserve_whole(Load.again(one, ready_s))
            ends[leg(one)] = made.end_s
            again.append(replace(piece, transfer=made))
        self._pieces = again


@dataclass(frozen=True)
class Branch:
    """The way of weights to a node, and on from there.

    Attributes:
        first: by shard, from the servers to the node.
        onward: by other node, by shard.
    """

    node: int
    first: tuple[Transfer, ...]
    onward: Mapping[int, tuple[Transfer, ...]]

    @property
    def start_s(self) -> float:
        """When the first shard leaves its server."""
        return min(one.start_s for one in self.first)


def branches(way: Way, servers: Sequence[int], asking: Container[int]) -> list[Branch]:
    """List the branches of a way that bring weights to the nodes that ask. A distributor whose group are other
    distributors has nobody to pass them on to; it is listed if it asks itself."""
    to = {(one.source, one.target, one.shard): one for one in way.transfers}
    over = {group.aggregator for group in way.groups}
    ways = [(group.aggregator, [node for node in group.members if node not in over]) for group in way.groups]
    ways = [(node, onward) for node, onward in ways if onward or node in asking]
    ways += [(node, []) for node in way.direct if node not in over]
    shards = range(len(servers))
    return [
        Branch(
            node,
            tuple(to[server, node, shard] for shard, server in enumerate(servers)),
            {other: tuple(to[node, other, shard] for shard in shards) for other in onward},
        )
        for node, onward in ways
    ]
