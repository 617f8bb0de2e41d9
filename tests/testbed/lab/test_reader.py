"""What our encoder asked of the kernel, as somebody else's decoder reads it: pyroute2, inside each namespace, of all of
them in one process, for its import takes longer than reading a node.

Expected values are taken from the topology, its addresses and its routes, not from what the lab planned.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.topologies import addressing
from testbed.topologies.build import build
from testbed.topologies.model import Topology

pytestmark = pytest.mark.lab

READ = [sys.executable, str(Path(__file__).with_name("read_network.py"))]
QUEUE_BYTES = 1_000_000
TICK_S = 64e-9  # the packet scheduler's


@pytest.fixture(scope="module")
def lab() -> Iterator[NetnsLab]:
    with NetnsLab() as lab:
        yield lab


class Network:
    """A network that is up, and what is read at its nodes."""

    def __init__(self, lab: NetnsLab, expression: str, rate_bps: int, mtu: int) -> None:
        self.topology = build(expression, rate_bps=rate_bps)
        self.mtu = mtu
        pairs = list(permutations(self.topology.hosts, 2))
        lab.up(self.topology, LinkSettings(mtu=mtu, queue_bytes=QUEUE_BYTES), pairs)
        self.addresses = addressing.plan(self.topology)
        self.routes = addressing.routes(self.topology, pairs)
        self.found = self._read(lab)
        self.index = {
            (node, port): found["interfaces"][f"eth{port}"]["index"]
            for node, found in enumerate(self.found)
            for port in range(len(self.topology.ports[node]))
        }

    def _read(self, lab: NetnsLab) -> list[dict[str, Any]]:
        """What is in the namespace of each node, by node."""
        names = [
            lab.execute(node, ["readlink", "/proc/self/ns/net"], 30).stdout.strip()
            for node in range(len(self.topology.nodes))
        ]
        launcher = Path(f"/proc/{lab.launcher_pid}/task/{lab.launcher_pid}")
        (sandbox,) = (launcher / "children").read_text().split()  # it holds all of them
        done = subprocess.run([*READ, sandbox, *names], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        assert len(set(names)) == len(found) == len(self.topology.nodes)
        return found

    def ends(self) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
        """For each directed link: its number, the interface it leaves from, and the one it leads to."""
        topology = self.topology
        for directed in range(2 * len(topology.links)):
            places = [(topology.tail(one), topology.port_at_tail(one)) for one in (directed, directed ^ 1)]
            here, there = (self.found[node]["interfaces"][f"eth{port}"] for node, port in places)
            yield directed, here, there


@pytest.fixture(
    scope="module",
    params=[
        ("star(hosts=3)", 10_000, 1500),
        ("bcube(n=2,k=2)", 200_000_000, 9000),
        ("fat_tree(k=4,routing=ecmp)", 10**9, 1500),
        ("spine_leaf(racks=2,hosts_per_rack=2,spines=2,oversubscription=3)", 34_000_000_000, 576),
    ],
    ids=lambda param: param[0],
)
def network(request: pytest.FixtureRequest, lab: NetnsLab) -> Network:
    return Network(lab, *request.param)


def test_interfaces_are_the_topologys_ports(network: Network) -> None:
    topology: Topology = network.topology
    for node, found in enumerate(network.found):
        assert set(found["interfaces"]) == {f"eth{port}" for port in range(len(topology.ports[node]))}
    for directed, here, there in network.ends():
        assert (here["peer"], there["peer"]) == (there["index"], here["index"]), directed
        assert (here["mtu"], here["state"]) == (network.mtu, "UP"), directed


def test_each_direction_has_its_rate_burst_and_queue(network: Network) -> None:
    for directed, here, _ in network.ends():
        rate_bps = network.topology.links[directed // 2].rate_bps
        assert (here["root"], here["class"], here["default"], here["leaf"]) == ("htb", 0x10001, 1, "bfifo"), directed
        assert here["rate"] == here["ceil"] == rate_bps // 8, directed
        two_packets_s = 2 * (network.mtu + 14) / (rate_bps // 8)
        assert here["buffer"] * TICK_S == pytest.approx(max(0.001, two_packets_s), rel=1e-4), directed
        assert here["limit"] == QUEUE_BYTES, directed


def test_addresses_are_the_plans(network: Network) -> None:
    planned = network.addresses.host | network.addresses.port
    for node, found in enumerate(network.found):
        wanted = {
            (network.index[place], address, length) for place, (address, length) in planned.items() if place[0] == node
        }
        assert {tuple(one) for one in found["addresses"] if one[1] != "127.0.0.1"} == wanted


def test_routes_are_the_topologys(network: Network) -> None:
    wanted: list[dict[str, set[tuple[int, str | None]]]] = [{} for _ in network.found]
    for route in network.routes:
        hops = {(network.index[route.node, port], via) for port, via in route.hops}
        wanted[route.node][route.destination_address] = hops
    for node, found in enumerate(network.found):
        assert {to: {tuple(hop) for hop in hops} for to, hops in found["routes"].items()} == wanted[node]


def test_everybody_knows_the_mac_of_each_address_that_can_be_met(network: Network) -> None:
    planned = network.addresses.host | network.addresses.port
    mac = {
        address: network.found[node]["interfaces"][f"eth{port}"]["mac"]
        for (node, port), (address, _) in planned.items()
    }
    met: list[set[str]] = [
        {via for hops in found["routes"].values() for _, via in hops if via} for found in network.found
    ]
    for src, dst in permutations(network.topology.hosts, 2):
        address = network.addresses.arrival(src, dst)
        met[src] |= {address} - network.found[src]["routes"].keys()  # no route: on the same subnet
    for node, found in enumerate(network.found):
        known = {address: mac_address for _, address, mac_address in found["neighbours"] if address in mac}
        assert known == {address: mac[address] for address in known}
        assert met[node] <= known.keys()
