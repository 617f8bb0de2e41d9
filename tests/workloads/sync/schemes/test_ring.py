"""The ring's chains."""

from __future__ import annotations

from collections.abc import Callable

from testbed.topologies.model import Topology
from testbed.workloads.sync.flows import pairs
from testbed.workloads.sync.schemes.ring import ring


def test_class_c_is_summed_along_the_ring_to_c_and_goes_around_once_more(topology: Callable[..., Topology]) -> None:
    forest = ring(topology("star(hosts=4)"), [])
    assert forest.reduce[1].tolist() == [1, -1, 3, 0, -2]
    assert forest.broadcast[1].tolist() == [3, -1, 1, 2, -2]


def test_everyone_sends_to_the_successor_only(topology: Callable[..., Topology]) -> None:
    assert pairs(ring(topology("star(hosts=4)"), [])) == [(0, 1), (1, 2), (2, 3), (3, 0)]


def test_two_workers_and_one(topology: Callable[..., Topology]) -> None:
    assert ring(topology("star(hosts=2)"), []).reduce.tolist() == [[-1, 0, -2], [1, -1, -2]]
    assert ring(topology("star(hosts=1)"), []).reduce.tolist() == [[-1, -2]]
