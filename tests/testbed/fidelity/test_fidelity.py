"""Verdicts over made-up data: what passes, what does not, and what is said."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from testbed import fidelity
from testbed.analysis.verdicts import NUMBERS
from testbed.base.check import WHOLE_JOB, Check
from testbed.evidence.bounds import Bounds
from testbed.fidelity import (
    aggregators,
    cpu,
    delay,
    drops,
    events,
    judgement,
    link_rate,
    lower_bound,
    nodes,
    pacing,
    quota,
    read_back,
    retransmissions,
    run_queue,
    timers,
    underlay,
    wire,
)
from testbed.fidelity.judgement import Error
from testbed.fidelity.seen import Seen
from testbed.lab.measurements import Interruption
from testbed.machine.monitor import CpuLog
from testbed.machine.processes import ProcessLog
from testbed.topologies import addressing
from testbed.topologies.build import build
from testbed.workloads.kinds.measures import Measures
from testbed.workloads.kinds.process import process

GOODPUT = 0.956


def probe(name: str, share: float, address: str = "10.0.0.1") -> dict:
    return {"name": name, "port_address": address, "rate_bps": share * GOODPUT * 1e9, "asked_bps": 1e9}


def judged_rates(probes: list[dict], expected: int, goodput: float) -> Check:
    topology = build("star(hosts=3)", rate_bps=10**9)
    return link_rate.judge(probes, expected, goodput, link_rate.names_of(probes, topology, topology.index))


def busy(share: float, steal: float = 0.0) -> CpuLog:
    """Two cores for ten seconds, ``share`` of them used all the time."""
    log = CpuLog()
    for second in range(11):
        log.add(100 + second, 2 * second * (1 - share - steal), 2 * second * steal, 2.0 * second)
    return log


def samples(**columns: list[float]) -> pd.DataFrame:
    """Two ranks, two iterations."""
    base = {"rank": [0, 0, 1, 1], "iteration": [0, 1, 0, 1]}
    moments = {"ready_s": [1.0, 3.0, 1.0, 3.0], "sum_s": [2.0, 4.0, 2.0, 4.0]}
    return pd.DataFrame({**base, **moments, **columns})


def test_the_slowest_nic_decides() -> None:
    good = judged_rates([probe("h0", 0.99), probe("h1", 0.96)], 2, GOODPUT)
    bad = judged_rates([probe("h0", 0.99), probe("h1", 0.80)], 2, GOODPUT)
    assert good.ok
    assert good.value == pytest.approx(0.96)
    assert not bad.ok
    assert "h1 10.0.0.1, at 80.0%" in bad.detail


def test_a_nic_above_its_rate_is_not_shaped_as_asked() -> None:
    check = judged_rates([probe("h0", 0.99), probe("h1", 1.5)], 2, GOODPUT)
    assert not check.ok
    assert check.detail == "fastest of 2 bursts is h1 10.0.0.1, at 150.0% of what its rate allows"
    assert judged_rates([probe("h0", 1.01)], 1, GOODPUT).ok


def test_a_burst_is_named_by_its_link() -> None:
    topology = build("spine_leaf(racks=2,hosts_per_rack=1,spines=1)", rate_bps=10**9)
    given = addressing.plan(topology)
    link = topology.ports[topology.index["spine0"]][1]  # to the second rack
    leaf = topology.nodes[topology.head(link)].name
    between = probe(leaf, 0.5, given.of(topology.head(link), topology.port_at_tail(link ^ 1)))
    nic = probe("x/worker1", 0.5, given.of(1, 0))
    elsewhere = probe("h0", 0.5, "192.0.2.1")
    assert link_rate.names_of([between, nic, elsewhere], topology, {"x/worker1": 1, "h0": 0}) == [
        f"spine0:eth1 -> {leaf}",
        "h1:eth0",
        "h0 192.0.2.1",
    ]


def test_two_nics_of_one_host_are_two() -> None:
    both = [probe("h0", 0.99), probe("h0", 0.99, "10.0.1.1")]
    assert judged_rates(both, 2, GOODPUT).ok


def test_a_way_between_racks_that_is_off_is_named_before_the_nics_beyond_it() -> None:
    way = probe("rack a to rack b", 0.7) | {"port_address": ""}
    assert "is rack a to rack b, at 70.0%" in judged_rates([probe("h0", 0.69), way], 2, GOODPUT).detail
    good = probe("rack a to rack b", 0.99) | {"port_address": ""}
    assert "is h0" in judged_rates([probe("h0", 0.69), good], 2, GOODPUT).detail


def test_a_nic_that_did_not_report_is_not_believed() -> None:
    check = judged_rates([probe("h0", 1.0)], 2, GOODPUT)
    assert not check.ok
    assert check.detail == "1 of 2 ports were measured"


def test_idle_time_is_counted_inside_the_windows_only() -> None:
    log = CpuLog()
    for at_s, idle_s in ((0, 0.0), (1, 0.0), (2, 2.0), (3, 2.0)):  # idle during the second second only
        log.add(at_s, idle_s, 0.0, 2.0 * at_s)
    busy_part, _ = cpu.judge([(0, 1), (2, 3)], log)
    idle_part, _ = cpu.judge([(1, 2)], log)
    assert (busy_part.value, busy_part.ok) == (0.0, False)
    assert (idle_part.value, idle_part.ok) == (1.0, True)


def test_a_window_between_two_readings_takes_its_part() -> None:
    headroom, _ = cpu.judge([(103.25, 103.5)], busy(0.4))
    assert headroom.value == pytest.approx(0.6)


def test_stolen_time_is_not_idle() -> None:
    headroom, steal = cpu.judge([(101, 105)], busy(0.2, steal=0.3))
    assert headroom.value == pytest.approx(0.5)
    assert steal.value == pytest.approx(0.3)
    assert not steal.ok


def test_cpus_that_nobody_watched_are_not_believed() -> None:
    (check,) = cpu.judge([(1, 2)], CpuLog())
    assert not check.ok


def throttled(*steps: tuple[float, float | None]) -> CpuLog:
    """By moment, for how long (s) quotas have kept processes from cores."""
    log = CpuLog()
    for at_s, held_s in steps:
        log.add(at_s, at_s, 0.0, 2 * at_s, held_s)
    return log


def quota_check(log: CpuLog, *windows: tuple[float, float]) -> Check:
    return quota.judge(windows, log, "in the whole job", quota.ABOUT)


def test_a_quota_that_was_used_up_is_found_although_cores_were_idle() -> None:
    log = throttled((0.0, 0.0), (1.0, 0.4), (2.0, 0.4))
    headroom, _ = cpu.judge([(0, 1)], log)
    check = quota_check(log, (0.0, 1.0))
    assert (headroom.ok, check.ok, check.machine, check.threatens) == (True, False, True, WHOLE_JOB)
    assert check.value == pytest.approx(0.4)
    assert check.detail == "a quota withheld cores for 0.40 s, 40.0% of the time in the whole job"
    assert quota_check(log, (1.0, 2.0)).ok


def test_a_throttling_counts_from_its_beginning_though_the_kernel_tells_of_it_at_its_end() -> None:
    steps = [(0.05 * i, 0.0 if i < 10 else 0.09) for i in range(20)]  # told of at 0.5 s
    log = throttled(*steps)
    assert quota_check(log, (0.4, 0.45)).value == pytest.approx(0.8)  # it began at 0.41
    assert quota_check(log, (0.3, 0.4)).value == pytest.approx(0)
    assert quota_check(log, (0.0, 0.9)).value == pytest.approx(0.1)


def test_without_a_quota_nothing_is_withheld() -> None:
    check = quota_check(throttled((0.0, 0.0), (1.0, 0.0)), (0.0, 1.0))
    assert (check.value, check.ok, check.detail) == (0.0, True, "no quota withheld cores in the whole job")


def test_quotas_that_nobody_could_read_are_not_watched() -> None:
    check = quota_check(throttled((0.0, 0.0), (1.0, None)), (0.0, 1.0))
    assert (check.value, check.watched) == (None, False)
    assert check.detail == "nobody could read the quotas of control groups in the whole job"
    assert not quota_check(CpuLog(), (0.0, 1.0)).watched


def test_overrun_is_that_of_the_slowest_worker_as_a_share_of_all_iterations() -> None:
    moments = {"start_s": [0.0] * 4, "end_s": [2.0, 4.0, 2.0, 4.0]}
    check = pacing.judge(samples(overrun_s=[0.0, 0.1, 0.0, 0.12], **moments), 0)
    assert check.value == pytest.approx(0.03)  # 0.12 s of 4 s
    assert not check.ok
    assert pacing.judge(samples(overrun_s=[0.0] * 4, **moments), 0).ok


@pytest.mark.parametrize(("overrun_s", "threatened"), [([0.1, 0.0] * 2, {"jct", "throughput"}), ([0.0, 0.1] * 2, None)])
def test_an_overrun_in_the_warm_up_threatens_what_has_it_in_it(
    overrun_s: list[float], threatened: set[str] | None
) -> None:
    check = pacing.judge(samples(overrun_s=overrun_s, start_s=[0.0] * 4, end_s=[2.0, 4.0, 2.0, 4.0]), 1)
    assert not check.ok
    assert set(check.threatens) == (threatened or set(WHOLE_JOB))


def test_waiting_for_a_core_is_compared_with_the_synchronisation() -> None:
    check = run_queue.judge(samples(wait_s=[0.1, 0.1, 0.6, 0.6]), Measures())
    assert check.value == pytest.approx(0.6)
    assert not check.ok
    unknown = run_queue.judge(samples(wait_s=[None, None, None, None]), Measures())
    assert unknown.value is None
    assert "does not count" in unknown.detail


def link(
    name: str, counted: float, theory: float = 1000, burst: float = 0, rate_bps: float = 1e6, extra: float = 0
) -> dict:
    a, b = name.split(">")
    rest = {"theory_bytes": theory, "other_bytes": burst, "rate_bps": rate_bps, "extra_bytes": extra}
    return {"from": a, "to": b, "bytes": counted, **rest}


@pytest.mark.parametrize(("counted", "ok"), [(1000, True), (1025, True), (1040, False), (900, False)])
def test_bytes_must_be_those_of_the_forest(counted: float, ok: bool) -> None:
    assert wire.judge([link("h0>s0", counted)], [(0,)], 0).ok is ok


@pytest.mark.parametrize(("counted", "ok"), [(1000, True), (1040, True), (1065, True), (1075, False), (965, False)])
def test_a_link_may_carry_what_tcp_says_that_it_added_there_and_no_more(counted: float, ok: bool) -> None:
    links = [link("h0>s0", counted, extra=40), link("s0>h1", 1000, extra=500)]
    assert wire.judge(links, [(0,), (1,)], 0).ok is ok
    assert not wire.judge([links[1], link("h2>s0", 1040)], [(0,), (1,)], 0).ok, "what was added elsewhere"


def test_a_detour_shows_on_both_links_though_the_sum_is_right() -> None:
    links = [link("h0>s0", 1000), link("s0>h1", 900), link("s0>h2", 100, theory=0)]
    check = wire.judge(links, [(0,), (1,), (2,)], 0)
    assert not check.ok
    assert check.value == pytest.approx(-0.1)
    assert check.detail == (
        "s0 to h1, furthest off, carried 10.00% of the busiest link's bytes fewer than the forest says"
    )


def test_links_that_share_by_chance_are_compared_together() -> None:
    links = [link("leaf0>spine0", 700), link("leaf0>spine1", 1300)]
    assert not wire.judge(links, [(0,), (1,)], 0).ok
    together = wire.judge(links, [(0, 1)], 0)
    assert together.ok
    assert together.detail.startswith("leaf0 to spine0 and 1 that share with it, furthest off")


def test_what_is_uncertain_about_the_burst_is_not_held_against_a_short_trial() -> None:
    """60 bytes beyond 1,000 are much; beyond 1,000 and a burst of 10,000 they are headers and acknowledgements."""
    assert wire.judge([link("h0>s0", 1060, burst=10_000)], [(0,)], 0).ok


def test_a_slow_link_weighs_its_bytes_by_their_time() -> None:
    links = [link("h0>s0", 10_000, theory=10_000, rate_bps=1e7), link("s0>h1", 40, theory=0, rate_bps=1e6)]
    assert wire.judge(links, [(0,), (1,)], 0).value == pytest.approx(0.04)


def trip(median_s: float | None, least_s: float = 0.02, most_s: float = 0.02) -> dict:
    return {"from": "h0", "to": "h1", "least_s": least_s, "most_s": most_s, "median_s": median_s}


@pytest.mark.parametrize(
    ("found", "value", "ok"),
    [
        (trip(0.0201), 0.1, True),
        (trip(0.022), 2.0, False),
        (trip(0.0185), 1.5, False),
        (trip(0.0004, 0.0, 0.0), 0.8, True),
        (trip(0.0006, 0.0, 0.0), 1.2, False),
        (trip(0.015, 0.01, 0.02), 0.0, True),
    ],
)
def test_a_round_trip_must_take_what_its_way_asks(found: dict, value: float, ok: bool) -> None:
    check = delay.judge([trip(0.02), found])
    assert check.ok is ok
    assert check.value == pytest.approx(value)


def test_delay_names_the_worst_way_and_does_not_believe_what_nobody_saw() -> None:
    assert delay.judge([trip(0.03)]).detail == "from h0 to h1 and back takes 30.00 ms, delays are 20 ms"
    lost = delay.judge([trip(0.02), trip(None)])
    assert (lost.ok, lost.value, lost.detail) == (False, None, "most packets from h0 to h1 and back were lost")
    assert not delay.judge([]).ok


def test_what_the_kernel_has_after_the_trial_must_be_what_was_asked_for() -> None:
    good = read_back.judge(None, [36] * 17)
    assert (good.ok, good.value) == (True, 0.0)
    assert good.detail.endswith("; 17 readings in mid-run, of 36 directed links each")
    check = read_back.judge("h0:eth0 -> s0:eth0: rate (bit/s): asked for 8, the kernel has 9", [36])
    assert (check.ok, check.value) == (False, 1.0)
    assert "the kernel has 9" in check.detail


def test_a_trial_that_nobody_read_in_its_midst_is_not_certified() -> None:
    """Links could have been changed and put back."""
    unread = read_back.judge(None, [])
    assert (unread.ok, unread.value) == (True, None)
    assert unread.detail.endswith("; there was no reading in mid-run, so nothing is certified")
    assert is_sound(GOOD)
    assert not is_sound(unread)
    assert not is_sound(read_back.judge("another rate", []))


def is_sound(of_read_back: Check) -> bool:
    """Whether bounds can be trusted, all other checks being as they should."""
    others = [Check(name, 0.0, 0.0, "", True, "") for name in judgement.SOUND if name != of_read_back.name]
    trial = SimpleNamespace(spec=SimpleNamespace(links=SimpleNamespace(mtu=1500)))
    seen = SimpleNamespace(trial=trial, rates=[], bounds=bounds(1.0))
    return judgement._is_sound(seen, [*others, of_read_back])  # type: ignore[arg-type]


def test_the_latest_timers_decide() -> None:
    check = timers.judge({"h0": 0.0001, "h1": 0.0021, "h2": None})
    assert not check.ok
    assert check.detail == "the sleeps of h1 came back 2.10 ms late in the median"
    assert timers.judge({"h0": 0.0001}).ok
    assert timers.judge({"h0": None}).value is None


def test_sleeps_of_a_process_that_was_watched_for_a_moment_do_not_count() -> None:
    watched_s = {"h0": 20.0, "h1.core0": 2.0, "h1.manager": 0.02, "of others": None}
    lines = [{"name": name, "late_s": 0.001, "watched_s": seconds} for name, seconds in watched_s.items()]
    assert timers.lateness(lines, 20.0) == {"h0": 0.001, "h1.core0": 0.001, "of others": 0.001}


def test_the_host_that_lost_the_largest_share_decides() -> None:
    sent = {"h0": (9_000, 0), "h1": (990, 10), "h2": (0, 0), "h3": (985, 15, 9)}
    segments = {name: retransmissions.Segments(*counts) for name, counts in sent.items()}
    check = retransmissions.judge(segments)
    assert not check.ok
    assert check.value == pytest.approx(0.01)
    assert check.detail.startswith("h1 sent 1.00% of its segments again (10), the most of all")
    assert retransmissions.judge({"h0": retransmissions.Segments(99_999, 1)}).ok
    assert retransmissions.judge({"h0": retransmissions.Segments(90, 10)}, asked=True).ok


def test_the_process_that_watched_a_host_for_longest_counts() -> None:
    """A box's manager gives access, and counts few of the segments that its host's cores count."""
    sent = {"h0": (9_000, 1), "h1.core0": (50_000, 2), "h1.core1": (49_000, 3), "h1.manager": (99, 1)}
    lines = [{"name": name, "sent_segments": out, "resent_segments": again} for name, (out, again) in sent.items()]
    found = retransmissions.of_hosts(lines, {"h0": 0, "h1.core0": 1, "h1.core1": 1, "h1.manager": 1})
    assert found == {"h0": retransmissions.Segments(9_000, 1), "h1.core0": retransmissions.Segments(50_000, 2)}
    assert len(retransmissions.of_hosts(lines, {})) == 4, "of processes whose host nobody knows, each counts"


def test_what_had_arrived_was_not_lost_and_counts_only_if_it_is_much() -> None:
    some = {"h0": retransmissions.Segments(99_500, 500, 400), "h1": retransmissions.Segments(1000, 0)}
    check = retransmissions.judge(some)
    assert check.ok
    assert (check.value, check.limit) == (pytest.approx(0.001), retransmissions.LOST)
    assert check.detail == "h0 sent 0.50% of its segments again (500; 400 had arrived), the most of all"
    check = retransmissions.judge(some | {"h1": retransmissions.Segments(980, 20, 30)})
    assert not check.ok
    assert (check.value, check.limit) == (pytest.approx(0.02), retransmissions.RESENT)
    assert check.detail == "h1 sent 2.00% of its segments again (20; 20 had arrived), the most of all"


def event(late_s: float = 0.0, **changes: object) -> dict:
    return {
        "kind": "rate",
        "what": "h0 at 5 Mbit/s",
        "planned_s": 5.0,
        "free_s": None,
        "begun_s": 5.0,
        "done_s": 5.0 + late_s,
        "takes_s": 0.0,
        "error": None,
        **changes,
    }


@pytest.mark.parametrize(("late_s", "ok"), [(0.0, True), (0.019, True), (0.021, False), (-0.021, False)])
def test_events_keep_to_their_schedule(late_s: float, ok: bool) -> None:
    check = events.judge([event(0.001), event(late_s)])
    assert check.ok is ok
    assert check.unit == "ms late"


@pytest.mark.parametrize(
    ("changes", "off_ms"),
    [
        ({"done_s": 6.012}, 12),  # dark for a second, as asked
        ({"begun_s": 5.011, "done_s": 6.012}, 12),
        ({"done_s": 185.012, "takes_s": 180}, 12),  # a robot's three minutes
        ({"begun_s": 9.001, "done_s": 10.005, "free_s": 9.0}, 5),  # it had to wait for the move before it
        ({"begun_s": 9.001, "done_s": 10.005}, 4005),  # it had not
        ({"begun_s": 5.025, "done_s": 6.010}, 25),
        ({"done_s": 6.025}, 25),
        ({"done_s": 5.5}, -500),
        ({"begun_s": 5.1, "done_s": 6.0}, 100),  # too late and too short, and over in time
        ({"begun_s": 4.9, "done_s": 6.0, "free_s": 4.0}, -100),
        ({"begun_s": 5.001, "done_s": 5.002}, -999),
    ],
)
def test_what_takes_a_while_is_held_against_when_it_could_begin_and_how_long_it_is_meant_to_take(
    changes: dict, off_ms: float
) -> None:
    check = events.judge([event(0.001), event(kind="circuits", **{"takes_s": 1.0, **changes})])
    assert check.value == pytest.approx(off_ms)
    assert check.ok is (abs(off_ms) <= 20)


def test_how_long_a_move_took_is_said() -> None:
    check = events.judge([event(kind="circuits", what="to rings=[1]", done_s=6.0138, takes_s=1.0)])
    assert check.detail == ("of 1 events, circuits (to rings=[1]) was furthest off, by 13.8 ms: it took 1.014 s of 1 s")


@pytest.mark.parametrize(
    ("changes", "why"), [({"error": "no such link"}, "no such link"), ({"done_s": None}, "it was not carried out")]
)
def test_an_event_that_did_not_happen_is_said(changes: dict, why: str) -> None:
    check = events.judge([event(), event(**changes)])
    assert not check.ok
    assert check.detail == f"1 of 2 failed, first rate (h0 at 5 Mbit/s): {why}"


@pytest.mark.parametrize(("counted", "ok"), [(960, False), (980, True), (1150, True), (1250, True), (1290, False)])
def test_iterations_that_were_broken_off_may_have_added_none_or_all_of_their_bytes(counted: float, ok: bool) -> None:
    assert wire.judge([link("h0>s0", counted)], [(0,)], 250).ok is ok


def test_who_died_unasked_makes_a_trial_invalid() -> None:
    assert nodes.judge("h0 was killed by SIGKILL", 0).ok
    assert not nodes.judge("h0 was killed by SIGKILL", 1).ok


def test_drops_name_the_worst_link() -> None:
    links = [{"from": "h0", "to": "s0", "drops": 0}, {"from": "s0", "to": "h1", "drops": 7}]
    check = drops.judge(links)
    assert not check.ok
    assert check.detail == "7 packets dropped, most at s0 to h1"
    assert drops.judge(links[:1]).ok
    assert drops.judge(links, asked=True).ok
    assert not check.machine


CARRIES = "node1's eth1, which carries 300 Mbit/s"


def nic(most_bps: float, peak_bps: float, dropped: int = 0, machine: str = "node1") -> dict[str, Any]:
    one = {"machine": machine, "nic": "eth1", "rate_bps": 300e6}
    return {**one, "most_bps": most_bps, "peak_bps": peak_bps, "dropped": dropped}


@pytest.mark.parametrize(
    ("nics", "ok", "detail"),
    [
        (
            [nic(200e6, 290e6)],
            True,
            "67% of node1's eth1, which carries 300 Mbit/s, if all links to other machines are full",
        ),
        ([nic(400e6, 250e6)], True, f"83% of {CARRIES}"),
        ([nic(400e6, 260e6)], False, f"87% of {CARRIES}"),
        ([nic(200e6, 0), nic(400e6, 290e6, machine="node2")], False, "97% of node2's eth1, which carries 300 Mbit/s"),
        (
            [nic(150e6, 0, dropped=3)],
            False,
            f"50% of {CARRIES}, if all links to other machines are full; 3 packets dropped at node1",
        ),
    ],
)
def test_what_is_between_machines_has_room(nics: list[dict[str, Any]], ok: bool, detail: str) -> None:
    check = underlay.judge(nics)
    assert (check.ok, check.detail, check.machine) == (ok, detail, True)


def test_an_interruption_is_an_event_and_no_perturbation() -> None:
    times = [(-0.5, 1.0), (3.0, 5.04), (1.0, 4.0)]
    whats = ["nothing came to node2 from node1"] * 2 + ["nothing came to node1 from node2"]
    cuts = [
        {"kind": Interruption.KIND, "what": what, "planned_s": None, "begun_s": begun_s, "done_s": done_s}
        for what, (begun_s, done_s) in zip(whats, times, strict=True)
    ]
    check = underlay.judge([nic(400e6, 60e6)], cuts)
    assert not check.ok
    assert check.detail == (
        f"20% of {CARRIES}; nothing came to node1 from node2 for up to 3.0 s, from 1.0 s after the start on; nothing "
        "came to node2 from node1 for up to 2.0 s, from 3.0 s after the start on"
    )
    assert "from 0.5 s before the start on" in underlay.judge([nic(400e6, 60e6)], cuts[:1]).detail
    seen = cast(Seen, SimpleNamespace(events=cuts, machines=[nic(400e6, 60e6)]))
    assert list(events.checks(seen)) == []
    assert [found.ok for found in underlay.checks(seen)] == [False]


@pytest.mark.parametrize(("refused", "by_machine"), [(7, True), (6, False)])
def test_drops_that_no_queue_made_are_the_machines(refused: int, by_machine: bool) -> None:
    check = drops.judge([{"from": "h0", "to": "s0", "drops": 7, "refused": refused}])
    assert (check.ok, check.machine) == (False, by_machine)
    assert check.detail == (
        f"7 packets dropped, most at h0 to s0; {refused} of them by a core of this machine whose backlog was full, not "
        "by a queue"
    )


@pytest.mark.parametrize(("cpu_s", "ok"), [(4.0, True), (9.1, False)])
def test_the_busiest_aggregator_decides(cpu_s: float, ok: bool) -> None:
    check = aggregators.judge({"leaf0": 1.0, "leaf1": cpu_s}, 10.0, "during synchronisation")
    assert check.ok is ok
    assert f"leaf1, at {cpu_s * 10:.0f}% of a core" in check.detail


def bounds(*gst_s: float, iteration_s: list[float] | None = None) -> Bounds:
    return Bounds(pd.Series(gst_s), None if iteration_s is None else pd.Series(iteration_s))


def test_one_iteration_that_is_faster_than_the_links_is_enough() -> None:
    """However long the others take, which a median would hide."""
    found = samples(sum_s=[1.5, 5.0, 1.5, 5.0])
    assert lower_bound.judge(found, bounds(0.5, 1.0)).ok
    check = lower_bound.judge(found, bounds(0.6, 1.0))
    assert (check.ok, check.value) == (False, pytest.approx(0.5 / 0.6))
    assert check.detail.startswith("GST of iteration 0 is 0.833 of the least")


def test_all_iterations_together_are_held_more_strictly() -> None:
    found = samples()
    assert lower_bound.judge(found, bounds(1.005, 1.005)).ok
    check = lower_bound.judge(found, bounds(1.02, 1.02))
    assert not check.ok
    assert check.detail.startswith("GST of all iterations after the warm-up together is 0.980")


def test_no_jct_below_its_least_is_believed() -> None:
    found = samples(start_s=[0.0, 2.0, 0.0, 2.0], end_s=[2.0, 4.0, 2.0, 4.0])
    assert lower_bound.judge(found, bounds(1.0, 1.0, iteration_s=[2.0, 2.0])).ok
    check = lower_bound.judge(found, bounds(1.0, 1.0, iteration_s=[2.5, 2.0]))
    assert not check.ok
    assert check.detail == "JCT is 0.889 of the least that the links allow"


def test_where_nothing_is_certain_nothing_is_judged() -> None:
    check = lower_bound.judge(samples(), bounds(0.0, 0.0))
    assert (check.ok, check.value) == (True, None)


GOOD, WRONG = read_back.judge(None, [36]), read_back.judge("another rate", [36])
SLOW = run_queue.judge(samples(wait_s=[0.6, 0.6, 0.6, 0.6]), Measures())


def test_one_bad_check_makes_every_number_invalid_that_it_threatens_and_is_the_reason() -> None:
    found = fidelity.verdicts([GOOD], NUMBERS, {}, 0.03)
    assert found["verdict"] == "VALID"
    assert set(found["numbers"]) == set(NUMBERS)
    found = fidelity.verdicts([GOOD, WRONG], NUMBERS, {}, 0.03)
    assert found["verdict"] == "INVALID"
    assert {number["verdict"] for number in found["numbers"].values()} == {"INVALID"}
    assert fidelity.reasons(found) == "read back: another rate"
    late = pacing.judge(samples(overrun_s=[0.1] * 4, start_s=[0.0] * 4, end_s=[2.0, 4.0, 2.0, 4.0]), 0)
    found = fidelity.verdicts([late], NUMBERS, {}, 0.03)
    assert [name for name, number in found["numbers"].items() if number["verdict"] == "VALID"] == ["gst"]


def test_what_the_machine_did_does_not_count_against_a_number_close_to_its_bound() -> None:
    errors = {"gst": Error(0.03, 1.0), "jct": Error(0.031, 2.0)}
    found = fidelity.verdicts([GOOD, SLOW], NUMBERS, errors, 0.03)
    assert found["numbers"]["gst"] == {
        "verdict": "VALID",
        "error": 0.03,
        "bound_s": 1.0,
        "certified": True,
        "spoilt_by": [],
        "excused": ["run queue"],
        "unwatched": [],
    }
    assert {number["excused"] == [] for name, number in found["numbers"].items() if name != "gst"} == {True}
    assert (found["numbers"]["jct"]["verdict"], found["numbers"]["jct"]["certified"]) == ("INVALID", False)
    assert (found["numbers"]["waiting"]["verdict"], found["numbers"]["waiting"]["error"]) == ("INVALID", None)
    assert found["verdict"] == "INVALID"
    assert fidelity.only_the_machine(found)


def test_the_error_is_that_of_the_median_and_not_the_median_of_errors() -> None:
    """Iterations whose bounds differ: a median of 2 s whose bounds have a median of 1 s may be twice too long."""
    taken_s, bound_s = pd.Series([2.0, 1.0, 1.0, 2.0, 2.0]), pd.Series([1.0, 1.0, 1.0, 2.0, 2.0])
    assert judgement._median_error(taken_s, bound_s) == Error(pytest.approx(1.0), 1.0)
    assert judgement._median_error(taken_s, 0 * bound_s) is None


def waiting_error(waits_s: Sequence[float], took_s: float, lead_s: float = 0.0) -> Error | None:
    """Of two iterations of two workers: rank 1 was to wait for 0.5 s in iterations of 1 s."""
    ready_s = [took_s * at + 0.5 for at in (0, 1)]
    moments = {"rank": [0, 1, 0, 1], "iteration": [0, 0, 1, 1], "start_s": 0.0}
    ready = [ready_s[0], ready_s[0] - waits_s[0], ready_s[1], ready_s[1] - waits_s[1]]
    sums = [took_s, took_s, 2 * took_s, 2 * took_s]
    frame = pd.DataFrame(moments).assign(ready_s=ready, sum_s=sums, end_s=sums)
    asked, lead = pd.DataFrame({0: [0.0, 0.0], 1: [0.5, 0.5]}), pd.Series([lead_s, lead_s])
    seen = SimpleNamespace(every=frame, clocks_s=0.0, job=SimpleNamespace(work=SimpleNamespace(warmup=0)))
    least = Bounds(pd.Series([0.5, 0.5]), pd.Series([1.0, 1.0]), asked, lead)
    return judgement._waiting_error(seen, least)  # type: ignore[arg-type]


def test_waiting_is_longer_by_no_more_than_iterations_and_shorter_by_what_it_lacks() -> None:
    assert waiting_error([0.5, 0.5], 1.0) == Error(pytest.approx(0.0), 0.25)
    assert waiting_error([0.52, 0.52], 1.02) == Error(pytest.approx(0.02), 0.25)
    assert waiting_error([0.4, 0.4], 1.0) == Error(pytest.approx(0.05), 0.25)
    assert waiting_error([0.5, 0.5], 1.0, lead_s=0.2) == Error(pytest.approx(0.2), 0.25)


def test_a_worker_that_was_late_may_have_made_gst_shorter() -> None:
    """The last worker overran its pace by 0.05 s in each iteration: the others may have sent meanwhile."""
    late, sums = {"ready_s": [1.0, 3.0, 1.05, 3.05], "overrun_s": [0.0, 0.0, 0.05, 0.05]}, [2.05, 4.05, 2.05, 4.05]
    found = samples(**late, sum_s=sums, start_s=[0.0] * 4, end_s=sums)
    assert list(judgement._late_s(found)) == pytest.approx([0.05, 0.05])
    assert list(judgement._late_s(found.assign(ready_s=[1.0, 3.0, 0.9, 2.9]))) == pytest.approx([0.0, 0.0])
    job = SimpleNamespace(work=SimpleNamespace(warmup=0), iterations=2)
    seen = SimpleNamespace(every=found, clocks_s=0.0, job=job, bounds=bounds(1.0, 1.0))
    assert judgement.errors_of(seen)["gst"] == Error(pytest.approx(0.05), 1.0)  # type: ignore[arg-type]


def test_below_its_bound_a_number_is_off_as_well() -> None:
    taken_s, bound_s = pd.Series([0.98, 0.98]), pd.Series([1.0, 1.0])
    assert judgement._median_error(taken_s, bound_s) == Error(pytest.approx(0.02), 1.0)


def test_clocks_of_several_hosts_make_a_number_less_certain() -> None:
    found = samples(sum_s=[1.45, 3.45, 1.45, 3.45])
    assert not lower_bound.judge(found, bounds(0.5, 0.5)).ok
    assert lower_bound.judge(found, bounds(0.5, 0.5), clocks_s=0.06).ok


def test_nothing_certifies_links_that_are_not_as_asked() -> None:
    found = fidelity.verdicts([WRONG, SLOW], ["gst"], {"gst": Error(0.0, 1.0)}, 0.03)
    assert found["numbers"]["gst"]["verdict"] == "INVALID"
    assert not found["numbers"]["gst"]["certified"]
    assert found["numbers"]["gst"]["spoilt_by"] == ["read back"]
    assert fidelity.verdicts([GOOD], ["gst"], {"gst": Error(0.0, 1.0)}, 0.03)["numbers"]["gst"]["excused"] == []
    assert not fidelity.only_the_machine(found)


def test_a_link_that_is_too_slow_may_be_the_machines_fault_and_one_that_is_too_fast_never() -> None:
    assert judged_rates([probe("h0", 0.8)], 1, GOODPUT).machine
    assert not judged_rates([probe("h0", 1.2)], 1, GOODPUT).machine


def test_an_older_record_says_why_it_is_invalid_by_all_checks_that_failed() -> None:
    old = {"verdict": "INVALID", "checks": [{"name": "drops", "ok": False, "detail": "7 packets dropped"}]}
    assert fidelity.reasons(old) == "drops: 7 packets dropped"
    assert not fidelity.only_the_machine(old)


def test_a_process_that_stood_still_spoils_what_it_was_part_of() -> None:
    once = timers.stalls({"h0": 0.0, "h1": 2.0, "h2": None}, 12.5)
    assert (once.ok, once.machine, once.value) == (False, True, pytest.approx(0.16))
    assert "gst" not in once.threatens
    assert once.detail == "h1 stood still for 2.00 s, 16.0% of the job, the most of all"
    assert timers.stalls({"h0": 0.3}, 12.5).ok
    assert timers.stalls({"h0": None}, 12.5).value is None


def test_a_standstill_is_a_share_of_the_time_for_which_processes_were_watched() -> None:
    """Switches are there during a script's set-up, before JCT begins."""
    lines = [{"name": "s0", "late_s": 0.0, "stalled_s": 0.5, "watched_s": 20.0}]
    seen = SimpleNamespace(
        done=lines,
        samples=None,
        window=(18.0, 20.0),
        processes=ProcessLog(),
        job=SimpleNamespace(processes={"s0": 0}, members={"s0": process("s0", 0, "aggregator")}),
        to_stand_still=frozenset(),
    )
    _, stalls = timers.checks(cast("Any", seen))
    assert (stalls.ok, stalls.value) == (True, pytest.approx(0.025))
    lines[0]["watched_s"] = None  # of an older worker
    assert not list(timers.checks(cast("Any", seen)))[1].ok


def test_of_gst_the_standstills_within_synchronisations_count() -> None:
    often = timers.stalls_of_synchronisation(samples(sync_halted_s=[0.1, 0.0, 0.0, 0.2]), {})
    assert (often.ok, often.threatens, often.value) == (False, NUMBERS, pytest.approx(0.15))
    assert timers.stalls_of_synchronisation(samples(sync_halted_s=[0.0] * 4), {}).ok
    switch = timers.stalls_of_synchronisation(samples(sync_halted_s=[0.0] * 4), {"s0": 0.25, "s1": 0.0})
    assert switch.detail == "s0 (not a worker) stood still for 25.0% of the time"


def test_a_late_wake_up_while_a_worker_waits_for_a_straggler_is_none_of_gst() -> None:
    """Rank 0 waits for 0.9 s until rank 1 is ready, and GST is 0.1 s: 15 ms late once are not 15 % of it."""
    waiting = samples(ready_s=[1.0, 3.0, 1.9, 3.9], sync_halted_s=[0.015, 0.015, 0.0, 0.0])
    assert timers.stalls_of_synchronisation(waiting, {}).value == pytest.approx(0.015)


def test_long_stops_of_a_process_without_samples_count_against_synchronisations_and_brief_ones_against_the_job() -> (
    None
):
    """Synchronising takes 2 s of 20 s."""
    lines = [
        {"name": name, "stalled_s": long, "halted_s": all_s}
        for name, long, all_s in (("s0", 0.2, 0.4), ("s1", 0.0, 0.8))
    ]
    seen = SimpleNamespace(every=samples(start_s=[0.0] * 4, end_s=[2.0, 4.0, 2.0, 4.0]), window=(0.0, 20.0))
    assert timers._of_others(lines, seen) == {"s0": pytest.approx(0.1), "s1": pytest.approx(0.04)}  # type: ignore[arg-type]


def test_a_worker_whose_engine_fills_a_core_is_told_though_others_are_free() -> None:
    full = aggregators.judge_engines(samples(cpu_s=[0.2, 0.2, 0.95, 0.97]))
    assert (full.ok, full.machine, full.value) == (False, True, pytest.approx(0.96))
    assert aggregators.judge_engines(samples(cpu_s=[0.2, 0.2, 0.5, 0.97])).ok


def test_of_a_library_that_polls_only_a_short_gst_says_that_cores_were_enough() -> None:
    near, far = cpu.polled("openmpi", 1.04, 1.0), cpu.polled("openmpi", 1.7, 1.0)
    assert (near.ok, near.value) == (True, 1.04)
    assert (far.ok, far.value) == (False, None)
    assert far.detail.endswith(
        "with GST at 1.70 of the least that the links allow, whether cores were short is not known"
    )
    assert not far.machine, "its outcome decides, so it is not measured again for that"


UNSEEN = timers.stalls({}, 10.0)


def test_a_number_without_a_needed_check_is_unwatched_and_not_valid() -> None:
    found = fidelity.verdicts([GOOD, UNSEEN], NUMBERS, {}, 0.03)
    verdicts = {name: number["verdict"] for name, number in found["numbers"].items()}
    assert verdicts == {"gst": "VALID"} | dict.fromkeys(WHOLE_JOB, "UNWATCHED")
    assert found["verdict"] == "UNWATCHED"
    assert found["numbers"]["jct"]["unwatched"] == ["stalls"]
    assert fidelity.reasons(found) == f"stalls: {timers.UNSEEN}"
    assert not fidelity.only_the_machine(found), "to measure again would not help"
    assert fidelity.told(found) == ""


def test_a_bound_certifies_a_number_that_nobody_watched() -> None:
    found = fidelity.verdicts([GOOD, UNSEEN], NUMBERS, {"jct": Error(0.02, 1.0)}, 0.03)
    assert (found["numbers"]["jct"]["verdict"], found["numbers"]["jct"]["unwatched"]) == ("VALID", ["stalls"])
    assert found["numbers"]["iterations"]["verdict"] == "UNWATCHED"


def test_a_failed_check_weighs_more_than_one_that_was_not_made() -> None:
    found = fidelity.verdicts([WRONG, UNSEEN], NUMBERS, {}, 0.03)
    assert {number["verdict"] for number in found["numbers"].values()} == {"INVALID"}
    assert fidelity.reasons(found) == "read back: another rate"
    spoilt = fidelity.verdicts([SLOW, UNSEEN], NUMBERS, {}, 0.03)
    assert fidelity.only_the_machine(spoilt), "what the machine did may be better next time"


def test_a_check_that_was_not_made_and_is_not_needed_spoils_nothing() -> None:
    unread = retransmissions.judge({})
    assert (unread.watched, unread.needed) == (False, False)
    assert fidelity.verdicts([GOOD, unread], NUMBERS, {}, 0.03)["verdict"] == "VALID"


@pytest.mark.parametrize(
    "check",
    [
        UNSEEN,
        timers.judge({}),
        retransmissions.judge({}),
        run_queue.judge(samples(wait_s=[None] * 4), Measures()),
        read_back.judge(None, []),
        wire.judge([link("h0>s0", 1000) | {"bytes": None}], [(0,)], 0),
        lower_bound.judge(samples(start_s=[0.0] * 4, end_s=[4.0] * 4), bounds(0.0)),
    ],
    ids=lambda check: check.name,
)
def test_what_was_not_made_is_recorded_as_not_watched(check: Check) -> None:
    (recorded,) = fidelity.verdicts([check], NUMBERS, {}, 0.03)["checks"]
    assert (recorded["watched"], recorded["value"]) == (False, None)
    assert recorded["detail"]


def test_standing_still_and_waiting_for_a_core_are_what_a_number_needs_to_have_watched() -> None:
    needed = {about.name for about in judgement.abouts() if about.needed}
    assert needed == {"stalls", "stalls while synchronising", "run queue"}
