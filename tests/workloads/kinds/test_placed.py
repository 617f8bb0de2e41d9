"""Plans on some of a network's hosts, in the whole network's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.build import build
from testbed.topologies.part import Part
from testbed.workloads import kinds
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build_plan

SIZES = [400, 40, 4000]
GRADIENT_BYTES = 4.0 * sum(SIZES)


@pytest.mark.parametrize("hosts", [(0, 1, 2, 3), (4, 1, 7, 2), (5, 6, 7, 4)])
@pytest.mark.parametrize(
    "scheme",
    ["ring", "ps(place=chunk)", "ps(place=tensor,servers=1)", "halving_doubling", "double_binary_tree", "tree", "h_ar"],
)
def test_a_plan_is_right_on_the_whole_network_and_costs_the_same(scheme: str, hosts: tuple[int, ...]) -> None:
    whole = build("spine_leaf(racks=2,hosts_per_rack=4,spines=1)", rate_bps=10**8)
    part = Part(whole, hosts)
    try:
        alone = build_plan(scheme, part.topology, SIZES)
    except SchemeError:
        pytest.skip(f"{scheme} cannot use these hosts")
    found = kinds.placed(alone, part)
    kinds.verify(found, whole)
    assert {one.name for one in kinds.of(found).processes(found)} <= {whole.nodes[host].name for host in hosts}
    ours, theirs = kinds.cost(found, whole, GRADIENT_BYTES), kinds.cost(alone, part.topology, GRADIENT_BYTES)
    np.testing.assert_array_equal(ours.link_bytes, theirs.link_bytes)
    np.testing.assert_array_equal(ours.link_rate_bps, theirs.link_rate_bps)


def test_members_are_placed_too() -> None:
    whole = build("star(hosts=6)", rate_bps=10**8)
    part = Part(whole, (5, 1, 3))
    found = kinds.placed(build_plan("ring(members=[[0,1],[0,1,2]])", part.topology, SIZES), part)
    kinds.verify(found, whole)
    assert isinstance(found, Forest)
    assert found.workers == (5, 1, 3)
    assert {tuple(np.flatnonzero(row)) for row in found.members} == {(1, 5), (1, 3, 5)}


def test_switches_that_add_stay_the_same_switches() -> None:
    whole = build("star(hosts=4,ina=all)", rate_bps=10**8)
    part = Part(whole, (1, 3))
    found = kinds.placed(build_plan("rina", part.topology, SIZES), part)
    kinds.verify(found, whole)
    assert {one.name for one in kinds.of(found).processes(found)} == {"h1", "h3", "s0"}


def test_kinds_say_whether_their_jobs_share_a_network() -> None:
    sharing = {name: kind.sharing for name, kind in kinds.kinds().items() if kind.sharing is not None}
    assert {name for name, part in sharing.items() if part.among_others} == {"forest", "hybrid", "phub"}
    assert sharing.keys() == {"forest", "hybrid", "library", "script", "command", "tuned", "phub"}
