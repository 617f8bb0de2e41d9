"""Keys, bytes and conditions of PHub, with the worked examples."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads import profiles
from testbed.workloads.kinds.phub.cost import cost, flat_s, hierarchical_s, wide_over_tall
from testbed.workloads.kinds.phub.keys import cut, keys
from testbed.workloads.kinds.phub.plan import Boxes, Options, plan
from testbed.workloads.sync.cost import Cost
from testbed.workloads.sync.cost import cost as cost_of_forest
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.schemes.ps import longest_first

FLOATS = 8 * 9 * 5 * 8192
"""Keys of 32 KiB that divide evenly over boxes and NICs."""
RATE_BPS = 10**8
RACKS = "spine_leaf(racks=2,hosts_per_rack=5,spines=1,server_nics={},routing=every_nic)"


def net(expression: str) -> Topology:
    return build_topology(expression, rate_bps=RATE_BPS)


def placed(topology: Topology, **options: object) -> Boxes:
    return plan("pbox", topology, Options(**options))  # type: ignore[arg-type]


def costs(topology: Topology, **options: object) -> Cost:
    boxes = placed(topology, **options)
    return cost(boxes, topology, keys(boxes, [FLOATS]))


def gradients(found: Cost) -> float:
    """Least time, in that which a link takes for the gradient."""
    return found.bound_s() * RATE_BPS / (32 * FLOATS)


def test_longest_first() -> None:
    sizes = [5, 5, 4, 4, 3, 3, 3]
    assert np.bincount(longest_first(sizes, 3), weights=sizes).tolist() == [11, 8, 8]


def test_each_layer_is_cut_at_the_size_of_a_key() -> None:
    assert cut([5, 3, 9], 16, 4).tolist() == [0, 4, 5, 8, 12, 16, 17]
    assert cut([5, 3, 9], 0, 4).tolist() == [0, 4, 8, 12, 17]


def test_keys_go_to_boxes_nics_and_cores_largest_first() -> None:
    boxes = placed(net("star(hosts=3,server_nics=2,routing=every_nic)"), cores=2, key_bytes=40)
    found = keys(boxes, [5, 5, 4, 4, 3, 3, 3])
    size = np.diff(found.edges)
    assert size.tolist() == [5, 5, 4, 4, 3, 3, 3]
    assert sorted(np.bincount(found.nic, weights=size)) == [12, 15]
    for nic in range(2):
        at = found.nic == nic
        loads = np.bincount(found.core[at], weights=size[at], minlength=2)
        assert abs(loads[0] - loads[1]) <= 5
        assert loads.all()


def test_the_largest_of_small_keys_is_spread_over_both_boxes_and_all_nics() -> None:
    boxes = placed(net(RACKS.format(4)), boxes="rack")
    found = keys(boxes, [FLOATS])
    where = found.box * 4 + found.nic
    assert (boxes.places, len(set(np.bincount(where, weights=np.diff(found.edges)).tolist()))) == (8, 1)


def test_one_key_for_each_nic() -> None:
    for across, count in (("none", 8), ("ps", 4), ("ring", 4)):
        boxes = placed(net(RACKS.format(4)), boxes="rack", across=across, key_bytes=0)
        assert len(keys(boxes, [FLOATS]).size_bytes) == count


@pytest.mark.parametrize(("affinity", "least"), [("key", 1.6), ("worker", 2.0)])
def test_eight_workers_and_five_nics(affinity: str, least: float) -> None:
    topology = net("star(hosts=9,server_nics=5,routing=every_nic)")
    assert gradients(costs(topology, affinity=affinity)) == pytest.approx(least)


def test_with_one_nic_links_carry_what_they_carry_under_ps() -> None:
    topology = net("star(hosts=9)")
    forest = cost_of_forest(build("ps(colocated=false)", topology, []), topology, 4 * FLOATS)
    found = costs(topology)
    assert np.array_equal(found.link_bytes, forest.link_bytes)
    assert found.rounds == forest.rounds


def test_colocated_servers_carry_what_sharded_ps_carries() -> None:
    topology = net("star(hosts=8)")
    forest = cost_of_forest(build("ps", topology, []), topology, 4 * FLOATS)
    assert costs(topology, colocated=True).link_bytes == pytest.approx(forest.link_bytes)
    assert gradients(costs(topology, colocated=True)) == pytest.approx(1.75)


@pytest.mark.parametrize("across", ["ps", "ring"])
@pytest.mark.parametrize("racks", [2, 3])
def test_boxes_that_add_racks_carry_what_hierarchical_ps_carries(across: str, racks: int) -> None:
    topology = net(f"spine_leaf(racks={racks},hosts_per_rack=5,spines=1)")
    forest = build(f"hierarchical_ps(colocated=false,across={across})", topology, [])
    theirs = cost_of_forest(forest, topology, 4 * FLOATS)
    found = costs(topology, boxes="rack", across=across)
    assert found.link_bytes == pytest.approx(theirs.link_bytes)
    assert found.rounds == theirs.rounds


def test_adding_in_racks_moves_one_nth_across_them() -> None:
    flat, hierarchical = (costs(net(RACKS.format(4)), boxes="rack", across=across) for across in ("none", "ps"))
    assert hierarchical.cross_rack_bytes / flat.cross_rack_bytes == pytest.approx(1 / 4)


def test_every_nic_of_a_box_carries_the_same_between_boxes() -> None:
    topology = net(RACKS.format(4))
    found = costs(topology, boxes="rack", across="ps").link_bytes
    nics = [link for box in (4, 9) for link in topology.ports[box]]
    assert len({*found[nics].tolist(), *found[[link ^ 1 for link in nics]].tolist()}) == 1


@pytest.mark.parametrize(("name", "ratio"), [("alexnet", 1.516), ("vgg11", 1.773), ("resnet50", 1.092)])
def test_wide_over_tall(name: str, ratio: float) -> None:
    layers = [layer.floats for layer in profiles.profile(name).layers]
    assert wide_over_tall(layers) == pytest.approx(ratio, abs=1e-3)


def test_when_adding_in_racks_pays() -> None:
    """Four workers a rack, two racks, workers of 100 and boxes of 400 Mbit/s."""
    for core, flat, hierarchical in ((100, 0.020, 0.015), (200, 0.010, 0.0125), (150, 4 / 300, 4 / 300)):
        assert flat_s(4, 2, core) == pytest.approx(flat)
        assert hierarchical_s(4, 2, 100, 400, core) == pytest.approx(hierarchical)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"across": "ring"}, "scheme pbox sums across racks, and has one box\n  fix: add boxes=rack"),
        (
            {"key_bytes": 6},
            "scheme pbox: keys of 6 bytes cut a float\n  fix: give key_bytes a multiple of 4, such as 32768",
        ),
        ({"cores": 0}, "scheme pbox: cores is 0\n  fix: give cores at least 1"),
        ({"boxes": "rack"}, "is one rack\n  fix: take boxes=one"),
        ({"affinity": "worker", "colocated": True}, "leave out affinity=worker"),
        ({"boxes": "rack", "colocated": True}, "leave out boxes=rack"),
    ],
)
def test_settings_that_contradict_each_other(options: dict[str, object], said: str) -> None:
    with pytest.raises(SchemeError) as refused:
        placed(net("star(hosts=4)"), **options)
    assert said in str(refused.value)


def test_no_worker_is_left() -> None:
    with pytest.raises(SchemeError, match="needs a worker beside each box"):
        placed(net("star(hosts=1)"))
