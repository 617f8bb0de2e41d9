"""A box's processes. A core owns some keys, receives and adds them, changes their weights, and sends these back. The
manager gives each job its namespace and nonce, and with wide aggregation says when a layer has come to all cores.

A core is one process with one thread, and shares nothing with others (PHub thesis, section 3.4), unless keys come in by
worker (:mod:`.memory`). It has room for a key of each worker, for the sum of each of its keys, and for their weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.phub.exchange import (
    CAME,
    CHANGED,
    GO,
    KEPT,
    PART,
    PULL,
    PUSH,
    PUSH_PULL,
    TOTAL,
    VALUE,
    End,
    Keyed,
    rotated,
)
from testbed.workloads.kinds.phub.memory import Memory
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.serving.exchange import Floats, Holder
from testbed.workloads.sync.connection import Connection

if TYPE_CHECKING:
    from testbed.workloads.learning.sketch import PartSketch  # whose module imports PyTorch


Held = Mapping[int, tuple[Floats, Callable[[Floats], None]]]
"""By key, what workers get, and the function by which a sum changes it."""


@dataclass(frozen=True)
class Ends:
    """Ends of a core's connections: with its workers, by rank, with the manager, with cores that own the same keys, and
    with those of other boxes that it adds sums of racks with, by box; ``name`` is the core's."""

    name: str
    workers: Sequence[End]
    manager: End
    mates: Sequence[End] = ()
    boxes: Mapping[int, End] = field(default_factory=dict)


class Core(Holder, Keyed):
    """A core: serves all iterations of one job."""

    def __init__(
        self, ends: Ends, plan: Plan, held: Held, memory: Memory, iterations: int, sketch: PartSketch | None
    ) -> None:
        """Set up with room for what comes; ``memory`` has the sums of the keys that are ``held``. ``sketch`` takes all
        sums that this core completes; None where nobody compares them."""
        super().__init__(ends.name, [*ends.workers, ends.manager, *ends.mates, *ends.boxes.values()])
        self._plan, self._held, self._iterations, self._sketch = plan, held, iterations, sketch
        self._memory, self._world = memory, len(ends.workers)
        self._children, self._parents = range(self._world), [self._world]
        self._mates = range(self._world + 1, self._world + 1 + len(ends.mates))
        self._boxes = {box: self._mates.stop + number for number, box in enumerate(ends.boxes)}
        box = plan.cores_at[ends.name].box
        self._order = rotated(self._children, list(plan.cores_at).index(ends.name))
        """Workers in the order in which they get values."""
        self._owned = {key for key in held if plan.places[key].box == box}
        self._hops = {key: plan.hops[box, plan.places[key].box] for key in held}
        self._below = {key: [self._boxes[other] for other in hops.below] for key, hops in self._hops.items()}
        sources = (self._boxes[hops.source] for hops in self._hops.values() if hops.source is not None)
        below = (at for each in self._below.values() for at in each)
        self._due = {at: iterations * count for at, count in Counter((*sources, *below)).items()}
        """Number of sums that are still to come, by core of another box."""
        self._passed: set[int] = set()
        """Keys whose sum has gone to another box, while the sum of all racks has not come back."""
        longest = max((len(values) for values, _ in held.values()), default=0)
        self._rooms = {at: np.empty(longest, np.float32) for at in (*range(self._world), *self._boxes.values())}
        self._have: dict[int, set[int]] = {key: set() for key in held}
        """By key, the workers of this core whose gradients are in its sum."""
        self._asked: dict[int, set[int]] = {key: set() for key in held}
        """By key, the workers that wait for its value."""
        self._done = dict.fromkeys(held, 0)
        """By key, how many sums have changed it."""
        self._left = len(held) * iterations
        self._unread = [set(held) for _ in range(self._world)]
        """By worker, the keys whose last values it has not got."""
        layers = Counter(plan.keys[key].layer for key in held)
        self._layers = {layer: [key for key in held if plan.keys[key].layer == layer] for layer in layers}
        self._missing_of = dict(layers)
        """By layer, the keys that have not come from all workers."""
        self._sketched: list[tuple[int, list[float]]] = []

    @property
    def _is_done(self) -> bool:
        return not self._left and all(
            connection.closed or not unread for connection, unread in zip(self._connections, self._unread, strict=False)
        )

    def said(self) -> dict[str, Any]:
        """Report the sketch of each iteration's sums of its keys."""
        return {"summed": self._sketched}

    def _room_of(self, connection: Connection, kind: int, number: int) -> Floats | None:
        rank = connection.node
        if kind == GO and rank == self._world and self._missing_of.get(number) == 0:
            return None
        if kind == CHANGED and rank in self._mates and number in self._held:
            return None
        if kind == TOTAL and number in self._passed and rank == self._source(number):
            return self._memory.sums[number]
        if kind == PART and rank in self._below.get(number, ()) and rank not in self._have[number]:
            return self._rooms[rank][: len(self._held[number][0])]
        if kind not in (PUSH, PUSH_PULL, PULL) or rank >= self._world:
            raise self._wrong(connection, kind, number)
        if number not in self._held:
            raise WorkerError(f"{connection.name} sent key {number}, which {self._name} does not have", fix=self._fix)
        if kind == PULL:
            return None
        iteration = self._done[number]
        if rank in self._have[number]:
            raise WorkerError(
                f"{connection.name} pushed key {number} twice in iteration {iteration}",
                fix="push each key once before its new value has come",
            )
        if iteration == self._iterations:
            raise self._wrong(connection, kind, number)
        return self._rooms[rank][: len(self._held[number][0])]

    def _came(self, connection: Connection, kind: int, number: int) -> None:
        rank = connection.node
        if kind == GO:
            self._missing_of[number] = len(self._layers[number])
            self._change(self._layers[number])
        elif kind == CHANGED:
            self._hand_out(number)
        elif kind == PULL and rank in self._have[number]:
            self._asked[number].add(rank)  # it gets the value when the sum that its push is part of has changed it
        elif kind == PULL:
            self._give(rank, number, self._held[number][0].copy())  # others may push meanwhile, and change it
        elif kind == TOTAL:
            self._due[rank] -= 1
            self._passed.remove(number)
            self._change([number])
        else:
            self._have[number].add(rank)
            is_whole = self._memory.add(number, self._rooms[rank][: len(self._held[number][0])])
            if kind == PUSH:
                self._say(rank, KEPT, number)
            elif kind == PART:
                self._due[rank] -= 1
            else:
                self._asked[number].add(rank)
            if is_whole:
                self._complete(number)

    def _complete(self, key: int) -> None:
        """Go on with a key that has come from all workers, and from the racks whose sums come here."""
        if (above := self._hops[key].above) is not None:
            self._passed.add(key)  # so the sum stays as it is until that of all racks comes in its place
            self._say(self._boxes[above], PART, key, self._memory.sums[key])
            return
        if self._plan.aggregation == "tall":
            self._change([key])
            return
        layer = self._plan.keys[key].layer
        self._missing_of[layer] -= 1
        if not self._missing_of[layer]:
            self._say(self._world, CAME, layer)

    def _change(self, keys: Sequence[int]) -> None:
        """Change the values of keys by their sums, and have them sent to all that wait."""
        totals = {key: self._memory.sums[key].copy() for key in keys if self._hops[key].onto}
        for key in keys:
            self._held[key][1](self._memory.sums[key])
        for key in keys:
            if self._sketch is not None and key in self._owned:  # before others may add to this sum again
                self._sketch.add(self._plan.keys[key].span[0], self._memory.sums[key])
            for mate in self._mates:
                self._say(mate, CHANGED, key)
            self._hand_out(key, totals.get(key))

    def _hand_out(self, key: int, total: Floats | None = None) -> None:
        """Send a key's new value to this core's workers that wait for it. They have what was sent before, or they would
        not have pushed this key again. With sums across racks, ``total`` goes to the other boxes first: their workers
        wait for it, and on the NIC they share it would be one flow beside those to all of this box's workers."""
        self._done[key] += 1
        self._left -= 1
        ranks = [rank for rank in self._order if rank in self._asked[key]]
        self._asked[key].clear()
        self._have[key].clear()

        def give() -> None:
            for rank in ranks:
                self._give(rank, key, self._held[key][0])

        if total is None:
            give()
        else:
            *others, last = self._hops[key].onto
            for box in others:
                self._say(self._boxes[box], TOTAL, key, total)
            self._say(self._boxes[last], TOTAL, key, total, give)
        # A worker has all values of an iteration before it pushes a key in the next.
        if self._sketch is not None and self._left % len(self._held) == 0:
            self._sketched.append((self._iterations - 1 - self._left // len(self._held), self._sketch.take()))

    def _source(self, key: int) -> int:
        """Return the number of the connection from which a key's sum of all racks comes."""
        source = self._hops[key].source
        assert source is not None
        return self._boxes[source]

    def _give(self, rank: int, key: int, value: Floats) -> None:
        self._say(rank, VALUE, key, value)
        if self._done[key] == self._iterations:
            self._unread[rank].discard(key)

    def _waits_for(self, connection: Connection) -> bool:
        if connection.node in self._mates:
            return False  # one that is done may have told all before another has
        if connection.node in self._boxes.values():
            return self._due.get(connection.node, 0) > 0
        if self.met[connection.node] < self._barriers:
            return True
        if connection.node == self._world:
            return bool(self._left) and self._plan.aggregation == "wide"
        return bool(self._left)

    def _lacks(self) -> str:
        what, silent = "", self._missing([*self._children, *self._parents])
        if not silent:
            key = min(self._done, key=lambda key: (self._done[key], -len(self._have[key]), key))
            what, came = f"key {key} from ", self._have[key]
            silent = [at for at in (*range(self._world), *self._below[key]) if at not in came] or [*self._mates]
            silent = [self._source(key)] if key in self._passed else silent
        return f"{what}{', '.join(self._by_node[at].name for at in silent)}"


class Manager(Holder, Keyed):
    """The manager of one job."""

    def __init__(self, name: str, ends: Sequence[End], plan: Plan, iterations: int) -> None:
        """Set up; ``ends`` are those of connections with all cores."""
        super().__init__(name, ends)
        self._children = range(len(ends))
        at = {place: number for number, place in enumerate(plan.cores_at.values())}
        owners: dict[int, set[int]] = {}
        for key, place in zip(plan.keys, plan.places, strict=True):
            owners.setdefault(key.layer, set()).add(at[place])
        self._owners, self._came_to = owners, Counter[int]()
        times = iterations if plan.aggregation == "wide" else 0
        self._left = times * len(owners)
        self._left_of = [times * sum(at in cores for cores in owners.values()) for at in range(len(ends))]
        """By core, how many layers are still to come to it."""

    @property
    def _is_done(self) -> bool:
        return not self._left

    def _room_of(self, connection: Connection, kind: int, number: int) -> Floats | None:
        if kind != CAME or connection.node not in self._owners.get(number, ()):
            raise self._wrong(connection, kind, number)
        return None

    def _came(self, connection: Connection, kind: int, number: int) -> None:
        self._left_of[connection.node] -= 1
        self._came_to[number] += 1
        if self._came_to[number] < len(self._owners[number]):
            return
        self._came_to[number] = 0
        self._left -= 1
        for at in sorted(self._owners[number]):
            self._say(at, GO, number)

    def _waits_for(self, connection: Connection) -> bool:
        return bool(self._left_of[connection.node]) or self.met[connection.node] < self._barriers

    def _lacks(self) -> str:
        return ", ".join(connection.name for connection in self._connections)
