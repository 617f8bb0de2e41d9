"""A real lab is looked at: round trips and rates of links, and what is wrong with one shows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pytest

from testbed.evidence.calibration import differs, measure, plan_of
from testbed.lab.base import LinkChange, LinkSettings
from testbed.lab.measurements import Burst, Way
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.readings.calibration import PINGS, TOGETHER_BPS, batches
from testbed.topologies.build import build
from tests.patience import until

RATE_BPS = 50_000_000
GOODPUT = 1448 / 1514
LEAF_SPINE = build("spine_leaf(racks=2,hosts_per_rack=2,spines=2,oversubscription=2,routing=ecmp)", rate_bps=RATE_BPS)
WAY = Way(0, 1, "10.0.0.1", "10.0.0.2")
UPLINK = 8  # leaf0 to spine0


@pytest.fixture
def lab() -> Iterator[NetnsLab]:
    with NetnsLab() as lab:
        lab.up(LEAF_SPINE, LinkSettings(), [(src, dst) for src in range(4) for dst in range(4) if src != dst])
        yield lab


@pytest.mark.lab
def test_an_idle_lab_is_as_asked_for(lab: NetnsLab) -> None:
    bursts = len(plan_of(LEAF_SPINE, LinkSettings()).bursts)

    def as_asked() -> bool:
        """Again where the machine stood still for a part of a burst, or for half of a way's round trips."""
        found = measure(LEAF_SPINE, lab, LinkSettings())
        assert len(found.rates) == bursts
        return all(trip["median_s"] < 0.005 for trip in found.round_trips) and all(
            rate["rate_bps"] == pytest.approx(rate["asked_bps"] * GOODPUT, rel=0.1) for rate in found.rates
        )

    until(as_asked)
    assert differs(lab) is None


@pytest.mark.lab
def test_a_link_between_switches_that_is_slower_is_seen(lab: NetnsLab) -> None:
    slow_bps = RATE_BPS // 4
    lab.adjust([LinkChange(UPLINK, rate_bps=slow_bps)])

    def seen() -> bool:
        rates = measure(LEAF_SPINE, lab, LinkSettings()).rates
        slow = min(rates, key=lambda rate: rate["rate_bps"] / rate["asked_bps"])
        return bool(slow["name"] == "spine0" and slow["rate_bps"] == pytest.approx(slow_bps * GOODPUT, rel=0.1))

    until(seen)


@pytest.mark.lab
def test_a_way_that_is_cut_brings_nothing_back(lab: NetnsLab) -> None:
    lab.adjust([LinkChange(UPLINK, blocked=True)])
    found = measure(LEAF_SPINE, lab, LinkSettings())
    lost = {(trip["from"], trip["to"]) for trip in found.round_trips if trip["median_s"] is None}
    assert ("leaf0", "spine0") in lost
    assert ("leaf1", "spine1") not in lost
    assert min(rate["rate_bps"] for rate in found.rates) == 0


@pytest.mark.lab
def test_round_trips_do_not_wait_for_each_other(lab: NetnsLab) -> None:
    """Many ways at once are no slower than one alone."""
    ways = [ping.way for ping in plan_of(LEAF_SPINE, LinkSettings()).pings]

    def as_fast() -> bool:
        many = lab.calibrate(ways * 10, ())
        assert many.pings == PINGS
        assert {len(times) for times in many.round_trips_s} == {PINGS}
        return statistics.median(map(statistics.median, many.round_trips_s)) < 0.002

    until(as_fast)


def test_bursts_run_together_as_far_as_one_core_moves_them() -> None:
    bursts = [Burst(WAY, rate_bps, 1.0) for rate_bps in (TOGETHER_BPS // 2, TOGETHER_BPS // 2, 1, 3 * TOGETHER_BPS, 1)]
    assert list(batches(bursts)) == [[0, 1], [2], [3], [4]]
    assert list(batches([])) == []


def test_bursts_both_ways_between_two_nodes_do_not_run_together() -> None:
    back = Way(1, 0, WAY.remote, WAY.local)
    assert list(batches([Burst(way, 1, 1.0) for way in (WAY, WAY, back, WAY)])) == [[0, 1], [2], [3]]
