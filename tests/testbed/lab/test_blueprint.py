"""From a topology to plain data; no kernel needed."""

from __future__ import annotations

import pickle
from itertools import permutations

import pytest

from testbed.base.errors import SpecError
from testbed.lab.base import LinkSettings
from testbed.lab.netns.network.blueprint import Blueprint, blueprint
from testbed.topologies.build import build


def plan(
    expression: str, settings: LinkSettings | None = None, rate_bps: int = 10**8, delay_s: float = 0.0
) -> Blueprint:
    topology = build(expression, rate_bps=rate_bps, delay_s=delay_s)
    return blueprint(topology, settings or LinkSettings(), permutations(topology.hosts, 2))


def test_ends_and_ports_agree() -> None:
    made = plan("bcube(n=3,k=2)")
    assert len(made.ends) == 36
    for directed in range(len(made.ends)):
        assert made.port(directed).directed_link == directed
    assert made.label(0) == "h0:eth0 -> s0.0:eth0"


@pytest.mark.parametrize(
    ("expression", "settings", "rate_bps", "size"),
    [
        ("star(hosts=4)", LinkSettings(), 10**8, 65_536),
        ("star(hosts=4)", LinkSettings(), 262_144_000, 65_536),
        ("star(hosts=4)", LinkSettings(), 10**9, 65_536),
        ("star(hosts=4)", LinkSettings(), 15 * 10**8, 98_304),  # one and a half times as many for 6 Gbit/s in all
        ("star(hosts=16)", LinkSettings(), 6 * 10**8, 150_000),  # 2 ms
        ("star(hosts=4)", LinkSettings(), 10**10, 196_608),
        # Between racks, links have a quarter of it.
        ("spine_leaf(racks=2,hosts_per_rack=4,spines=1,oversubscription=16)", LinkSettings(), 24 * 10**8, 150_000),
        ("star(hosts=4)", LinkSettings(), 27 * 10**6, 65_536),
        ("star(hosts=4)", LinkSettings(), 10**7, 25_000),
        ("star(hosts=4)", LinkSettings(), 2 * 10**6, 16_384),
        ("star(hosts=400)", LinkSettings(), 5 * 10**6, 32_768),  # half of what a machine carries with 64 KiB
        ("star(hosts=4)", LinkSettings(full_packet_bytes=32_768), 2 * 10**6, 32_768),
        ("star(hosts=4)", LinkSettings(disturbed=True), 2 * 10**6, 65_536),
        ("star(hosts=4)", LinkSettings(shaped=False), 10**10, 65_536),
        ("star(hosts=4)", LinkSettings(queue_bytes=10**6), 10**10, 65_536),
        ("star(hosts=4)", LinkSettings(loss=0.01), 10**10, 65_536),
        ("star(hosts=4)", LinkSettings(mark_at_bytes=10**5), 10**10, 65_536),
        ("star(hosts=4)", LinkSettings(disturbed=True), 10**10, 65_536),
        ("star(hosts=4)", LinkSettings(small_queue_bytes=8192), 10**10, 8192),
    ],
)
def test_large_packets_grow_with_all_links_up_to_two_milliseconds_of_the_slowest(
    expression: str, settings: LinkSettings, rate_bps: int, size: int
) -> None:
    assert plan(expression, settings, rate_bps).packet_bytes == size


@pytest.mark.parametrize(
    ("settings", "rate_bps", "segments"),
    [
        (LinkSettings(), 10**9, 128),
        (LinkSettings(), 24 * 10**6, 60),
        (LinkSettings(), 4 * 10**6, 0),
        (LinkSettings(shaped=False), 10**9, 0),
        (LinkSettings(queue_bytes=10**6), 10**9, 0),
        (LinkSettings(loss=0.01), 10**9, 0),
        (LinkSettings(disturbed=True), 10**9, 0),
    ],
)
def test_connections_begin_with_what_the_slowest_link_carries_in_30_ms_where_nothing_is_lost(
    settings: LinkSettings, rate_bps: int, segments: int
) -> None:
    assert plan("star(hosts=4)", settings, rate_bps).first_segments == segments


def test_interfaces_are_unique_and_fit_the_kernel() -> None:
    made = plan("fat_tree(k=4)")
    ports = [port for node in made.nodes for port in node.ports]
    assert len({port.index for port in ports}) == len({port.mac for port in ports}) == len(ports)
    assert all(len(port.name) <= 15 and not port.mac[0] & 1 for port in ports)


def test_everybody_behind_a_bridge_is_a_neighbour() -> None:
    made = plan("star(hosts=4)")
    host, switch = made.nodes[0], made.nodes[4]
    assert {n.address for n in made.neighbours(host)} == {made.nodes[i].ports[0].address for i in (1, 2, 3)}
    assert not list(made.neighbours(switch))
    assert [mac for mac, _ in made.switch_table(switch)] == [made.nodes[i].ports[0].mac for i in range(4)]
    assert made.switch_table(host) == []


def test_hosts_forward_only_where_a_route_passes_them() -> None:
    topology = build("bcube(n=3,k=2)", rate_bps=10**8)
    on_link = blueprint(topology, LinkSettings(), [(0, 1), (0, 3)])
    assert not any(node.forwards for node in on_link.nodes)
    two_hops = blueprint(topology, LinkSettings(), [(0, 4)])
    assert [node.name for node in two_hops.nodes if node.forwards] in (["h1"], ["h3"], ["h1", "h3"])


def test_hosts_file_names_every_node_and_interface() -> None:
    lines = plan("bcube(n=3,k=2)").hosts_file.splitlines()
    assert lines[0] == "127.0.0.1 localhost"
    names = {name for line in lines for name in line.split()[1:]}
    assert {"h0", "h8", "h0-eth0", "h8-eth1"} <= names


def test_sandbox_needs_no_router() -> None:
    made = plan("spine_leaf(racks=2,hosts_per_rack=2,spines=2)")
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_rate_that_cannot_be_emulated_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        plan("star(hosts=2)", rate_bps=40 * 10**9)
    assert str(caught.value) == (
        "link h0 - s0: 40 Gbit/s cannot be emulated; the kernel's HTB does 10 kbit/s to 34 Gbit/s\n"
        "  fix: scale rates and bytes alike: times stay the same"
    )


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (LinkSettings(mtu=70_000), "mtu is 70,000; a link can have 68 to 65,535"),
        (LinkSettings(mtu=10), "mtu is 10; a link can have 68 to 65,535"),
        (LinkSettings(queue_bytes=100), "queue_bytes is 100; a link can have 1,500 to 4,294,967,295"),
    ],
)
def test_impossible_settings_are_refused(settings: LinkSettings, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        plan("star(hosts=2)", settings)
    assert caught.value.problem == problem


def test_a_delay_on_an_unshaped_link_is_refused() -> None:
    with pytest.raises(SpecError, match="link h0 - s0: delay 2 ms on a link that is not shaped"):
        plan("star(hosts=2)", LinkSettings(shaped=False), delay_s=0.002)
