"""Rina: a ring of racks whose switches add, and of the workers of the other racks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import ABSENT, ROOT, FixedPoint, Forest
from testbed.workloads.sync.trees import DEFAULT_SCALE, DEFAULT_SLOTS, over, racks


@dataclass(frozen=True)
class _Group:
    """One member of the ring: an abstract worker (a rack and its switch), or an autonomous one (a worker alone).

    ``entry`` takes what the group before it sends: the agent, or the worker. ``head`` passes the group's sum on: the
    switch, or the worker.
    """

    workers: Sequence[int]
    entry: int
    head: int


def rina(
    topology: Topology, tensor_sizes: Sequence[int], *, scale: float = DEFAULT_SCALE, slots: int = DEFAULT_SLOTS
) -> Forest:
    """Ring all-reduce over G groups: each rack under a switch that aggregates is one member, each other worker is one.

    Class c is summed along groups c+1, c+2, ..., c. In an abstract group all workers send to the ToR switch, the agent
    (its first worker) after it has added what came from the group before; the switch sends their sum to the agent of
    the next group, or to the autonomous worker. The sum goes once more around, and each switch gives it to all its
    workers and to the next group. Where no rack of two or more workers has such a switch it is ``ring``, in floats.

    Source: Rina sections IV-A to IV-C.
    """
    return rina_without((), topology, tensor_sizes, scale=scale, slots=slots)


def rina_without(
    dead: Collection[int],
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    scale: float = DEFAULT_SCALE,
    slots: int = DEFAULT_SLOTS,
) -> Forest:
    """Make the forest with which :func:`rina` goes on when these nodes have died.

    A rack whose agent, or whose switch's aggregator, died counts as not replaced: its other workers are autonomous. A
    worker that died is left out of its rack; an autonomous one is bypassed. Ranks close up.

    Source: Rina section IV-C2 ("Reliability"), where agents and neighbours find out by themselves; that a switch which
    no longer adds still forwards is ours to say, the paper speaks of agents and workers only.
    """
    groups = [group for rack in racks(topology, "rina") for group in _groups(topology, rack, dead)]
    classes, nodes = len(groups), len(topology.nodes)
    reduce = np.full((classes, nodes), ABSENT, dtype=np.int32)
    broadcast = reduce.copy()
    every = np.arange(classes)
    for r, group in enumerate(groups):
        following, before = groups[(r + 1) % classes], groups[r - 1]
        workers = [worker for worker in group.workers if worker != group.head]
        reduce[:, workers] = broadcast[:, workers] = group.head
        reduce[:, group.head] = np.where(every == r, ROOT, following.entry)
        broadcast[:, group.head] = np.where(every == r, ROOT, before.head)
    plain = all(group.head == group.entry for group in groups)
    workers = [worker for worker in topology.hosts if worker not in dead]
    return over(topology, reduce, broadcast, workers=workers, fixed=None if plain else FixedPoint(scale, slots))


def _groups(topology: Topology, rack: Sequence[int], dead: Collection[int]) -> list[_Group]:
    neighbours = [{topology.head(link) for link in topology.ports[host]} for host in rack]
    able = sorted(switch for switch in set.intersection(*neighbours) if topology.nodes[switch].ina)
    agent, alive = min(rack), [worker for worker in rack if worker not in dead]
    if able and len(alive) > 1 and not {agent, able[0]} & set(dead):
        return [_Group(alive, entry=agent, head=able[0])]
    return [_Group([worker], entry=worker, head=worker) for worker in alive]
