"""What a lab is calibrated with: every link that can be measured, and what its round trips should be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from testbed.evidence.calibration import BURST_S, MOST_TIMES, measure, measured, plan_of
from testbed.fidelity import delay
from testbed.lab.base import LinkSettings
from testbed.lab.measurements import Burst, Calibration, Way
from testbed.topologies.build import build
from testbed.trial.job_files import slow_start_s
from testbed.workloads.bursts.arrivals import SETTLE

from ..fake_lab import FakeLab

FAT_TREE, OVERSUBSCRIBED = (
    "fat_tree(k=4,routing=ecmp)",
    "spine_leaf(racks=2,hosts_per_rack=2,spines=1,oversubscription=4)",
)


@pytest.mark.parametrize("expression", ["star(hosts=4)", "bcube(n=3,k=2)"])
def test_where_switches_only_bridge_hosts_bursts_measure_everything(expression: str) -> None:
    topology = build(expression, rate_bps=10**9)
    assert measured(topology) == set(range(2 * len(topology.links)))
    assert plan_of(topology, LinkSettings()).bursts == ()


@pytest.mark.parametrize("expression", [FAT_TREE, OVERSUBSCRIBED, "dragonfly(a=2,p=2,h=1,g=3)"])
def test_a_burst_of_its_own_measures_each_other_link(expression: str) -> None:
    topology = build(expression, rate_bps=10**9)
    bursts = {(burst.way.src, burst.way.dst, burst.rate_bps) for burst in plan_of(topology, LinkSettings()).bursts}
    left = set(range(2 * len(topology.links))) - measured(topology)
    assert bursts == {(topology.tail(link), topology.head(link), topology.links[link // 2].rate_bps) for link in left}
    assert left


def test_links_of_hosts_before_a_slower_uplink_are_measured_for_themselves() -> None:
    topology = build(OVERSUBSCRIBED, rate_bps=10**9)
    between_racks = {(burst.way.src, burst.way.dst) for burst in plan_of(topology, LinkSettings()).bursts}
    leaf0 = topology.index["leaf0"]
    assert (1, leaf0) in between_racks  # h1's burst goes to the other rack, over an uplink of half its rate
    assert (0, leaf0) not in between_racks


def test_a_round_trip_is_asked_to_take_the_delays_there_and_back() -> None:
    topology = build("spine_leaf(racks=2,hosts_per_rack=1,spines=2)", rate_bps=10**9, delay_s=0.005)
    asked = {
        (ping.way.src, ping.way.dst): (ping.least_s, ping.most_s) for ping in plan_of(topology, LinkSettings()).pings
    }
    assert asked[0, 1] == pytest.approx((0.04, 0.04))  # four links there, four back
    assert {span for pair, span in asked.items() if max(pair) > 1} == {(0.01, 0.01)}


def test_a_burst_over_a_long_way_lasts_until_tcp_has_settled() -> None:
    near, far = (build(OVERSUBSCRIBED, rate_bps=10**9, delay_s=delay_s) for delay_s in (0.0, 0.02))
    assert {burst.duration_s for burst in plan_of(near, LinkSettings()).bursts} == {BURST_S}
    settled_s = slow_start_s(10**9, 0.04) / SETTLE
    assert {burst.duration_s for burst in plan_of(far, LinkSettings()).bursts} == {settled_s}
    assert settled_s > BURST_S


def test_a_slow_link_is_given_time_for_enough_packets() -> None:
    slow = build(OVERSUBSCRIBED, rate_bps=4_000_000)
    assert max(burst.duration_s for burst in plan_of(slow, LinkSettings()).bursts) == 5_000_000 / 4_000_000


def test_jitter_and_loss_widen_what_a_round_trip_may_be() -> None:
    topology = build("star(hosts=2)", rate_bps=10**9, delay_s=0.01)
    (ping, _) = plan_of(topology, LinkSettings(jitter_s=0.001, loss=0.1)).pings
    assert (ping.least_s, ping.most_s) == pytest.approx((0.04 - 0.0024, 0.04 + 0.0024))
    assert ping.arrives == pytest.approx(0.9**4)


def test_a_link_that_loses_packets_is_asked_for_the_rest() -> None:
    topology = build(OVERSUBSCRIBED, rate_bps=10**9)
    burst = plan_of(topology, LinkSettings(loss=0.1)).bursts[0]
    assert (burst.rate_bps, burst.datagram_bytes) == (9 * 10**8, 2**25)


class _LateLab(FakeLab):
    """A lab whose round trips take ``over_s`` more than nothing, another time at each calibration; None: lost."""

    def __init__(self, *over_s: float | None) -> None:
        super().__init__()
        self._over_s, self.times = over_s, 0

    def calibrate(self, pings: Sequence[Way], bursts: Sequence[Burst]) -> Calibration:
        over_s = self._over_s[self.times]
        self.times += 1
        times_s = () if over_s is None else 11 * (over_s,)
        return Calibration(11, tuple(times_s for _ in pings), tuple(burst.rate_bps for burst in bursts))


@pytest.mark.parametrize(
    ("over_s", "times", "holds"),
    [
        ((0.0001,), 1, True),
        ((0.003, 0.0001), 2, True),
        ((0.003, None, 0.0002), 3, True),  # lost packets take nothing back
        ((0.003, 0.002, 0.004), MOST_TIMES, False),
        ((None,), 1, False),
    ],
)
def test_a_round_trip_that_was_late_is_measured_again(
    over_s: tuple[float | None, ...], times: int, holds: bool
) -> None:
    lab, topology = _LateLab(*over_s), build("star(hosts=3)", rate_bps=10**9)
    lab.up(topology, LinkSettings(), [])
    trips = measure(topology, lab, LinkSettings()).round_trips
    assert (lab.times, delay.judge(trips).ok) == (times, holds)
    assert {trip["median_s"] for trip in trips} == {min((o for o in over_s if o is not None), default=None)}
