"""Plans of one class and a rotation: the same times as with all classes, and networks that do not look alike."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.fluid import Fluid
from testbed.workloads.play.player import Player
from testbed.workloads.play.queues import Queues
from testbed.workloads.play.synchronisation import Synchronisation, synchronisation
from testbed.workloads.sync import cost, rotation
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.rotation import MOST_HOSTS, MOST_OF_TREES, Rotation
from testbed.workloads.sync.schemes import build_plan
from testbed.workloads.sync.schemes.registry import CLASS_A_HOST
from testbed.workloads.sync.schemes.ring import ring, turned_ring

RATE_BPS, DELAY_S = 10**9, 1e-6


def star(hosts: int) -> Topology:
    return build_topology(f"star(hosts={hosts})", rate_bps=RATE_BPS, delay_s=DELAY_S)


def of_class_0(plan: Rotation, floats: int, buckets: int, chunk_bytes: int) -> Synchronisation:
    gradient = SimpleNamespace(floats=floats, buckets=spans(floats, buckets))
    return kinds.of(plan).simulation.synchronisation(plan, (cast("Gradient", gradient), chunk_bytes))


def spans(floats: int, buckets: int) -> list[tuple[int, int]]:
    size = floats // buckets
    return [(number * size, (number + 1) * size) for number in range(buckets)]


@pytest.mark.parametrize("engine", [Queues.over, Fluid.over])
@pytest.mark.parametrize(("hosts", "buckets", "chunk_bytes"), [(16, 1, 10**9), (16, 3, 4000), (128, 1, 4000)])
def test_one_class_takes_as_long_as_all(engine: Any, hosts: int, buckets: int, chunk_bytes: int) -> None:
    topology, floats = star(hosts), hosts * 6000
    forest = ring(topology, [floats])
    every = synchronisation(forest, cut(forest, floats, spans(floats, buckets), chunk_bytes))
    one = of_class_0(turned_ring(topology), floats, buckets, chunk_bytes)
    ready_s = np.tile(np.arange(buckets) * 1e-3, (hosts, 1))
    ends, links, pairs = [], [], []
    for work in (every, one):
        player = Player(Arena(topology, goodput=0.95, engine=engine), work)
        ends.append(max(at_s for at_s, _ in player.told(ready_s)))
        links.append(player.carried_bytes())
        pairs.append(dict(zip(map(tuple, work.pairs.tolist()), player.sent_bytes().tolist(), strict=True)))
    assert ends[1] == pytest.approx(ends[0], rel=1e-12)
    assert links[1] == pytest.approx(links[0])
    assert pairs[1] == pytest.approx(pairs[0])


def test_what_links_carry_and_the_least_time_are_those_of_the_forest() -> None:
    topology, kind = star(16), kinds.named(rotation.KIND)
    plan, forest = turned_ring(topology), ring(topology, [])
    mine, other = kind.cost(plan, topology, 1e6), cost.cost(forest, topology, 1e6)
    assert (mine.rounds, mine.cross_rack_bytes) == (other.rounds, other.cross_rack_bytes)
    assert mine.link_bytes == pytest.approx(other.link_bytes)
    assert kind.pairs(plan) == kinds.of(forest).pairs(forest)


def test_a_large_star_of_equal_links_has_one_class() -> None:
    plan = build_plan("ring", star(MOST_HOSTS + 1), [10**6])
    assert isinstance(plan, Rotation)
    kind = kinds.of(plan)
    kind.verify(plan, star(MOST_HOSTS + 1))
    again = kind.decode(kind.encode(plan))
    assert (again.scheme, again.nodes, again.workers) == (plan.scheme, plan.nodes, plan.workers)
    for name in ("reduce", "broadcast", "turn", "like"):
        assert (getattr(again, name) == getattr(plan, name)).all()


def with_a_slower_link(topology: Topology, host: int) -> Topology:
    links = list(topology.links)
    links[host] = replace(links[host], rate_bps=RATE_BPS // 2)
    return replace(topology, links=tuple(links))


def test_the_first_link_that_differs_is_named() -> None:
    topology = with_a_slower_link(star(16), 5)
    with pytest.raises(SchemeError) as caught:
        rotation.check(turned_ring(topology).built_by("ring"), topology)
    assert caught.value.problem == (
        "scheme ring on 16 hosts: not all links look alike: h4-s0 has 1,000,000,000 bit/s and a delay of 1e-06 s; "
        "between h5 and s0, where a turn brings it, there is one with 500,000,000 bit/s and a delay of 1e-06 s"
    )


def test_a_turn_to_where_there_is_no_link_is_none() -> None:
    topology = build_topology("spine_leaf(racks=2,hosts_per_rack=2,spines=1)", rate_bps=RATE_BPS)
    with pytest.raises(SchemeError, match=r"not all links look alike: h1-\S+ has .* there is no link"):
        rotation.check(turned_ring(topology), topology)


def test_a_turn_under_which_hosts_send_in_another_order_is_none() -> None:
    topology = star(4)
    plan = turned_ring(topology)
    other = replace(plan, turn=np.array([2, 3, 1, 0, 4], np.int32))
    with pytest.raises(SchemeError, match="h0 sends its classes in another order than h2, in whose place"):
        rotation.check(other, topology)
    with pytest.raises(SchemeError, match="turning does not bring each host to all places"):
        rotation.check(replace(plan, turn=np.array([1, 0, 3, 2, 4], np.int32)), topology)


def test_all_classes_are_played_where_links_differ_as_long_as_their_trees_can_be_made() -> None:
    assert not isinstance(build_plan("ring", with_a_slower_link(star(MOST_HOSTS + 1), 5), []), Rotation)
    with pytest.raises(SchemeError, match="not all links look alike"):
        build_plan("ring", with_a_slower_link(star(MOST_OF_TREES + 1), 5), [])


@pytest.mark.parametrize("scheme", [*sorted(CLASS_A_HOST.keys() - {"ring"}), "ring(members=[[0,1],[2,3]])"])
def test_schemes_without_a_rotation_are_refused_where_their_trees_are_too_many(scheme: str) -> None:
    with pytest.raises(SchemeError, match="no rotation stands for them"):
        build_plan(scheme, star(MOST_OF_TREES + 1), [])
