"""From a topology and an inventory to what each host is to be like: pure data."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from testbed.base.errors import SpecError
from testbed.experiment.own_links import with_own
from testbed.lab.baremetal.networks import network
from testbed.lab.baremetal.nics.readback import Wanted
from testbed.lab.baremetal.preparing.inventory import Host, Inventory, InventoryNic
from testbed.lab.base import LinkSettings
from testbed.spec.links import Links
from testbed.topologies import addressing
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.sync.flows import pairs
from testbed.workloads.sync.schemes import build as forest

MBIT = 10**6


def inventory(hosts: int, nics: int = 1, addresses: bool = False) -> Inventory:
    """Machines node1, node2, ..."""
    return Inventory(
        Path("inventory.yml"),
        tuple(
            Host(
                f"node{i}",
                tuple(InventoryNic(f"eth{n}", f"172.16.{n}.{i}" if addresses else None) for n in range(1, nics + 1)),
                None,
                "/var/lib/testbed",
                {},
            )
            for i in range(1, hosts + 1)
        ),
    )


def macs(found: Inventory) -> network.Macs:
    return {host.name: {nic.name: f"02:{host.name}:{nic.name}" for nic in host.nics} for host in found.hosts}


def planned(topology: Topology, found: Inventory, flows: list[tuple[int, int]]) -> network.Placement:
    return network.plan(topology, LinkSettings(), flows, found, macs(found), "somebody", 60)


def test_each_link_is_a_nic_shaped_both_ways() -> None:
    topology = build("star(hosts=3)", rate_bps=200 * MBIT)
    found = planned(topology, inventory(3), list(permutations(range(3), 2)))
    for node, wanted in enumerate(found.wanted):
        (nic,) = wanted.nics
        assert (nic.name, nic.out_bps, nic.in_bps) == ("eth1", 200 * MBIT, 200 * MBIT)
        others = [f"node{other + 1}" for other in range(3) if other != node]
        assert nic.peers == tuple((f"10.0.0.{int(name[4:])}", f"02:{name}:eth1") for name in others)


def test_addresses_of_the_inventory_take_the_place_of_the_plan() -> None:
    topology = build("star(hosts=2)", rate_bps=200 * MBIT)
    found = planned(topology, inventory(2, addresses=True), [(0, 1), (1, 0)])
    assert found.physical == {"10.0.0.1": "172.16.1.1", "10.0.0.2": "172.16.1.2"}
    assert all(nic.address is None and nic.peers == () for wanted in found.wanted for nic in wanted.nics)


def test_a_bcube_uses_as_many_nics_as_it_has_levels_each_with_its_own_peers() -> None:
    topology = build("bcube(n=3,k=2)", rate_bps=200 * MBIT)
    flows = pairs(forest("bml", topology, [30]))
    found = planned(topology, inventory(9, nics=2), [*flows, *((b, a) for a, b in flows)])
    addresses = addressing.plan(topology)
    for node, wanted in enumerate(found.wanted):
        assert [nic.name for nic in wanted.nics] == ["eth1", "eth2"]
        for port, nic in enumerate(wanted.nics):
            switch = topology.head(topology.ports[node][port])
            near = {topology.head(link) for link in topology.ports[switch]} - {node}
            assert {mac.split(":")[1] for _, mac in nic.peers} == {f"node{other + 1}" for other in near}
            assert nic.address == addresses.of(node, port)


def test_a_directed_link_is_out_of_or_into_a_nic() -> None:
    topology = build("bcube(n=3,k=2)", rate_bps=200 * MBIT)
    found = planned(topology, inventory(9, nics=2), [])
    places = [found.place(link) for link in range(2 * len(topology.links))]
    assert sorted(places) == sorted((node, nic, out) for node in range(9) for nic in range(2) for out in (True, False))
    for link, (node, nic, out) in enumerate(places):
        assert topology.ports[node][nic] == (link if out else link ^ 1)


def test_what_is_wanted_survives_json() -> None:
    topology = build("star(hosts=3)", rate_bps=200 * MBIT)
    for wanted in planned(topology, inventory(3), list(permutations(range(3), 2))).wanted:
        assert Wanted.read(wanted.plain()) == wanted


@pytest.mark.parametrize(
    ("expression", "hosts", "nics", "said"),
    [
        ("star(hosts=4)", 3, 1, "has 4 hosts"),
        ("bcube(n=3,k=2)", 9, 1, "needs 2 NICs a host"),
        ("fat_tree(k=2)", 1, 1, "has 2 hosts, and inventory.yml 1"),
        ("star(hosts=3,ina=[s0])", 3, 1, "is to add gradients"),
        ("star(hosts=3,server_nics=2,routing=every_nic)", 3, 2, "answers over each of its NICs"),
    ],
)
def test_a_topology_that_machines_cannot_stand_for_is_refused(
    expression: str, hosts: int, nics: int, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        network.check(build(expression, rate_bps=200 * MBIT), LinkSettings(), inventory(hosts, nics))


@pytest.mark.parametrize("settings", [LinkSettings(jitter_s=0.001), LinkSettings(loss=0.1)])
def test_links_that_do_something_to_packets_are_refused(settings: LinkSettings) -> None:
    with pytest.raises(SpecError, match="the network that is there"):
        network.check(build("star(hosts=2)", rate_bps=200 * MBIT), settings, inventory(2))


def test_a_flow_that_a_third_host_would_have_to_forward_is_refused() -> None:
    topology = build("bcube(n=3,k=2)", rate_bps=200 * MBIT)
    with pytest.raises(SpecError, match="would have to forward"):
        planned(topology, inventory(9, nics=2), list(permutations(range(9), 2)))


def test_addresses_for_some_nics_only_are_refused() -> None:
    mixed = Inventory(Path("i.yml"), (inventory(1, addresses=True).hosts[0], inventory(2).hosts[1]))
    with pytest.raises(SpecError, match=r"node1's eth1 has an address, and node2's eth1 has none"):
        network.check(build("star(hosts=2)", rate_bps=200 * MBIT), LinkSettings(), mixed)


def test_words_are_replaced_wherever_they_are() -> None:
    assert network.translated({"a": ["x", {"b": "x"}], "n": 1}, {"x": "y"}) == {"a": ["y", {"b": "y"}], "n": 1}


def test_machines_may_have_links_of_different_rates() -> None:
    topology = with_own(build("star(hosts=2)", rate_bps=200 * MBIT), Links(rate="200 Mbit/s", h1={"rate": "50 Mbit/s"}))
    network.check(topology, LinkSettings(), inventory(2))
    found = planned(topology, inventory(2), [(0, 1), (1, 0)])
    assert [(nic.out_bps, nic.in_bps) for wanted in found.wanted for nic in wanted.nics] == [
        (200 * MBIT, 200 * MBIT),
        (50 * MBIT, 50 * MBIT),
    ]


def test_one_link_with_a_delay_and_marking_are_refused() -> None:
    plain = build("star(hosts=2)", rate_bps=200 * MBIT)
    with pytest.raises(SpecError, match="links with a delay of 5 ms"):
        network.check(with_own(plain, Links(rate="1 Mbit/s", h1={"delay": "5 ms"})), LinkSettings(), inventory(2))
    cloud = build("cloud(racks=1,hosts_per_rack=2)", rate_bps=200 * MBIT)
    with pytest.raises(SpecError, match=r"links with a delay of 0\.5 ms") as refused:
        network.check(cloud, LinkSettings(), inventory(2))
    assert refused.value.fix == (
        "set it to 0 for this lab, also that of a cloud (rack_delay_s=0, row_delay_s=0), or take the lab netns"
    )
    with pytest.raises(SpecError, match=r"links\.ecn: the lab baremetal does not mark packets"):
        network.check(plain, LinkSettings(mark_at_bytes=100_000), inventory(2))
    with pytest.raises(SpecError, match=r"links\.small_queues: the lab baremetal leaves TCP's queues"):
        network.check(plain, LinkSettings(small_queue_bytes=8192), inventory(2))
    with pytest.raises(SpecError, match=r"links\.full_packets: the lab baremetal leaves TCP's queues"):
        network.check(plain, LinkSettings(full_packet_bytes=8192), inventory(2))
