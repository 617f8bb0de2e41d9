"""Delays, jitter, loss and reordering on the real kernel, by netem or by the delay line, whichever is here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from statistics import quantiles
from typing import Any

import pytest

from testbed.base.errors import LabError, MissingToolError, SpecError
from testbed.lab.base import Impairment, LinkSettings
from testbed.lab.measurements import Counters, Way
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.kernel_interface import capabilities
from testbed.lab.netns.network import delay_line, impairing
from testbed.lab.netns.network.impairing import DELAY_LINE
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from tests.patience import until

from .conftest import Idle

pytestmark = pytest.mark.lab

RATE_BPS = 100_000_000
EARLY_S, LATE_S = 0.0001, 0.0045
"""How far off a round trip may be. Where other tests keep every core busy, the delay line waits for one's slice of the
scheduler, so that all trips of a round are late alike; links that are told apart by less would not be told apart. A
machine whose host takes the cores away for a while makes every trip of a round later than that, so it is asked
again."""


@pytest.fixture
def lab(idle: Idle) -> Iterator[NetnsLab]:
    with idle.taken("netns", NetnsLab) as lab:
        if lab.impairs_by() is None:
            pytest.skip("this machine has neither netem nor iptables with NFQUEUE")
        yield lab


def up(lab: NetnsLab, expression: str, delay_s: float = 0.0, settings: LinkSettings | None = None) -> Topology:
    topology = build(expression, rate_bps=RATE_BPS, delay_s=delay_s)
    lab.up(topology, settings or LinkSettings(), permutations(topology.hosts, 2))
    return topology


def between(lab: NetnsLab, topology: Topology, a: int, b: int, rounds: int = 1) -> list[float]:
    """Round trips (s), as many a round as a calibration makes."""
    way = Way(a, b, *plan(topology).flow(a, b))
    return [took_s for one in lab.calibrate([way] * rounds, []).round_trips_s for took_s in one]


def takes(lab: NetnsLab, topology: Topology, a: int, b: int, asked_s: float) -> None:
    """A round trip takes that long: never less, and no more where nothing holds it up."""

    def about() -> bool:
        found_s.extend(between(lab, topology, a, b))
        return min(found_s, default=math.inf) < asked_s + LATE_S

    found_s: list[float] = []
    until(about)
    assert min(found_s) > asked_s - EARLY_S


def links_on_the_way(topology: Topology, a: int, b: int) -> int:
    return len(topology.paths(a, b)[0].links) + len(topology.paths(b, a)[0].links)


@pytest.mark.parametrize(
    "expression",
    [
        "star(hosts=3)",  # a table of redirects: links into it take a detour
        "star(hosts=3,server_nics=2)",  # routes
        "bcube(n=2,k=2)",  # hosts forward for each other, over several tables
        "expander(servers=6,degree=3)",  # hosts forward for each other, and no switch is there
        "spine_leaf(racks=2,hosts_per_rack=2,spines=2)",
        "star(hosts=3,ina=all)",
    ],
)
def test_a_round_trip_takes_the_delay_of_every_link_on_the_way(lab: NetnsLab, expression: str) -> None:
    topology = up(lab, expression, 0.005)
    for a, b in ((0, topology.host_count - 1), (1, 0)):
        asked_s = 0.005 * links_on_the_way(topology, a, b)
        takes(lab, topology, a, b, asked_s)
    lab.verify()
    told = json.loads(json.dumps(lab.describe()))
    every = {"directed_links": 2 * len(topology.links), "delay_s": 0.005, "jitter_s": 0, "loss": 0, "reorder": 0}
    assert told["impairments"] == [every]
    assert told["impaired_by"]["way"] == lab.impairs_by()


@pytest.mark.parametrize("directed", range(4))
def test_each_link_can_be_impaired_while_it_is_in_use(lab: NetnsLab, directed: int) -> None:
    topology = up(lab, "star(hosts=3)")
    takes(lab, topology, 0, 1, 0)
    lab.impair({directed: Impairment(0.02)})
    takes(lab, topology, 0, 1, 0.02)
    takes(lab, topology, 2, 1 - directed // 2, 0)  # whose packets go elsewhere
    assert [one["directed_links"] for one in lab.describe()["impairments"]] == [1]
    lab.impair({directed: Impairment(0.005)})
    takes(lab, topology, 0, 1, 0.005)
    lab.verify()
    lab.impair({directed: Impairment()})
    takes(lab, topology, 0, 1, 0)
    assert lab.describe()["impairments"] == []
    lab.verify()


def test_a_link_between_hosts_that_forward_can_be_impaired(lab: NetnsLab) -> None:
    topology = up(lab, "bcube(n=2,k=2)")
    way = topology.paths(0, 3)[0].links
    lab.impair(dict.fromkeys(way, Impairment(0.005)))
    takes(lab, topology, 0, 3, 0.02)
    assert sum(one.drops for one in lab.counters()) == 0


def test_jitter_varies_as_asked(lab: NetnsLab) -> None:
    topology = up(lab, "star(hosts=8)")
    lab.impair({0: Impairment(0.01, jitter_s=0.001)})
    # Four ways in turn, so that packets of the first are too far apart to wait for one another.
    ways = [Way(host, host + 1, *plan(topology).flow(host, host + 1)) for host in (0, 2, 4, 6)] * 27
    took_s = [one_s for trips in lab.calibrate(ways, []).round_trips_s[::4] for one_s in trips]
    lower, middle, _ = quantiles(took_s)
    # Busy cores make packets late, never early, so it is the early side that tells: the least of 300 is 2 to 5 sigma
    # below the mean, and the quartile 0.67. The whole distribution is held by the tests of the lane.
    assert 0.005 < min(took_s) < 0.0085 + LATE_S
    assert middle - lower > 0.0003


def received(lab: NetnsLab, count: int, size: int = 56) -> float:
    """The share of so many pings that came back."""
    words = ["ping", "-U", "-q", "-i", "0.002", "-c", str(count), "-s", str(size), "-W", "1", "h1"]
    said = lab.execute(0, words, 60).stdout
    match = re.search(r"(\d+) received", said)
    assert match, said
    return int(match[1]) / count


def test_loss_is_as_asked_and_no_drop(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)")
    lab.impair({0: Impairment(loss=0.1)})
    # 1,000 packets, standard deviation 0.0095: off by more than 0.05 once in 10^7.
    assert received(lab, 1000) == pytest.approx(0.9, abs=0.05)
    assert sum(one.drops for one in lab.counters()) == 0
    if lab.impairs_by() == DELAY_LINE:
        assert lab.impaired_by()["lost"] == pytest.approx(100, abs=50)


def test_the_same_seed_loses_the_same_packets(lab: NetnsLab) -> None:
    if lab.impairs_by() != DELAY_LINE:
        pytest.skip("netem before Linux 6.6 has no seed")
    lost = []
    for seed in (1, 1, 2):
        up(lab, "star(hosts=2)", settings=LinkSettings(seed=seed))
        lab.impair({0: Impairment(loss=0.3)})
        said = lab.execute(0, ["ping", "-U", "-i", "0.002", "-c", "200", "-W", "1", "h1"], 30).stdout
        lost.append(re.findall(r"icmp_seq=(\d+)", said))
    assert lost[0] == lost[1] != lost[2]


def iperf3(lab: NetnsLab, *options: str) -> dict[str, Any]:
    """What a flow from host 0 to host 1 has measured. -D returns before the server listens: the client asks again."""
    started = lab.execute(1, ["sh", "-c", "iperf3 -s -1 -D >/dev/null"], 10)
    assert started.status == 0, started.stderr

    def measured() -> dict[str, Any]:
        said = json.loads(lab.execute(0, ["iperf3", "-c", "h1", *options, "-J"], 60).stdout)
        assert "refused" in said.get("error", "refused"), said["error"]
        return dict(said["end"])

    return until(measured)


def test_reordered_packets_overtake(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)")
    lab.impair({0: Impairment(0.02, reorder=0.2)})
    said = lab.execute(0, ["ping", "-U", "-i", "0.005", "-c", "200", "h1"], 30).stdout
    arrived = [int(number) for number in re.findall(r"icmp_seq=(\d+)", said)]
    ahead = [float(ms) for ms in re.findall(r"time=([\d.]+)", said) if float(ms) < 10]
    assert len(arrived) == 200
    assert arrived != sorted(arrived)
    assert len(ahead) / 200 == pytest.approx(0.2, abs=0.15)  # standard deviation 0.028


def test_every_segment_of_a_large_packet_can_be_lost(lab: NetnsLab) -> None:
    """TCP's large packets are one until they are cut; a loss of 1 % of those would lose 1 % of 64 KiB at once."""
    up(lab, "star(hosts=2)", settings=LinkSettings(loss=0.01, mtu=1500))
    again = iperf3(lab, "-n", "10M")["sum_sent"]["retransmits"]
    # 7,241 segments cross two links: 144 lost, standard deviation 12; reno may send a few more anew than were lost.
    assert 90 < again < 400


def test_all_links_of_a_spec_are_impaired(lab: NetnsLab) -> None:
    topology = up(lab, "star(hosts=2)", 0.003, LinkSettings(jitter_s=0.0002, loss=0.05, reorder=0.1))
    assert lab.describe()["impairments"] == [
        {"directed_links": 4, "delay_s": 0.003, "jitter_s": 0.0002, "loss": 0.05, "reorder": 0.1}
    ]
    took_s = between(lab, topology, 0, 1, rounds=2)
    assert max(took_s) > 0.009
    assert min(took_s) < 0.2


def test_links_keep_their_rate_when_they_are_delayed(lab: NetnsLab) -> None:
    up(lab, "star(hosts=2)", 0.005)

    def enough() -> bool:
        carried_bps: float = iperf3(lab, "-t", "2", "-O", "1", "-C", "reno")["sum_received"]["bits_per_second"]
        share = carried_bps / (RATE_BPS * 1448 / 1514)
        assert share < 1.03
        return share > 0.8

    until(enough)  # again where the machine stood still meanwhile


def test_a_delay_line_that_ends_is_noticed(lab: NetnsLab) -> None:
    if lab.impairs_by() != DELAY_LINE:
        pytest.skip("netem does not end")
    topology = up(lab, "star(hosts=2)", 0.001)
    assert between(lab, topology, 0, 1)
    find = "for p in /proc/[0-9]*; do ls -l $p/fd | grep -q timerfd && kill -9 ${p#/proc/}; done"
    lab.execute(0, ["sh", "-c", find], 10)
    with pytest.raises(LabError, match="the delay line has ended, and no delayed link carries anything"):
        until(lab.exits)  # a process that is killed takes a moment to end
    with pytest.raises(LabError, match="the delay line has ended"):
        lab.verify()
    assert between(lab, topology, 0, 1) == []
    lab.down()
    topology = up(lab, "star(hosts=2)", 0.001)
    assert between(lab, topology, 0, 1)


def test_drops_beyond_what_chance_loses_are_told() -> None:
    lost = Counters(0, bytes=0, packets=9_900, drops=100)
    assert impairing._beyond(lost, 0.01) == 0
    assert impairing._beyond(replace(lost, drops=200), 0.01) == 200 - 162
    assert impairing._beyond(lost, 0.0) == 100


def test_rules_are_text() -> None:
    assert impairing.rules_text({"eth0": 0, "eth3": 3}) == (
        "*mangle\n"
        "-A PREROUTING -i eth0 -j NFQUEUE --queue-num 0\n"
        "-A PREROUTING -i eth3 -j NFQUEUE --queue-num 3\n"
        "COMMIT\n"
    )


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(impairing, "SYSTEM_PATHS", ())
    monkeypatch.setattr(capabilities, "has_qdisc", lambda _: False)
    capabilities.way.cache_clear()
    with pytest.raises(MissingToolError) as caught:
        capabilities.require_way("a link with delay 1 ms")
    capabilities.way.cache_clear()
    assert str(caught.value) == (
        "a link with delay 1 ms needs netem, which this kernel does not have, or the delay line, but iptables-restore "
        "is not installed\n  fix: sudo apt-get install iptables"
    )


def test_a_loop_that_was_not_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_line, "library", delay_line.library.__wrapped__)
    monkeypatch.setattr(delay_line, "LIBRARY", "testbed.lab.netns.network._none")
    monkeypatch.setattr(impairing, "tool", lambda name: name)
    lacking = capabilities.why_no_delay_line()
    assert str(lacking).startswith(
        "the compiled loop of the delay line is not installed\n  fix: install a C compiler (Debian: gcc and libc6-dev)"
    )


def test_bad_requests_are_refused(lab: NetnsLab) -> None:
    with pytest.raises(LabError, match="no network is up"):
        lab.impair({0: Impairment(0.001)})
    up(lab, "star(hosts=2)")
    with pytest.raises(LabError, match="there is no directed link 4\n  fix: the last is 3"):
        lab.impair({4: Impairment(0.001)})
    topology = build("star(hosts=2)", rate_bps=RATE_BPS, delay_s=11)
    with pytest.raises(SpecError, match=r"^link h0 - s0: a delay of 11000 ms; a link can have 0 to 10 s"):
        lab.require(topology, LinkSettings())
