"""Keys, their cores, the bytes that pass each NIC, and the lower bound, by the worked examples of the thesis."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.kinds.phub.cost import cost
from testbed.workloads.kinds.phub.kind import KIND
from testbed.workloads.kinds.phub.plan import Key, Plan, cut, from_fields, spread
from testbed.workloads.kinds.phub.schemes import pbox
from testbed.workloads.profiles import profile
from testbed.workloads.sync.schemes import build, build_plan

Networks = Callable[..., Topology]
MODEL = [4096] * 40


def key(floats: int) -> Key:
    return Key(0, (0, floats))


def test_the_largest_key_goes_first_to_the_least_loaded_nic() -> None:
    """The thesis balances by the 4/3 approximation: 5 5 4 4 3 3 3 on three bins comes to 11, 8, 8."""
    sizes = [3, 5, 4, 3, 5, 4, 3]
    places = spread([key(size) for size in sizes], (1, 3, 1))
    loads = [sum(size for size, (_, at, _) in zip(sizes, places, strict=True) if at == nic) for nic in range(3)]
    assert loads == [11, 8, 8]


def test_keys_go_to_boxes_then_to_nics_then_to_cores() -> None:
    places = spread([key(1)] * 16, (2, 2, 2))
    assert sorted(places) == sorted(
        (box, nic, core) for box in (0, 1) for nic in (0, 1) for core in (0, 1) for _ in range(2)
    )


def test_each_layer_is_cut_at_the_size_of_a_key() -> None:
    keys = cut([5, 2], key_bytes=8, nics=3)
    assert [(one.layer, one.span) for one in keys] == [(0, (0, 2)), (0, (2, 4)), (0, (4, 5)), (1, (5, 7))]


def test_without_a_size_there_is_a_key_for_each_nic() -> None:
    assert [one.span for one in cut([5, 4], key_bytes=0, nics=3)] == [(0, 3), (3, 6), (6, 9)]


@pytest.mark.parametrize(("affinity", "most"), [("key", 1.6), ("worker", 2.0)])
def test_what_a_nic_carries_depends_on_affinity(topology: Networks, affinity: str, most: float) -> None:
    """8 workers and 5 NICs: by key each NIC has 8/5 gradients, by worker one has those of two workers (6.1.5)."""
    network = topology("star(hosts=9,server_nics=5,routing=every_nic)")
    made = build_plan(f"pbox(affinity={affinity})", network, MODEL)
    assert kinds.cost(made, network, 1.0).link_bytes.max() == pytest.approx(most)


def test_with_one_nic_bytes_are_those_of_a_parameter_server(topology: Networks) -> None:
    network = topology("star(hosts=5)")
    ours = kinds.cost(build_plan("pbox", network, MODEL), network, 1e6)
    server = kinds.cost(build("ps(colocated=false)", network, MODEL), network, 1e6)
    assert np.allclose(ours.link_bytes, server.link_bytes)


def test_a_colocated_host_carries_what_a_sharded_server_does(topology: Networks) -> None:
    """PShard: 2(N-1)/N gradients each way for 8 workers, 1.75 of a box's."""
    network = topology("star(hosts=8)")
    made = kinds.cost(build_plan("pbox(colocated=true)", network, [4096] * 80), network, 1.0)
    assert made.link_bytes.max() == pytest.approx(1.75)


@pytest.mark.parametrize(("model", "ratio"), [("alexnet", 1.516), ("vgg11", 1.773), ("resnet50", 1.092)])
def test_wide_aggregation_adds_the_largest_layer(topology: Networks, model: str, ratio: float) -> None:
    sizes = [
        floats for layer in reversed(profile(model).layers) for _, shape in layer.tensors for floats in [prod(shape)]
    ]
    network = topology("star(hosts=9,server_nics=8,routing=every_nic)")
    tall, wide = (pbox(network, sizes, aggregation=which, key_bytes=16_384) for which in ("tall", "wide"))
    least = [cost(made, network, 4.0 * sum(sizes)).bound_s() for made in (tall, wide)]
    assert least[1] / least[0] == pytest.approx(ratio, rel=2e-3)


def test_one_key_for_each_nic_goes_there_and_then_back(topology: Networks) -> None:
    network = topology("star(hosts=9,server_nics=8,routing=every_nic)")
    whole = cost(pbox(network, MODEL, key_bytes=0), network, 1.0)
    assert whole.bound_s() == pytest.approx(2 * whole.round_s())


def test_a_plan_comes_back_from_its_file(topology: Networks) -> None:
    made = build_plan("pbox(cores=2,aggregation=wide)", topology("star(hosts=4)"), MODEL)
    assert isinstance(made, Plan)
    assert KIND.decode(KIND.encode(made)) == made
    assert from_fields(made.fields()).processes() == made.processes()


def test_boxes_of_racks_share_the_keys_and_take_no_gradient(topology: Networks) -> None:
    network = topology("spine_leaf(racks=2,hosts_per_rack=5,spines=1,server_nics=4,routing=every_nic)")
    made = pbox(network, MODEL, boxes="rack")
    assert (made.boxes, made.workers, made.nics) == ((4, 9), (0, 1, 2, 3, 5, 6, 7, 8), 4)
    bytes_of = cost(made, network, 1.0).link_bytes
    into = {link ^ 1: bytes_of[link ^ 1] for box in made.boxes for link in network.ports[box]}
    assert all(count == pytest.approx(1.0) for count in into.values()), "8 workers, 8 NICs in all"
    assert cost(made, network, 1.0).cross_rack_bytes == pytest.approx(8), "half of each gradient, there and back"


@pytest.mark.parametrize(("across", "racks"), [("ps", 2), ("ps", 3), ("ring", 3)])
def test_sums_of_racks_move_what_hierarchical_servers_do(topology: Networks, across: str, racks: int) -> None:
    """With one NIC a box, every link carries the bytes of ``hierarchical_ps(colocated=false)``."""
    network = topology(f"spine_leaf(racks={racks},hosts_per_rack=5,spines=1)")
    ours = kinds.cost(build_plan(f"pbox(boxes=rack,across={across})", network, [4096] * 6 * 7), network, 1e6)
    forest = build(f"hierarchical_ps(colocated=false,across={across})", network, MODEL)
    theirs = kinds.cost(forest, network, 1e6)
    assert np.allclose(ours.link_bytes, theirs.link_bytes)
    assert ours.rounds == theirs.rounds


def test_across_racks_boxes_move_one_gradient_in_place_of_one_for_each_worker(topology: Networks) -> None:
    """PHub thesis, section 2.3: 1/N of flat's bytes, N workers a rack."""
    network = topology("spine_leaf(racks=2,hosts_per_rack=5,spines=1,server_nics=4,routing=every_nic)")
    flat, ours = (cost(pbox(network, MODEL, boxes="rack", across=which), network, 1.0) for which in ("none", "ps"))
    assert ours.cross_rack_bytes == pytest.approx(flat.cross_rack_bytes / 4)
    assert ours.bound_s() >= max(ours.round_s(), 1.01 * 8 / network.links[0].rate_bps), "there, and one key back"


def test_on_a_link_with_keys_there_and_back_the_largest_is_added_to_pushes_alone(topology: Networks) -> None:
    """Two racks, a box with one key in each: 500 of 1,000 bytes. Both ways, the slow link between racks carries two
    pushes of one box's key, and two values of the other's."""
    network = topology("spine_leaf(racks=2,hosts_per_rack=3,spines=1,oversubscription=10)")
    made = cost(pbox(network, [500], boxes="rack", key_bytes=0), network, 1000.0)
    assert made.bound_s() == pytest.approx(8 * 4 * 500 / network.links[-1].rate_bps)


def test_without_a_size_each_box_completes_as_many_keys_as_the_others(topology: Networks) -> None:
    """8 keys flat, which have a NIC each; 4 where each box has all of them, of which it completes 2."""
    network = topology("spine_leaf(racks=2,hosts_per_rack=5,spines=1,server_nics=4,routing=every_nic)")
    flat, made = (pbox(network, MODEL, boxes="rack", across=which, key_bytes=0) for which in ("none", "ring"))
    assert (len(flat.keys), len(made.keys)) == (8, 4)
    assert sorted(place.nic for place in made.places) == [0, 1, 2, 3]
    assert sorted(place.box for place in made.places) == [0, 0, 1, 1]
    assert all(len(made.keys_of(core)) == 1 for core in made.cores_at)
    assert from_fields(made.fields()) == made


def test_a_ring_of_boxes_passes_sums_one_way(topology: Networks) -> None:
    made = pbox(topology("spine_leaf(racks=3,hosts_per_rack=2,spines=1)"), MODEL, boxes="rack", across="ring")
    ways = {way for place in made.places for way in made.ways_across(place)}
    assert ways == {(1, 3, 0), (3, 5, 0), (5, 1, 0)}
    assert [made.hops[box, 0].above for box in range(3)] == [None, 2, 0]
    assert [made.hops[box, 0].source for box in range(3)] == [None, 0, 1]


def test_each_core_meets_all_workers_over_its_nic(topology: Networks) -> None:
    made = pbox(topology("star(hosts=3,server_nics=2,routing=every_nic)"), MODEL, cores=2)
    cores = [one for one in made.processes() if one.parts[0].role == "core"]
    assert [(one.name, one.connection) for one in cores] == [(f"h2.core{core}", core // 2) for core in range(4)]
    assert all(one.meets == ("h0", "h1") for one in cores)


@pytest.mark.parametrize(
    ("scheme", "problem", "fix"),
    [
        ("pbox(key_bytes=6)", "scheme pbox: keys of 6 bytes cut a float", "a multiple of 4, such as 32768"),
        ("pbox(cores=0)", "scheme pbox has 0 cores for each NIC", "give cores 1 to 64"),
    ],
)
def test_parameters_out_of_range_are_refused(topology: Networks, scheme: str, problem: str, fix: str) -> None:
    with pytest.raises(SchemeError) as told:
        build_plan(scheme, topology("star(hosts=4)"), MODEL)
    assert problem in told.value.problem
    assert fix in told.value.fix
