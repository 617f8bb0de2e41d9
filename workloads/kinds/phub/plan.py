"""The plan of a box on a topology: its processes, who owns which key, and which bytes pass which NIC."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Literal

from testbed.workloads.kinds.process import Process, process, workers
from testbed.workloads.learning.parts import Span, spans
from testbed.workloads.longest_first import longest_first
from testbed.workloads.sync.trees import chains, stars

Affinity = Literal["key", "worker"]
Aggregation = Literal["tall", "wide"]
Across = Literal["none", "ring", "ps"]
Way = tuple[int, int, int]
"""The way of a message: the sender, the receiver, and their connection's number (:meth:`.Topology.connections`)."""
_BYTES_OF_A_TENSOR = 8


FLOAT_BYTES = 4


@dataclass(frozen=True)
class Key:
    """A piece of the gradient.

    Attributes:
        layer: number of its layer, in gradient order.
        span: its place in the gradient, in floats.
    """

    layer: int
    span: Span

    @property
    def floats(self) -> int:
        return self.span[1] - self.span[0]


@dataclass(frozen=True, order=True)
class Place:
    """The place of a core: number of its box, of its NIC there, and its own at that NIC."""

    box: int
    nic: int
    core: int


def cut(tensor_sizes: Sequence[int], key_bytes: int, nics: int) -> list[Key]:
    """Cut each layer into keys of ``key_bytes``, and one of the rest, so that a large one is spread over all NICs and
    cores (PHub thesis, sections 3.2.3 and 3.2.4). Each tensor is a layer, as in MXNet's key-value store. With 0, the
    whole gradient is one layer, of a key for each of ``nics``; tensor sizes are in floats."""
    edges = [0, *accumulate(tensor_sizes)]
    if key_bytes == 0:
        return [Key(0, span) for span in spans(edges[-1], nics) if span[0] < span[1]]
    floats = key_bytes // FLOAT_BYTES
    return [
        Key(layer, (begin, min(begin + floats, stop)))
        for layer, (start, stop) in enumerate(pairwise(edges))
        for begin in range(start, stop, floats)
    ]


def spread(keys: Sequence[Key], counts: tuple[int, int, int]) -> list[tuple[int, ...]]:
    """Return the place of each key by level; ``counts`` are those of its parts, such as the boxes, the NICs of each
    box, and the cores of each NIC."""
    at: list[tuple[int, ...]] = [()] * len(keys)
    for count in counts:
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, place in enumerate(at):
            groups[place].append(number)
        for place, numbers in groups.items():
            bins = longest_first([keys[number].floats for number in numbers], count).tolist()
            for number, chosen in zip(numbers, bins, strict=True):
                at[number] = (*place, chosen)
    return at


@dataclass(frozen=True)
class Hops:
    """Boxes, by number, with which a box exchanges the sums of some keys.

    Attributes:
        below: those that send it the sums of their racks.
        above: the one that it sends its own sum to, with those of ``below`` in it; None where its sum is that of all.
        source: the one that sends it the sum of all racks.
        onto: those that it sends that sum to.
    """

    below: tuple[int, ...] = ()
    above: int | None = None
    source: int | None = None
    onto: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A plan. Its nodes are those of the topology.

    Attributes:
        scheme: the expression that built it.
        nodes: names of the topology's nodes, in its order.
        workers: nodes that compute gradients, by rank.
        boxes: nodes that have the weights.
        nics: number of connections that a worker has with a box, each over a NIC of its own.
        tensors: floats of each tensor, in gradient order.
        key_bytes: size of a key; 0 for one key for each NIC.
        cores: number of cores of each NIC.
        affinity: ``key``: a key passes the NIC of the core that owns it. ``worker``: all keys of a worker pass one NIC.
        aggregation: ``tall``: a core changes a key's weights once it has come from all workers. ``wide``: all cores
            change those of a layer together, once all of it has come, one layer at a time.
        across: ``none``: each key has one box. Otherwise each box has all keys: it adds the gradients of its rack, and
            boxes add their sums, at the key's own box (``ps``) or along a ring of boxes that ends there (``ring``).
        homes: number of the box of each worker's rack, by rank; empty where ``across`` is ``none``.
    """

    kind: ClassVar[str] = "phub"
    scheme: str
    nodes: tuple[str, ...]
    workers: tuple[int, ...]
    boxes: tuple[int, ...]
    nics: int
    tensors: tuple[int, ...]
    key_bytes: int = 32768
    cores: int = 1
    affinity: Affinity = "key"
    aggregation: Aggregation = "tall"
    across: Across = "none"
    homes: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """About how many bytes the plan takes in a file."""
        return _BYTES_OF_A_TENSOR * (len(self.tensors) + len(self.nodes) + len(self.workers) + len(self.boxes))

    def built_by(self, scheme: str) -> Plan:
        """Return the same plan with another expression."""
        return replace(self, scheme=scheme)

    # Keys

    @cached_property
    def keys(self) -> list[Key]:
        """All keys, in gradient order."""
        return cut(self.tensors, self.key_bytes, self.nics * (1 if self.homes else len(self.boxes)))

    @cached_property
    def places(self) -> list[Place]:
        """The place of each key's core. With affinity to workers, cores with one number at all NICs of a box own a key
        together, and this is the place of the first. With sums across racks, each box has a core for the key at this
        place, and this is the one that completes the sum."""
        boxes, nics = len(self.boxes), 1 if self.affinity == "worker" else self.nics
        if not self.homes:
            return [Place(*place) for place in spread(self.keys, (boxes, nics, self.cores))]
        # A core's keys go to boxes by turns, from another box on at each core: with few keys, no box has them all.
        turns = spread(self.keys, (nics, self.cores, boxes))
        return [Place((turn + nic * self.cores + core) % boxes, nic, core) for nic, core, turn in turns]

    @cached_property
    def hops(self) -> dict[tuple[int, int], Hops]:
        """Boxes with which a box exchanges sums, by its number and that of the box that completes them."""
        numbers = range(len(self.boxes))
        up = down = chains(numbers) if self.across == "ring" else stars(len(self.boxes))
        if self.across == "ring":
            down = chains(numbers[::-1])

        def between(box: int, owner: int) -> Hops:
            below, onto = (tuple(at for at in numbers if tree[owner, at] == box) for tree in (up, down))
            above, source = (None if box == owner else int(tree[owner, box]) for tree in (up, down))
            return Hops(below, above, source, onto)

        return {(box, owner): between(box, owner) if self.homes else Hops() for box in numbers for owner in numbers}

    @cached_property
    def _home(self) -> dict[int, int]:
        """Number of the box of a worker's rack, by node; empty without sums across racks."""
        return dict(zip(self.workers, self.homes, strict=False))

    def served(self, place: Place) -> list[int]:
        """List the workers whose keys for this place a core there gets, by rank."""
        return [
            worker
            for worker in self.workers
            if self.nic_of(worker, place) == place.nic and self._home.get(worker, place.box) == place.box
        ]

    def keys_of(self, core: str) -> list[int]:
        """List the numbers of the keys that a core has."""
        at = self.cores_at[core]
        owned = replace(at, nic=0) if self.affinity == "worker" else at
        return [
            number
            for number, place in enumerate(self.places)
            if (replace(place, box=at.box) if self.homes else place) == owned
        ]

    def parts(self, core: str) -> dict[int, int]:
        """Count by key what is added to a core's sum: gradients of workers, and sums of racks."""
        box = self.cores_at[core].box
        workers = self.homes.count(box) if self.homes else len(self.workers)
        return {key: workers + len(self.hops[box, self.places[key].box].below) for key in self.keys_of(core)}

    def nic_of(self, worker: int, place: Place) -> int:
        """Return the number of the NIC that a worker's keys for a core pass."""
        return worker % self.nics if self.affinity == "worker" else place.nic

    def core_for(self, worker: int, place: Place) -> Place:
        """Return the place of the core that a worker sends keys of this place."""
        return Place(self._home.get(worker, place.box), self.nic_of(worker, place), place.core)

    def ways(self, place: Place) -> list[Way]:
        """List the ways of workers' keys of this place to boxes. A worker on the box's own host needs none."""
        there = ((worker, self.core_for(worker, place)) for worker in self.workers)
        return [(worker, self.boxes[at.box], at.nic) for worker, at in there if worker != self.boxes[at.box]]

    def ways_across(self, place: Place) -> list[Way]:
        """List the ways of sums of this place between boxes: of racks, and back of all."""
        hops = [(box, self.hops[box, place.box]) for box in range(len(self.boxes))]
        there = [(box, each.above) for box, each in hops if each.above is not None]
        back = [(box, other) for box, each in hops for other in each.onto]
        return [(self.boxes[box], self.boxes[other], place.nic) for box, other in (*there, *back)]

    # Processes

    @cached_property
    def cores_at(self) -> dict[str, Place]:
        """The place of each core's process, by name."""
        return {
            f"{self.nodes[node]}.core{nic * self.cores + core}": Place(box, nic, core)
            for box, node in enumerate(self.boxes)
            for nic in range(self.nics)
            for core in range(self.cores)
        }

    @property
    def manager(self) -> str:
        """Name of the process that gives access, on the last box."""
        return f"{self.nodes[self.boxes[-1]]}.manager"

    def mates(self, core: str) -> list[str]:
        """List the other cores that own the same keys as a core: with affinity to workers, those with its number at the
        box's other NICs."""
        at = self.cores_at[core]
        alike = [name for name, place in self.cores_at.items() if (place.box, place.core) == (at.box, at.core)]
        return [name for name in alike if name != core] if self.affinity == "worker" else []

    def across_from(self, core: str) -> dict[int, str]:
        """Name the cores with which a core exchanges sums of racks, by their boxes."""
        at = self.cores_at[core]
        hops = [self.hops[at.box, owner] for owner in range(len(self.boxes))]
        met = {box for each in hops for box in (*each.below, each.above, each.source, *each.onto)}
        return {
            place.box: name
            for name, place in self.cores_at.items()
            if place.box in met and place == replace(at, box=place.box)
        }

    def meetings(self) -> list[tuple[str, str]]:
        """List each two processes that are connected: workers and cores that send each other keys, cores that own keys
        together or add sums of racks, each core and the manager, and rank 0 with the manager and with all other
        workers."""
        names = [self.nodes[node] for node in self.workers]
        served = [(self.nodes[worker], core) for core, place in self.cores_at.items() for worker in self.served(place)]
        managed = [(core, self.manager) for core in self.cores_at]
        mates = [(core, mate) for core in self.cores_at for mate in self.mates(core) if core < mate]
        across = [(core, other) for core in self.cores_at for other in self.across_from(core).values() if core < other]
        return [
            *served,
            *managed,
            *mates,
            *across,
            (names[0], self.manager),
            *((names[0], other) for other in names[1:]),
        ]

    def processes(self) -> list[Process]:
        """Return the workers by rank, then the cores, then the manager. Those on different nodes are connected over the
        network."""
        alone = workers(self)
        for name, place in self.cores_at.items():
            alone.append(replace(process(name, self.boxes[place.box], "core"), connection=place.nic))
        alone.append(replace(process(self.manager, self.boxes[-1], "manager"), connection=0))
        node_of = {each.name: each.node for each in alone}
        met: dict[str, list[str]] = {each.name: [] for each in alone}
        for one, other in self.meetings():
            if node_of[one] != node_of[other]:
                met[one].append(other)
                met[other].append(one)
        return [replace(each, meets=tuple(met[each.name])) for each in alone]

    def pairs(self) -> list[tuple[int, int]]:
        """List each (sender, receiver) once, sorted."""
        processes = self.processes()
        node_of = {each.name: each.node for each in processes}
        return sorted({(each.node, node_of[other]) for each in processes for other in each.meets})

    def fields(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def from_fields(told: Mapping[str, Any]) -> Plan:
    """Rebuild a plan from its :meth:`Plan.fields` that were read from JSON."""
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    return Plan(**values)
