"""Links between machines, which are namespaces here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count, permutations
from pathlib import Path

import pytest

from testbed.base.errors import LabError, SpecError
from testbed.lab.base import Impairment, LinkChange, LinkSettings
from testbed.lab.machines.cut import Cut, Underlay, cut, impairing, share
from testbed.lab.machines.on_machine.processes import ShareLab
from testbed.lab.netns.kernel_interface.netlink import RouteSocket
from testbed.lab.netns.kernel_interface.rtnetlink import (
    Interface,
    LinkEnd,
    Tunnel,
    create_tunnel,
    list_links,
    read_link,
)
from testbed.lab.netns.network.blueprint import Blueprint, blueprint, crossing, detours
from testbed.lab.netns.network.build import MACHINE
from testbed.lab.netns.readings import second_reading
from testbed.topologies import addressing
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import goodput
from tests.patience import until

from .underlays import inside, labs, two_machines

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="tunnels need root")]
RATE_BPS = 100_000_000
PATIENCE_S = 30.0


def network(delay_s: float = 0.0) -> tuple[Topology, Cut]:
    """A star with h0 and the switch on one machine, and h1 and h2 on the other."""
    topology = build("star(hosts=3)", rate_bps=RATE_BPS, delay_s=delay_s)
    return topology, cut(topology, ["node1", "node2"], {"h0": "node1", "s0": "node1", "h1..h2": "node2"})


NUMBERS = count(100, 100)
"""Numbers of first tunnels: those of a network that was taken down are taken for a while."""


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[Underlay, list[ShareLab]]]:
    with two_machines() as (underlay, namespaces), labs(namespaces) as both:
        yield underlay, both


def bring_up(both: list[ShareLab], underlay: Underlay, delay_s: float = 0.0) -> Topology:
    """Bring the network up with these numbers of tunnels: on the first machine, and on the second, if it is named."""
    topology, found = network(delay_s)
    for machine, lab in enumerate(both):
        whole = lab._blueprint(topology, LinkSettings(), permutations(topology.hosts, 2))
        lab.up_share(topology, LinkSettings(), share(whole, found, underlay, machine))
    return topology


def renumbered(underlay: Underlay) -> Underlay:
    return replace(underlay, first_number=next(NUMBERS))


@pytest.fixture
def underlay(machines: tuple[Underlay, list[ShareLab]]) -> Underlay:
    return renumbered(machines[0])


@pytest.fixture
def two(machines: tuple[Underlay, list[ShareLab]]) -> Iterator[list[ShareLab]]:
    yield machines[1]
    for lab in machines[1]:
        lab.down()


def read_again(lab: ShareLab, plan: Blueprint) -> None:
    """Have pyroute2 read what the kernel has."""
    chosen = second_reading.sample(plan)
    second_reading.check(plan, lab._changes, chosen, lab.said(chosen))


def ping_s(lab: ShareLab, topology: Topology, src: int, dst: int, *options: str) -> float:
    """The shortest of some round trips (s) of packets as large as a link takes, which may not be cut."""
    _, remote = addressing.plan(topology).flow(src, dst)
    words = ["ping", "-U", "-c", "3", "-i", "0.01", "-W", "2", "-M", "do", "-s", "1472", *options, remote]
    done = lab.execute(src, words, PATIENCE_S)
    assert done.status == 0, done.stdout + done.stderr
    return float(done.stdout.rpartition("= ")[2].partition("/")[0]) / 1e3


def test_packets_cross_and_both_decoders_read_what_was_asked_for(two: list[ShareLab], underlay: Underlay) -> None:
    topology = bring_up(two, underlay)
    for lab in two:
        lab.verify()
        read_again(lab, lab._net.plan)
        assert lab.spot_check().differs == ()
    assert [lab.describe()["directed_links"] for lab in two] == [4, 2]
    assert [[one.directed_link for one in lab.counters()] for lab in two] == [[0, 1, 3, 5], [2, 4]]
    for lab, src, dst in ((two[0], 0, 1), (two[1], 1, 2), (two[1], 2, 0)):
        assert ping_s(lab, topology, src, dst) < 1
    assert not any(one.drops for lab in two for one in lab.counters())


def test_a_link_carries_its_rate_and_counts_it_and_can_be_changed(two: list[ShareLab], underlay: Underlay) -> None:
    topology = bring_up(two, underlay)
    _, address = addressing.plan(topology).flow(0, 1)
    here = Path(__file__).parents[1]

    def arrives_bps() -> float:
        with ThreadPoolExecutor() as pool:
            receive = [sys.executable, str(here / "receive.py"), address]
            came = pool.submit(two[1].execute, 1, receive, PATIENCE_S)
            sent = two[0].execute(0, [sys.executable, str(here / "send.py"), address, "1.0"], PATIENCE_S)
            assert sent.status == 0, sent.stderr
            return float(json.loads(came.result().stdout))

    assert 0.9 < arrives_bps() / (RATE_BPS * goodput(1500)) < 1.03
    passed = {one.directed_link: one.bytes for lab in two for one in lab.counters()}
    assert passed[0] == passed[3] > 0.9 * RATE_BPS / 8  # into the switch, and on to the other machine
    two[0].adjust([LinkChange(3, rate_bps=20_000_000)])
    two[0].verify()
    assert 0.9 < arrives_bps() / (20_000_000 * goodput(1500)) < 1.06


def test_delays_hold_between_machines(two: list[ShareLab], underlay: Underlay) -> None:
    """By netem at the tail of a link, or by the delay line at its head: whatever the kernel has."""
    assert 0.02 < ping_s(two[0], bring_up(two, underlay, delay_s=0.005), 0, 1) < 0.03


def test_the_machines_keep_their_own_interfaces(two: list[ShareLab], underlay: Underlay) -> None:
    """Nodes have one of the same name."""
    for lab in two:
        with lab.inside(MACHINE), RouteSocket() as netlink:

            def interfaces() -> list[Interface]:
                return [read_link(body) for body in netlink.dump(list_links())]  # without counters, which may grow

            def nic_is_up() -> bool:
                """The kernel says so up to a second after both ends of a new link were brought up."""
                return any(nic.name == "eth0" and nic.is_up for nic in interfaces())

            until(nic_is_up)
            before = interfaces()
            bring_up([lab], renumbered(underlay))
            assert interfaces() == before


def test_a_number_that_is_taken_is_refused_and_free_again_after_the_lab(
    two: list[ShareLab], underlay: Underlay
) -> None:
    bring_up(two, underlay)
    with two_machines() as (_, namespaces), labs(namespaces) as others:
        bring_up(others, underlay)
    with labs([two[0]._machine]) as same:
        with pytest.raises(LabError, match=r"make the tunnel of s0:eth1 -> h1:eth0: .* already exists"):
            bring_up(same, underlay)
        two[0].down()

        def comes_up() -> bool:
            with suppress(LabError):
                bring_up(same, underlay)
                return True
            return False

        until(comes_up)


def test_another_decoder_finds_a_tunnel_that_leads_elsewhere(two: list[ShareLab], underlay: Underlay) -> None:
    bring_up(two, underlay)
    asked = two[0]._net.plan
    for change, said in (
        ({"number": 9}, r"tunnel's ID: asked for 9, the kernel has \d+"),
        ({"remote": "192.168.76.9"}, "tunnel's GROUP: asked for 192.168.76.9, the kernel has 192.168.76.2"),
        ({"port": 4789}, "tunnel's PORT: asked for 4789, the kernel has 14789"),
        ({"learns": True}, "tunnel's LEARNING: asked for 1, the kernel has 0"),
        ({"fragments": True}, "tunnel's DF: asked for 0, the kernel has 1"),
    ):
        with pytest.raises(LabError, match=said):
            read_again(two[0], replace(asked, tunnels={**asked.tunnels, 3: replace(asked.tunnels[3], **change)}))


@pytest.mark.parametrize(
    "tunnel",
    [
        Tunnel(1, "192.168.76.1", "192.168.76.2"),
        Tunnel(2**24 - 1, "192.168.76.1", "10.0.0.254", 4789, learns=True, fragments=True),
    ],
)
def test_a_tunnel_is_read_as_it_was_made(tunnel: Tunnel) -> None:
    with two_machines() as (_, namespaces), inside(namespaces[0]) as netlink:
        end = LinkEnd(namespaces[1], 5000, "eth9", b"\x02\x00\x00\x00\x00\x09")
        netlink.send([create_tunnel(end, tunnel, 1450, "a link")])
        with inside(namespaces[1]) as far:
            found = {one.index: one for one in map(read_link, far.dump(list_links()))}
    assert (found[5000].name, found[5000].mtu, found[5000].tunnel) == ("eth9", 1450, tunnel)
    assert found[7].tunnel is None


def test_packets_are_not_cut_where_the_underlay_is_too_narrow_which_is_refused() -> None:
    with two_machines(mtu=1500) as (underlay, namespaces), labs(namespaces) as both:
        with pytest.raises(SpecError) as caught:
            underlay.check(1500)
        assert caught.value.problem == "node1: its NIC has an MTU of 1500; links of MTU 1500 between machines need 1550"
        underlay.check(1450)
        topology = bring_up(both, underlay)
        assert ping_s(both[0], topology, 0, 1, "-s", "1422") < 1
        with pytest.raises(AssertionError, match="100% packet loss"):
            ping_s(both[0], topology, 0, 1)


def test_what_packets_need_between_machines_is_taken_from_a_delay() -> None:
    underlay = Underlay(("a", "b"), ("10.0.0.1", "10.0.0.2"), (9000, 9000), round_trips_s={(0, 1): 0.002})
    assert underlay.left(Impairment(delay_s=0.005, loss=0.1), (1, 0), "h0 - s0") == Impairment(delay_s=0.004, loss=0.1)
    assert underlay.left(Impairment(loss=0.1), (1, 0), "h0 - s0") == Impairment(loss=0.1)
    with pytest.raises(SpecError, match=r"link h0 - s0: a delay of 0.5 ms; from a to b packets take 1 ms"):
        underlay.left(Impairment(delay_s=0.0005), (0, 1), "h0 - s0")


@pytest.mark.parametrize("by_netem", [False, True])
def test_links_are_impaired_in_mid_run_where_that_works_and_bridges_get_their_routes_first(by_netem: bool) -> None:
    """h0 and the switch are on one machine, h1 and h2 on the other. Link 2 leads from h1 to the switch, and 3 back."""
    topology, found = network()
    underlay = Underlay(("node1", "node2"), ("10.0.0.1", "10.0.0.2"), (1550,) * 2, 1, {(0, 1): 0.002})
    plan = blueprint(topology, LinkSettings(), permutations(topology.hosts, 2), by_netem=by_netem)
    asked = dict.fromkeys((0, 2, 3), Impairment(0.01))
    routes = {} if by_netem else detours(topology, asked, partial(crossing, topology, permutations(topology.hosts, 2)))
    first, then = impairing(plan, found, underlay, asked, routes)
    near, far = Impairment(0.01), Impairment(0.01 - 0.001)
    if by_netem:  # at tails
        assert (first, then) == ({0: ({0: near, 3: far}, {}), 1: ({2: far}, {})}, {})
    else:
        assert first == {0: ({0: near, 2: far}, routes), 1: ({3: far}, {})}
        assert (routes.keys(), then) == ({0, 2}, {1: ({}, {2: routes[2]})})
    with pytest.raises(SpecError, match=r"a delay of 0\.5 ms; from node1 to node2 packets take 1 ms"):
        impairing(plan, found, underlay, {3: Impairment(0.0005)}, {})
