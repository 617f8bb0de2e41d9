"""Circuits that move in a lab that is up: what carries light, what is dark and for how long, what is not disturbed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, permutations

import pytest

from testbed.base.errors import LabError, TopologyError
from testbed.lab.base import LinkSettings, Patched
from testbed.lab.measurements import Counters
from testbed.lab.netns import NetnsLab
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from testbed.topologies.circuits import matchings
from testbed.topologies.model import Topology
from testbed.topologies.patch_panel import repatched

from .conftest import Idle

pytestmark = pytest.mark.lab

RING, OTHER = (1,), ((0, 2, 4, 1, 3, 5),)


@pytest.fixture
def lab(idle: Idle) -> Iterator[NetnsLab]:
    with idle.taken("netns", NetnsLab) as lab:
        yield lab


def up(lab: NetnsLab, arguments: str = "servers=6,degree=2") -> Topology:
    topology = build(f"patch_panel({arguments})", rate_bps=10**8)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    return topology


def moved(topology: Topology, rings: tuple[object, ...] = (), circuits: tuple[object, ...] = ()) -> Topology:
    assert topology.panels
    panels = topology.panels
    return repatched(topology, panels.patch(matchings(panels.servers, panels.degree, rings, circuits)))


def hops(lab: NetnsLab, src: int, address: str, count: int = 1) -> int | None:
    """Circuits on the way, which is told by the TTL of the answer; None if there is none."""
    done = lab.execute(src, ["ping", "-n", "-c", str(count), "-i", "0.01", "-W", "1", address], 20)
    found = [int(word.removeprefix("ttl=")) for word in done.stdout.split() if word.startswith("ttl=")]
    return 65 - found[-1] if found else None


def test_every_server_reaches_every_other_at_all_its_addresses_over_the_circuits_of_its_path(lab: NetnsLab) -> None:
    topology = up(lab, "servers=5,degree=4,rings=[1],circuits=[[0-2]]")
    addresses = plan(topology)
    for dst in (1, 2, 3):
        for port in range(4):
            assert hops(lab, 0, addresses.of(dst, port)) == len(topology.paths(0, dst)[0].links) // 2
    assert (lab.describe()["circuits"], lab.describe()["nodes"]) == (6, {"host": 5, "panel": 4})


def test_after_a_move_addresses_are_the_same_and_ways_are_new(lab: NetnsLab) -> None:
    topology = up(lab)
    addresses = plan(topology)
    for rings in (OTHER, RING, OTHER):
        topology = moved(topology, rings)
        done = lab.patch(topology, 0.01)
        assert (done.parted, done.joined) == (5, 5)  # 0-5 of the second panel stays
        assert 0.01 <= done.lit_s - done.dark_s < 5
        for dst in range(1, 6):
            assert hops(lab, 0, addresses.of(dst, 0)) == len(topology.paths(0, dst)[0].links) // 2
        lab.verify()


def test_what_stays_is_not_disturbed_and_what_moves_is_dark_meanwhile(lab: NetnsLab) -> None:
    """On a busy machine pings may begin too late to see it: then there are others, three times at most."""
    # The first panel keeps its circuits, and 0-1 is one of them; those of the second move.
    for _ in range(3):
        topology = up(lab, "servers=6,degree=2,rings=[1]")
        target = moved(topology, circuits=(("0-1", "2-3", "4-5"), ("0-3", "1-4", "2-5")))
        addresses = plan(topology)
        staying, going, coming = (addresses.of(dst, port) for dst, port in ((1, 0), (5, 1), (3, 1)))
        done, began_s, heard_s = pinged(lab, (staying, going, coming), target)
        if max(times[0] for times in heard_s.values()) < began_s:
            break
    assert (done.parted, done.joined) == (3, 3)
    assert len(heard_s[staying]) == 100
    still_s = max(later - earlier for earlier, later in pairwise(heard_s[staying]))  # for a moment, as a machine may
    for address in (going, coming):  # h3 was three circuits away, by way of those that moved, and is one away
        silences_s = sorted(later - earlier for earlier, later in pairwise(heard_s[address]))
        assert 0.39 < silences_s[-1] < 1.0 + still_s, "dark for 0.4 s"
        assert silences_s[-2] < 0.35 + still_s, "once"
    assert hops(lab, 0, coming) == 1


def pinged(lab: NetnsLab, addresses: Sequence[str], target: Topology) -> tuple[Patched, float, dict[str, list[float]]]:
    """Ping addresses from h0 while circuits move: how they moved, when that began, and by address when answers came
    (s, ``time.time``)."""
    heard_s: dict[str, list[float]] = {}

    def ping(address: str) -> None:
        told = lab.execute(0, ["ping", "-D", "-n", "-c", "100", "-i", "0.01", "-W", "1", address], 20).stdout
        heard_s[address] = [float(line[1:].split("]")[0]) for line in told.splitlines() if line.startswith("[")]

    threads = [threading.Thread(target=ping, args=(address,)) for address in addresses]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    began_s = time.time()
    done = lab.patch(target, 0.4)
    for thread in threads:
        thread.join()
    return done, began_s, heard_s


def sent(before: list[Counters], after: list[Counters]) -> set[int]:
    return {now.directed_link for then, now in zip(before, after, strict=True) if now.packets > then.packets}


def test_a_dark_port_loses_what_is_sent_into_it_and_no_other_port_hears_it(lab: NetnsLab) -> None:
    topology = up(lab, "servers=4,degree=2,rings=[1]")
    before = lab.counters()
    mover = threading.Thread(target=lab.patch, args=(moved(topology, ((0, 2, 1, 3),)), 3.0))
    mover.start()
    time.sleep(0.7)
    assert hops(lab, 0, plan(topology).of(1, 0)) is None
    assert sent(before, lab.counters()) == {topology.ports[0][0]}
    mover.join()
    assert hops(lab, 0, plan(topology).of(1, 0)) == 2


def test_look_ahead_and_flip(lab: NetnsLab) -> None:
    topology = up(lab, "servers=6,degree=2,look_ahead=true")
    assert topology.panels
    ahead = repatched(topology, topology.panels.patch(matchings(6, 2, OTHER), look_ahead=True))
    assert ahead.panels
    before = lab.patch(ahead, 0.0)
    assert (before.parted, before.joined) == (0, 0)
    assert hops(lab, 0, plan(topology).of(1, 0)) == 1
    flipped = lab.patch(repatched(ahead, ahead.panels.flip()), 0.0)
    assert (flipped.parted, flipped.joined) == (5, 5)  # 0-5 of the second panel stays
    assert hops(lab, 0, plan(topology).of(2, 0)) == 1


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("tc filter del dev eth0 ingress", "p0:eth0: circuit to: asked for eth1, the kernel has none"),
        (
            "tc filter replace dev eth0 ingress protocol all prio 1 handle 800::800 u32 match u32 0 0 at -12 "
            "action mirred egress redirect dev eth3",
            "p0:eth0: circuit to: asked for eth1, the kernel has eth3",
        ),
        (
            "tc filter add dev eth2 ingress protocol all prio 2 u32 match u32 1 1 at -12 "
            "action mirred egress redirect dev eth1",
            "p0:eth2: circuit: asked for one that takes everything, or none, the kernel has 2 filters",
        ),
        ("tc qdisc del dev eth1 ingress", "p0:eth1: circuit"),
    ],
)
def test_a_wrong_table_is_seen(lab: NetnsLab, command: str, problem: str) -> None:
    topology = up(lab)
    lab.verify()
    changed = lab.execute(topology.index["p0"], ["sh", "-c", command], 10)
    assert changed.status == 0, changed.stderr
    with pytest.raises(LabError) as caught:
        lab.verify()
    assert caught.value.problem.startswith(problem)


def test_a_move_that_cannot_be_changes_nothing(lab: NetnsLab) -> None:
    with pytest.raises(LabError, match="no network is up"):
        lab.patch(build("patch_panel(servers=4,degree=2)", rate_bps=10**8), 0.0)
    topology = up(lab)
    with pytest.raises(TopologyError, match="no circuits lead from"):
        lab.patch(moved(topology, circuits=(("0-1", "2-3", "4-5"),)), 0.0)
    other = build("patch_panel(servers=6,degree=3)", rate_bps=10**8)
    with pytest.raises(LabError, match="is not what is up"):
        lab.patch(other, 0.0)
    with pytest.raises(LabError, match="is not what is up"):
        lab.patch(replace(topology, links=topology.links[:-1]), 0.0)
    lab.verify()
    assert hops(lab, 0, plan(topology).of(3, 0)) == 3


def test_a_network_goes_down_while_circuits_are_dark(lab: NetnsLab) -> None:
    topology = up(lab)
    caught: list[LabError] = []

    def move() -> None:
        try:
            lab.patch(moved(topology, OTHER), 60.0)
        except LabError as error:
            caught.append(error)

    mover = threading.Thread(target=move)
    mover.start()
    time.sleep(1.0)
    begun_s = time.monotonic()
    lab.down()
    mover.join()
    assert time.monotonic() - begun_s < 10
    assert caught[0].problem == "the network was taken down while circuits were dark"
    topology = up(lab)
    assert lab.patch(moved(topology, OTHER), 0.0).joined == 5
