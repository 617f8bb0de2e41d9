"""Racks of an inventory as racks of a topology, and the network between them; a trial is in ``test_rehearse.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import SpecError
from testbed.lab.baremetal.networks import measuring, network
from testbed.lab.baremetal.preparing.inventory import Host, Inventory, InventoryNic
from testbed.lab.base import LinkSettings
from testbed.topologies import addressing
from testbed.topologies.build import build
from testbed.topologies.model import Topology

MBIT = 10**6
TWO_RACKS = "spine_leaf(racks=2,hosts_per_rack=2,spines=1,oversubscription=2)"


def inventory(*racks: str | None) -> Inventory:
    """A machine node1, node2, ... a rack given."""
    hosts = (
        Host(f"node{i}", (InventoryNic("eth1"),), rack, "/var/lib/testbed", {}) for i, rack in enumerate(racks, start=1)
    )
    return Inventory(Path("lab.yml"), tuple(hosts))


def names(topology: Topology, found: Inventory) -> list[str]:
    return [host.name for host in network.machines(topology, found)]


def test_hosts_under_one_switch_are_of_one_rack_in_the_inventorys_order() -> None:
    topology = build(TWO_RACKS, rate_bps=MBIT)
    assert names(topology, inventory("b", "a", "a", "b", "b")) == ["node1", "node4", "node2", "node3"]


def test_without_racks_and_links_between_switches_machines_are_taken_as_they_come() -> None:
    assert names(build(TWO_RACKS, rate_bps=MBIT), inventory(None, None, None, None)) == [
        f"node{i}" for i in range(1, 5)
    ]
    assert names(build("star(hosts=3)", rate_bps=MBIT), inventory("b", "a", None)) == ["node1", "node2", "node3"]


def test_a_rack_is_left_to_those_that_need_its_size() -> None:
    """The first switch takes the first rack that leaves a large enough one for the other."""
    topology = build("./tests/testbed/lab/baremetal/racks.py:uneven", rate_bps=MBIT)
    assert names(topology, inventory("big", "big", "big", "small")) == ["node4", "node1", "node2", "node3"]


@pytest.mark.parametrize(
    ("racks", "said"),
    [
        (("a", "a", "a", "b"), r"2 racks of 2 hosts, .* different racks of lab.yml, of which a has 3, b has 1"),
        (("a", "a", "a", "a"), r"of which a has 4"),
        (("a", "a", "b", None), r"node1 has a rack, and node4 has none"),
    ],
)
def test_racks_that_do_not_fit_are_refused(racks: tuple[str | None, ...], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        network.check(build(TWO_RACKS, rate_bps=MBIT), LinkSettings(), inventory(*racks))


def test_hosts_with_several_links_and_links_between_switches_are_refused() -> None:
    topology = build("./tests/testbed/lab/baremetal/racks.py:both", rate_bps=MBIT)
    machines = Inventory(
        Path("lab.yml"),
        tuple(Host(f"n{i}", (InventoryNic("eth1"), InventoryNic("eth2")), None, "", {}) for i in range(2)),
    )
    with pytest.raises(SpecError, match="h0 has several links, and there are links between switches"):
        network.check(topology, LinkSettings(), machines)


def test_links_between_switches_belong_to_no_nic() -> None:
    topology = build(TWO_RACKS, rate_bps=100 * MBIT)
    found = inventory("a", "a", "b", "b")
    macs = {host.name: {"eth1": f"02:{host.name}"} for host in found.hosts}
    planned = network.plan(topology, LinkSettings(), measuring.crossing_pairs(topology), found, macs, "somebody", 60)
    places = [planned.place(link) for link in range(2 * len(topology.links))]
    assert [place for place in places[8:] if place] == []
    assert sorted(place for place in places if place) == [(host, 0, out) for host in range(4) for out in (False, True)]
    reached = {peer for nic in planned.wanted[0].nics for peer, _ in nic.peers}
    assert reached == {planned.physical[addressing.plan(topology).flow(0, 2)[1]]}


def test_racks_send_in_a_ring_and_none_sends_and_receives_at_once() -> None:
    for racks in (2, 3, 4, 5):
        topology = build(f"spine_leaf(racks={racks},hosts_per_rack=2,spines=1)", rate_bps=100 * MBIT)
        rounds = measuring.rounds(topology)
        assert len(rounds) == 2 + racks % 2
        for one in rounds:
            ends = [end for crossing in one for end in (crossing.src, crossing.dst)]
            assert len(ends) == len(set(ends))
            assert {crossing.rates_bps for crossing in one} == {(100e6, 100e6)}
        leaves = range(2 * racks, 3 * racks)
        between = [(crossing.src, crossing.dst) for one in rounds for crossing in one]
        assert sorted(between) == sorted((leaf, leaf + 1 if leaf + 1 in leaves else leaves[0]) for leaf in leaves)


def test_what_racks_should_carry_is_what_their_links_let_through() -> None:
    there, back = measuring.rounds(build(TWO_RACKS, rate_bps=100 * MBIT))
    assert [crossing.rates_bps for crossing in (*there, *back)] == [(50e6, 50e6)] * 2, "NICs of 100, a link of 100"
    assert measuring.rounds(build("star(hosts=4)", rate_bps=MBIT)) == []
    assert measuring.rounds(build("bcube(n=2,k=2)", rate_bps=MBIT)) == []
    slower = build("spine_leaf(racks=2,hosts_per_rack=2,spines=1,oversubscription=8)", rate_bps=100 * MBIT)
    *across, inside = measuring.rounds(slower)
    assert [crossing.rates_bps for one in across for crossing in one] == [(12.5e6, 12.5e6)] * 2
    assert [(crossing.flows, crossing.rates_bps) for crossing in inside] == [
        (((a, b),), (100e6,)) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))
    ], "bursts between racks do not show what these NICs can do"
