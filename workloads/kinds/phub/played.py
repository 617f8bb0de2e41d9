"""An iteration through boxes in simulated time: what workers (:mod:`.client`), and cores and the manager
(:mod:`.core`) decide, message by message.

Adding and steps take no time, and processes of one host hear of each other at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from functools import partial
from typing import Any

from testbed.workloads.kinds.parts import Iterations, PlayedWorker
from testbed.workloads.kinds.phub.client import window
from testbed.workloads.kinds.phub.exchange import rotated
from testbed.workloads.kinds.phub.plan import FLOAT_BYTES, Hops, Plan
from testbed.workloads.play.wires import Call, Lane, Wires, nothing
from testbed.workloads.sync.connection import HEADER_BYTES


class _Core:
    """A core: which workers get its values, in their order, and which have pushed a key and wait for its value."""

    def __init__(self, plan: Plan, name: str, number: int) -> None:
        self.name, self.number, self.at = name, number, plan.cores_at[name]
        self.node = plan.boxes[self.at.box]
        self.served = rotated(plan.served(self.at), number)
        self.asked: dict[int, set[int]] = defaultdict(set)
        self.parts = plan.parts(name)
        layers: dict[int, list[int]] = defaultdict(list)
        for key in self.parts:
            layers[plan.keys[key].layer].append(key)
        self.layers = dict(layers)
        self.missing = {layer: len(keys) for layer, keys in self.layers.items()}
        """By layer, the keys that have not come from all workers."""
        self.mates: list[_Core] = []
        """This core and those that own the same keys: they share the counts of what was added."""
        self.came: Counter[int] = Counter()
        """By key, the gradients and sums in its sum."""


class _Worker(PlayedWorker):
    """A worker: the keys that wait for each of its cores, and how many answers are to come from each."""

    def __init__(self, rank: int, node: int, cores: Sequence[_Core]) -> None:
        super().__init__(rank, node)
        self.cores = cores
        self.queues: dict[str, deque[int]] = {core.name: deque() for core in cores}
        self.due = dict.fromkeys(self.queues, 0)


class Played:
    """A job's iterations, which begin at this moment of the wires."""

    def __init__(self, plan: Plan, asked: Iterations, wires: Wires) -> None:
        self._plan, self._asked, self._wires = plan, asked, wires
        self._bytes = [FLOAT_BYTES * key.floats for key in plan.keys]
        self._window = window(plan)
        self._cores = {name: _Core(plan, name, number) for number, name in enumerate(plan.cores_at)}
        self._core_at = {core.at: core for core in self._cores.values()}
        for core in self._cores.values():
            core.mates = [self._cores[name] for name in sorted([core.name, *plan.mates(core.name)])]
            core.came = core.mates[0].came
        self._across = {
            (name, box): self._cores[other] for name in self._cores for box, other in plan.across_from(name).items()
        }
        self._owners: dict[int, list[_Core]] = defaultdict(list)
        """By layer, the cores that have some of it; with wide aggregation, the manager asks them."""
        for core in self._cores.values():
            for layer in core.layers:
                self._owners[layer].append(core)
        self._manager = plan.boxes[-1]
        self._came_to: Counter[int] = Counter()
        """By layer, the cores to which it has come from all workers."""
        self._workers = {
            node: _Worker(rank, node, rotated([core for core in self._cores.values() if node in core.served], rank))
            for rank, node in enumerate(plan.workers)
        }
        self._ended = 0
        """Number of iterations that all workers have ended."""
        for worker in self._workers.values():
            self._begin(worker)

    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """Return by process the lines of iterations, and what the last line says besides what all say, once the wires
        have run.

        Raises:
            TrialError: workers wait for what never comes.
        """
        count = self._asked.count
        waiting = [self._plan.nodes[each.node] for each in self._workers.values() if len(each.lines) < count]
        self._wires.require_none_waits(waiting)
        said = {self._plan.nodes[worker.node]: [*worker.lines, {}] for worker in self._workers.values()}
        return {**said, **{name: [{}] for name in (*self._cores, self._plan.manager)}}

    def _tell(self, lane: Lane, payload_bytes: int, came: Call) -> None:
        if lane.src == lane.dst:
            self._wires.soon(came)
        else:
            self._wires.send_along(lane, HEADER_BYTES + payload_bytes, nothing, came)

    # Workers.

    def _begin(self, worker: _Worker) -> None:
        self._asked.begin(worker, self._wires, partial(self._push, worker))

    def _push(self, worker: _Worker) -> None:
        """Push all keys, and ask for their values; each core in turn gets a key."""
        for key, place in enumerate(self._plan.places):
            core = self._core_at[self._plan.core_for(worker.node, place)]
            worker.queues[core.name].append(key)
        while sum(self._feed(worker, core) for core in worker.cores):
            pass

    def _feed(self, worker: _Worker, core: _Core) -> bool:
        """Send the next key that waits for a core, if the window lets it; return whether it did."""
        queue = worker.queues[core.name]
        if not queue or worker.due[core.name] >= self._window:
            return False
        key = queue.popleft()
        worker.due[core.name] += 1
        lane = Lane(worker.node, core.node, core.at.nic, core.number)
        self._tell(lane, self._bytes[key], partial(self._pushed, core, worker.node, key))
        return True

    def _given(self, worker: _Worker, core: _Core) -> None:
        """Take a value; go on once all are here."""
        worker.due[core.name] -= 1
        self._feed(worker, core)
        if any(worker.due.values()) or any(worker.queues.values()):
            return
        worker.lines.append(self._asked.line(worker, self._wires.now_s))
        done = min(len(each.lines) for each in self._workers.values())
        if done > self._ended:
            self._ended = done
            self._asked.done(done)
        if len(worker.lines) < self._asked.count:
            self._begin(worker)

    # Cores.

    def _pushed(self, core: _Core, worker: int, key: int) -> None:
        core.asked[key].add(worker)
        self._add(core, key)

    def _add(self, core: _Core, key: int) -> None:
        """Add a worker's gradient, or a rack's sum; go on once the sum is whole."""
        core.came[key] += 1
        if core.came[key] == core.parts[key]:
            core.came[key] = 0
            self._complete(core, key)

    def _complete(self, core: _Core, key: int) -> None:
        """Go on with a key that has come from all workers, and from the racks whose sums come here."""
        above = self._hops(core, key).above
        if above is not None:
            to = self._across[core.name, above]
            self._tell(self._between(core, to), self._bytes[key], partial(self._add, to, key))
        elif self._plan.aggregation == "tall":
            self._send_values(core, [key])
        else:
            layer = self._plan.keys[key].layer
            core.missing[layer] -= 1
            if not core.missing[layer]:
                lane = Lane(core.node, self._manager, 0, core.number)
                self._tell(lane, 0, partial(self._layer_came, layer))

    def _layer_came(self, layer: int) -> None:
        """As the manager, let all cores go on with a layer once it has come to each."""
        owners = self._owners[layer]
        self._came_to[layer] += 1
        if self._came_to[layer] < len(owners):
            return
        self._came_to[layer] = 0
        for core in owners:
            self._tell(Lane(self._manager, core.node, 0, core.number), 0, partial(self._go, core, layer))

    def _go(self, core: _Core, layer: int) -> None:
        keys = core.layers[layer]
        core.missing[layer] = len(keys)
        self._send_values(core, keys)

    def _send_values(self, core: _Core, keys: Sequence[int]) -> None:
        """Send the values of keys whose sums are whole: to other boxes first, and to the workers of each core that owns
        the keys."""
        for key in keys:
            for mate in core.mates:
                if mate is not core:
                    self._wires.soon(partial(self._hand_out, mate, key))
            for box in self._hops(core, key).onto:
                to = self._across[core.name, box]
                self._tell(self._between(core, to), self._bytes[key], partial(self._send_values, to, [key]))
            self._hand_out(core, key)

    def _hand_out(self, core: _Core, key: int) -> None:
        asked = core.asked.pop(key, set())
        for node in (node for node in core.served if node in asked):
            worker = self._workers[node]
            lane = Lane(core.node, node, core.at.nic, core.number)
            self._tell(lane, self._bytes[key], partial(self._given, worker, core))

    def _hops(self, core: _Core, key: int) -> Hops:
        return self._plan.hops[core.at.box, self._plan.places[key].box]

    def _between(self, core: _Core, other: _Core) -> Lane:
        return Lane(core.node, other.node, core.at.nic, min(core.number, other.number))
