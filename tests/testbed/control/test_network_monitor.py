"""What the network monitor tells of links that perturbations have changed, and of what other traffic leaves of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.control.conductor import Record
from testbed.control.network_monitor import BackgroundRates, NetworkMonitor, shaped
from testbed.lab.base import LinkChange
from testbed.lab.measurements import Passed, Stream, Traffic
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.trial.ports import Ports
from testbed.workloads.link_rates import EVERY_S, LEFT, NAME, NOTICED, Follower, left, told
from testbed.workloads.sync.cost import goodput

from ..bench import Bench
from ..fake_lab import FakeLab

STAR = build("star(hosts=2)", rate_bps=100)
BEGUN: Any = SimpleNamespace(begun_s=0.0)
BESIDE = """
name: beside
links: {rate: 100 Gbit/s}
workload:
  {kind: profile, model: resnet50, batch: 32, iterations: 6, scale: 800, compute: {mode: paced, pace: {32: 0.4 s}}}
perturb: [{kind: background, from: h0, to: h1, rate: 40 Gbit/s, at: 0.5 s, until: 2 s}]
arms:
  - {topology: star(hosts=5), scheme: "mlfabric_a(delay_bound=1000,aggregators=1)"}
retries: 0
quiet: 0 s
"""


def done(*links: LinkChange, **other: Any) -> Record:
    return Record("rate", "slow", begun_s=1.0, links=links, **({"done_s": 2.0} | other))


def test_links_have_the_rate_that_they_were_given_last() -> None:
    records = [done(LinkChange(1, rate_bps=10), LinkChange(2, rate_bps=20)), done(LinkChange(1, rate_bps=100))]
    assert shaped(STAR, records) == {0: 100, 1: 100, 2: 20, 3: 100}


def test_a_link_that_carries_nothing_has_rate_0_until_it_carries_again() -> None:
    cut = done(LinkChange(0, blocked=True))
    assert shaped(STAR, [cut])[0] == 0
    assert shaped(STAR, [cut, done(LinkChange(0, blocked=False))])[0] == 100


def test_what_is_not_done_or_failed_has_changed_nothing() -> None:
    change = LinkChange(0, rate_bps=1)
    assert shaped(STAR, [done(change, done_s=None), done(change, error="refused")])[0] == 100


@pytest.mark.parametrize(
    ("taken", "before", "now"),
    [
        (0.0, 100.0, 100.0),
        (4.9, 100.0, 100.0),
        (30.0, 100.0, 70.0),
        (33.0, 70.0, 70.0),
        (36.0, 70.0, 64.0),
        (2.0, 70.0, 100.0),
        (99.0, 70.0, LEFT * 100),
    ],
)
def test_other_traffic_is_told_of_where_it_matters(taken: float, before: float, now: float) -> None:
    assert left({0: 100.0}, {0: taken}, {0: before}) == {0: now}


def test_a_link_that_is_down_has_nothing_left() -> None:
    assert left({0: 0.0}, {0: 5.0}, {0: 70.0}) == {0: 0.0}


def test_each_change_is_told_once(tmp_path: Path) -> None:
    records: list[Record] = []
    context: Any = SimpleNamespace(
        trial=SimpleNamespace(topology=STAR, ports=Ports({}, len(STAR.nodes))),
        lab=FakeLab(),
        files=SimpleNamespace(work=tmp_path),
        records=records,
    )
    follower = Follower(tmp_path / NAME, 4)
    monitor = NetworkMonitor(context)
    assert 0 < monitor.look(BEGUN) <= EVERY_S  # less what the look took
    assert follower.new() == []
    records.append(done(LinkChange(1, rate_bps=10)))
    for _ in range(2):
        monitor.look(BEGUN)
    ((_, rates_bps),) = follower.new()
    assert rates_bps == {1: 10}


def test_rates_are_worked_out_again_only_when_an_event_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(topology: Topology, records: list[Record]) -> dict[int, float]:
        asked.append(len(records))
        return shaped(topology, records)

    monkeypatch.setattr("testbed.control.network_monitor.shaped", counted)
    records: list[Record] = []
    parts: Any = {"lab": FakeLab(), "files": SimpleNamespace(work=tmp_path), "records": records}
    context: Any = SimpleNamespace(trial=SimpleNamespace(topology=STAR, ports=Ports({}, len(STAR.nodes))), **parts)
    monitor = NetworkMonitor(context)
    monitor.look(BEGUN)
    assert asked == []
    records += [done(LinkChange(1, rate_bps=10)), done(LinkChange(1, rate_bps=20), done_s=None)]
    for _ in range(3):
        monitor.look(BEGUN)
    assert asked == [2]


@pytest.mark.lab
def test_flows_beside_a_trial_are_taken_off_and_its_own_transfers_are_not(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held against what the flows did send, which on a busy machine is less than they were asked for."""
    said: list[dict[int, float]] = []
    others_bytes: Counter[int] = Counter()
    most_bps: Counter[int] = Counter()
    since = BackgroundRates.since

    def noted(seen_s: float, rates_bps: dict[int, float]) -> dict[str, Any]:
        said.append(rates_bps)
        return told(seen_s, rates_bps)

    def added(self: BackgroundRates, traffic: Traffic) -> dict[int, float]:
        before_s = {link: seen.at_s for link, seen in self._before.items()}
        found = since(self, traffic)
        for link, rate_bps in found.items():
            most_bps[link] = max(most_bps[link], round(rate_bps))
            others_bytes[link] += round(rate_bps * (traffic.at_s - before_s[link]) / 8)
        return found

    monkeypatch.setattr("testbed.control.network_monitor.told", noted)
    monkeypatch.setattr(BackgroundRates, "since", added)
    (outcome,) = bench.run(BESIDE, tmp_path)
    assert (outcome.record["status"], outcome.record["error"]) == ("done", None)
    *_, last = (tmp_path / "logs" / outcome.record["id"] / "source0.log").read_text().splitlines()
    sent_bytes = json.loads(last)["sent_bytes"] / goodput(1500)
    rate_bps = outcome.record["links"][0]["rate_bps"]
    for link in (0, 3):  # out of h0, and into h1
        assert others_bytes[link] == pytest.approx(sent_bytes, rel=0.1)
        seen = [rates[link] for rates in said if link in rates]
        assert min(seen) == pytest.approx(max(LEFT * rate_bps, rate_bps - most_bps[link]), abs=NOTICED * rate_bps)
        assert seen[-1] == rate_bps, "it is told when they have ended"
    assert {link for rates in said for link in rates} == {0, 3}, "the trial's own transfers are not taken off"


SMALL_STAR = build("star(hosts=3)", rate_bps=10**8)
A, B = plan(SMALL_STAR).flow(0, 1)


def _both(sent: int, received: int, port: int = 40000) -> tuple[Stream, Stream]:
    return Stream(A, B, (port, 10001), sent, 0), Stream(B, A, (10001, port), 0, received)


def traffic(at_s: float, sent: int, received: int, links: dict[int, tuple[int, int]]) -> Traffic:
    """h0 has sent so much to h1, which has got so much of it."""
    passed = [Passed(link, *links.get(link, (0, 0))) for link in range(6)]
    return Traffic(tuple(passed), _both(sent, received), at_s, 0.001)


def test_what_is_on_its_way_is_nobodys() -> None:
    rates = BackgroundRates(SMALL_STAR)
    assert rates.since(traffic(1.0, 0, 0, {})) == {}
    # Of 900 bytes 300 wait at h0's NIC; h1 has got what has left at the switch.
    found = rates.since(traffic(2.0, 900, 500, {0: (600, 300), 3: (500, 100)}))
    assert set(found.values()) == {0.0}


def test_the_rest_is_other_traffic_by_link() -> None:
    rates = BackgroundRates(SMALL_STAR)
    rates.since(traffic(1.0, 1000, 1000, {0: (1000, 0), 3: (1000, 0)}))
    found = rates.since(traffic(1.1, 2000, 2000, {0: (2050, 0), 3: (2000, 0), 4: (70, 0)}))
    assert {link: round(rate_bps) for link, rate_bps in found.items() if rate_bps} == {0: 4000, 4: 5600}


def test_a_connection_that_has_ended_leaves_a_link_unjudged_once() -> None:
    rates = BackgroundRates(SMALL_STAR)
    rates.since(traffic(1.0, 1000, 1000, {0: (1000, 0), 3: (1000, 0)}))
    ended = traffic(2.0, 0, 0, {0: (1000, 0), 3: (1000, 0)})._replace(streams=())
    assert set(rates.since(ended)) == {4, 5}
    assert set(rates.since(ended._replace(at_s=3.0)).values()) == {0.0}


def test_a_connection_that_has_ended_leaves_its_links_unjudged_though_another_has_sent_more() -> None:
    rates = BackgroundRates(SMALL_STAR)
    one, other, grown = _both(10**6, 10**6, 1), _both(10**6, 10**6, 2), _both(4 * 10**6, 4 * 10**6, 2)
    rates.since(traffic(1.0, 0, 0, {0: (2 * 10**6, 0), 3: (2 * 10**6, 0)})._replace(streams=one + other))
    later = traffic(1.1, 0, 0, {0: (5 * 10**6, 0), 3: (5 * 10**6, 0)})._replace(streams=grown)
    assert rates.since(later) == {4: 0.0, 5: 0.0}
    assert set(rates.since(later._replace(at_s=1.2)).values()) == {0.0}


def test_addresses_of_nobody_are_left_out() -> None:
    rates = BackgroundRates(SMALL_STAR)
    strange = Traffic(
        (Passed(0, 5, 0),),
        (Stream("127.0.0.1", "127.0.0.1", (1, 2), 9, 9), Stream(A, "10.99.0.1", (1, 2), 9, 9)),
        1.0,
        0.001,
    )
    rates.since(strange)
    assert rates.since(strange._replace(at_s=2.0)) == {0: 0.0}


def test_counts_that_took_long_to_read_are_passed_over() -> None:
    rates = BackgroundRates(SMALL_STAR)
    rates.since(traffic(1.0, 0, 0, {0: (0, 0)}))
    assert rates.since(traffic(1.1, 0, 0, {0: (5000, 0)})._replace(took_s=0.01)) == {}
    assert rates.since(traffic(1.2, 0, 0, {0: (5000, 0)}))[0] == pytest.approx(200_000)


def test_each_machine_has_a_clock_of_its_own() -> None:
    """h0's is an hour ahead, and it is read at other moments; what it says of another's end concerns no link of its."""
    rates, here, there = BackgroundRates(SMALL_STAR), (0, 1), (2, 3)

    def of(links: tuple[int, ...], at_s: float, count: int, streams: tuple[Stream, ...] = ()) -> Traffic:
        return Traffic(tuple(Passed(link, count, 0) for link in links), streams, at_s, 0.001)

    rates.since(of(here, 3601.0, 0))
    rates.since(of(there, 1.0, 0))
    ours, strangers = Stream(A, B, (1, 2), 4000, 4000), Stream(B, A, (2, 1), 9000, 9000)
    assert rates.since(of(here, 3601.1, 5000, (ours, strangers))) == pytest.approx({0: 80_000, 1: 80_000})
    assert rates.since(of(there, 1.2, 5000)) == pytest.approx({2: 200_000, 3: 200_000})
    assert rates.since(of(here, 3601.1, 5000, (ours,))) == {}, "no time has passed"
