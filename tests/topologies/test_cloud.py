"""Clouds: how racks and rows are linked, what nobody is told, and what it costs not to know."""

from __future__ import annotations

from collections import Counter
from random import Random
from statistics import mean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SchemeError, TopologyError
from testbed.topologies.build import build
from testbed.topologies.cloud import places
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.schemes.two_level import two_level

RATE_BPS = 100_000_000
Groups = tuple[tuple[int, ...], ...]


def made(parameters: str) -> Topology:
    return build(f"cloud({parameters})", rate_bps=RATE_BPS)


def way_s(topology: Topology, src: int, dst: int) -> float:
    return sum(topology.links[link // 2].delay_s for link in topology.paths(src, dst)[0].links)


@given(
    rows=st.integers(1, 3),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    seed=st.integers(0, 2**40),
    oversubscription=st.sampled_from([0.5, 1, 2, 4]),
)
def test_uplinks_follow_from_the_mean_rack_and_rows_do_not_block(
    rows: int, sizes: list[int], seed: int, oversubscription: float
) -> None:
    sizes = sizes * rows
    text = ",".join(map(str, sizes))
    topology = made(f"rows={rows},sizes=[{text}],seed={seed},oversubscription={oversubscription}")
    rack_bps = round(RATE_BPS * sum(sizes) / len(sizes) / oversubscription)
    levels = (topology.nodes[link.a].level for link in topology.links)
    rates = [(level, link.rate_bps) for level, link in zip(levels, topology.links, strict=True)]
    per_row = len(sizes) // rows
    expected = {(0, RATE_BPS): sum(sizes), (1, rack_bps): len(sizes), (2, per_row * rack_bps): rows}
    assert Counter(rates) == {key: count for key, count in expected.items() if rows > 1 or key[0] < 2}
    truth = places(topology)
    assert [truth.racks.count(rack) for rack in range(len(sizes))] == sizes
    assert all(row == rack // per_row for rack, row in zip(truth.racks, truth.rows, strict=True))


def test_a_packet_takes_1_ms_between_racks_and_2_ms_between_rows() -> None:
    topology = made("rows=2,racks=2,hosts_per_rack=4")
    racks, rows = places(topology)
    for src in topology.hosts:
        for dst in topology.hosts:
            expected_s = 0.0 if racks[src] == racks[dst] else 1e-3 if rows[src] == rows[dst] else 2e-3
            assert way_s(topology, src, dst) == pytest.approx(expected_s)


def test_delays_of_uplinks_are_parameters_and_come_on_top_of_that_of_all_links() -> None:
    topology = build("cloud(rows=2,racks=1,rack_delay_s=0.003,row_delay_s=0)", rate_bps=RATE_BPS, delay_s=0.001)
    assert sorted({link.delay_s for link in topology.links}) == [0.001, 0.004]
    assert topology.expression == "cloud(rows=2,racks=1,hosts_per_rack=4,rack_delay_s=0.003,row_delay_s=0.0)"


def test_one_seed_gives_the_same_places_for_ever() -> None:
    """Ids of trials hold the expression, so what it means must not change."""
    assert places(made("rows=1")).groups == ((5, 7, 8, 12), (0, 6, 11, 15), (1, 2, 13, 14), (3, 4, 9, 10))
    assert places(made("rows=1")) == places(made("rows=1,racks=4,hosts_per_rack=4,oversubscription=2,seed=3"))
    assert places(made("rows=1")) != places(made("rows=1,seed=4"))


def test_schemes_are_not_told_the_racks() -> None:
    topology = made("rows=1")
    assert {node.rack for node in topology.nodes} == {None}
    with pytest.raises(SchemeError, match="two_level sums by racks, and h0 of cloud"):
        two_level(topology, [])


@pytest.mark.parametrize("expression", ["star(hosts=16)", "bcube(n=3,k=2)", "expander(servers=8,degree=3)"])
def test_other_networks_hide_no_racks(expression: str) -> None:
    topology = build(expression, rate_bps=RATE_BPS)
    with pytest.raises(TopologyError) as caught:
        places(topology)
    assert str(caught.value) == f"{topology.expression} hides no racks\n  fix: take cloud(..)"


def test_a_part_of_a_cloud_hides_the_places_of_its_hosts() -> None:
    topology = made("rows=2,racks=2,ina=[tor1]")
    truth, hosts = places(topology), (9, 2, 5, 12)
    part = places(Part(topology, hosts).topology)
    assert part.racks == tuple(truth.racks[host] for host in hosts)
    assert part.rows == tuple(truth.rows[host] for host in hosts)


# What 2LHA costs by groups, against groups that are the racks.


def bound_s(topology: Topology, groups: Groups) -> float:
    return cost(two_level(topology, [], groups=groups), topology, 1e6).bound_s()


def by_fours(hosts: list[int]) -> Groups:
    return tuple(tuple(hosts[i : i + 4]) for i in range(0, 16, 4))


@pytest.mark.parametrize(
    ("oversubscription", "flat", "middle", "average"), [(2, 1.6, 1.67, 1.72), (4, 3.2, 3.33, 3.45)]
)
def test_flat_and_random_groups_cross_more_uplinks_than_racks(
    oversubscription: int, flat: float, middle: float, average: float
) -> None:
    """Draws differ in how masters are spread over racks: the median of 200 is one of a few values, 1.67 to 1.83."""
    topology = made(f"rows=1,racks=4,hosts_per_rack=4,oversubscription={oversubscription}")
    least_s = bound_s(topology, places(topology).groups)
    assert bound_s(topology, (tuple(topology.hosts),)) / least_s == pytest.approx(flat)
    random = Random(3)
    ratios = [bound_s(topology, by_fours(random.sample(topology.hosts, 16))) / least_s for _ in range(200)]
    assert median(ratios) == pytest.approx(middle, rel=0.05)
    assert mean(ratios) == pytest.approx(average, rel=0.05)


def test_equal_groups_cross_uneven_racks_less_than_racks_as_groups() -> None:
    """A rack of one host is a group whose only host sends all classes for it."""
    topology = made("sizes=[7,5,3,1],oversubscription=2")
    truth = places(topology).groups
    in_order = by_fours([host for rack in truth for host in rack])
    assert bound_s(topology, in_order) / bound_s(topology, truth) == pytest.approx(0.83, abs=0.005)
