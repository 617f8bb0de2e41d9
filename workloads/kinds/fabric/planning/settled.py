"""What is settled of a plan: whose way is told, whatever comes, and what of it is still to begin. Pure logic, no
I/O."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from workloads.kinds.fabric.scheduling.model import Group, Schedule, Transfer
from workloads.kinds.fabric.scheduling.network import Load, Network


@dataclass(frozen=True)
class Unit:
    """What is applied in one step: an update that goes straight to the server, or a group.

    Attributes:
        group: None of an update alone.
        transfers: those of the members, in their order, and last, of a group, the sum's.
    """

    members: tuple[int, ...]
    group: Group | None
    transfers: tuple[Transfer, ...]

    @property
    def start_s(self) -> float:
        """When the first byte is to be on a wire."""
        return min((one.start_s for one in self.transfers if one.source != one.target), default=math.inf)


def units(made: Schedule, server: int) -> list[Unit]:
    """A schedule in pieces, in the order in which they are to be applied."""
    to = {(one.target, one.members): one for one in made.way.transfers if one.source != server}
    by = {(one.source, one.members): one for one in made.way.transfers if one.target == server}
    found = [Unit((number,), None, (to[server, (number,)],)) for number in made.way.direct]
    for group in made.way.groups:
        parts = tuple(to[group.aggregator, (number,)] for number in group.members)
        found.append(Unit(group.members, group, (*parts, by[group.aggregator, group.members])))
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
    """All that has not begun."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    @property
    def start_s(self) -> float:
        """When the first of it is to begin; infinity if there is none."""
        return min((piece.transfer.start_s for piece in self._pieces), default=math.inf)

    def add(self, unit: Unit, group: int) -> None:
        """A unit's way is settled."""
        parts = unit.transfers[: len(unit.members)]
        self._pieces += [Piece(one, group) for one in parts]
        self._pieces += [Piece(one, group, parts) for one in unit.transfers[len(unit.members) :]]

    def due(self, until_s: float) -> list[Piece]:
        """What is to begin by then, the first one first; it has begun from now on."""
        found = sorted(
            (one for one in self._pieces if one.transfer.start_s <= until_s), key=lambda one: one.transfer.start_s
        )
        self._pieces = [one for one in self._pieces if one.transfer.start_s > until_s]
        return found

    def again(self, network: Network, now_s: float, expected_s: Callable[[Transfer], float | None]) -> None:
        """Give all of it new times, in the same order, with what ``network`` has left, and reserve it there.

        ``expected_s`` says when a transfer is expected that is on its way, None of any other.
        """
        ends: dict[tuple[int, int, tuple[int, ...]], float] = {}
        again = []
        for piece in sorted(self._pieces, key=lambda one: (one.transfer.start_s, bool(one.parts))):
            one, ready_s = piece.transfer, now_s
            for part in piece.parts:
                known_s = ends.get((part.source, part.target, part.members))
                ready_s = max(ready_s, expected_s(part) or 0.0 if known_s is None else known_s)
            load = Load(one.source, one.target, one.size_bytes, ready_s, one.members, one.shard, one.is_replica)
            made = network.reserve(load)
            ends[one.source, one.target, one.members] = made.end_s
            again.append(replace(piece, transfer=made))
        self._pieces = again
