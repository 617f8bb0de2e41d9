"""Verdicts over made-up data: what passes, what does not, and what is said."""

from __future__ import annotations

import pandas as pd
import pytest

from testbed import fidelity
from testbed.monitor import CpuLog

GOODPUT = 0.956


def probe(name: str, share: float, address: str = "10.0.0.1") -> dict:
    return {"name": name, "port_address": address, "rate_bps": share * GOODPUT * 1e9, "asked_bps": 1e9}


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
    good = fidelity.link_rate([probe("h0", 0.99), probe("h1", 0.96)], 2, GOODPUT)
    bad = fidelity.link_rate([probe("h0", 0.99), probe("h1", 0.80)], 2, GOODPUT)
    assert good.ok
    assert good.value == pytest.approx(0.96)
    assert not bad.ok
    assert "h1 10.0.0.1, at 80.0%" in bad.detail


def test_a_nic_above_its_rate_is_not_shaped_as_asked() -> None:
    check = fidelity.link_rate([probe("h0", 0.99), probe("h1", 1.5)], 2, GOODPUT)
    assert not check.ok
    assert check.detail == "fastest of 2 NICs is h1 10.0.0.1, at 150.0% of what its rate allows"
    assert fidelity.link_rate([probe("h0", 1.01)], 1, GOODPUT).ok


def test_two_nics_of_one_host_are_two() -> None:
    both = [probe("h0", 0.99), probe("h0", 0.99, "10.0.1.1")]
    assert fidelity.link_rate(both, 2, GOODPUT).ok


def test_a_nic_that_did_not_report_is_not_believed() -> None:
    check = fidelity.link_rate([probe("h0", 1.0)], 2, GOODPUT)
    assert not check.ok
    assert check.detail == "1 of 2 NICs were measured"


def test_idle_time_is_counted_inside_the_windows_only() -> None:
    log = CpuLog()
    for at_s, idle_s in ((0, 0.0), (1, 0.0), (2, 2.0), (3, 2.0)):  # idle during the second second only
        log.add(at_s, idle_s, 0.0, 2.0 * at_s)
    busy_part, _ = fidelity.cpu([(0, 1), (2, 3)], log)
    idle_part, _ = fidelity.cpu([(1, 2)], log)
    assert (busy_part.value, busy_part.ok) == (0.0, False)
    assert (idle_part.value, idle_part.ok) == (1.0, True)


def test_a_window_between_two_readings_takes_its_part() -> None:
    headroom, _ = fidelity.cpu([(103.25, 103.5)], busy(0.4))
    assert headroom.value == pytest.approx(0.6)


def test_stolen_time_is_not_idle() -> None:
    headroom, steal = fidelity.cpu([(101, 105)], busy(0.2, steal=0.3))
    assert headroom.value == pytest.approx(0.5)
    assert steal.value == pytest.approx(0.3)
    assert not steal.ok


def test_cpus_that_nobody_watched_are_not_believed() -> None:
    (check,) = fidelity.cpu([(1, 2)], CpuLog())
    assert not check.ok


def test_overrun_is_that_of_the_slowest_worker_as_a_share_of_the_pace() -> None:
    check = fidelity.overrun(samples(overrun_s=[0.0, 0.02, 0.0, 0.04]), pace_s=0.5)
    assert check.value == pytest.approx(0.04)  # mean of 0 and 0.04, over 0.5
    assert not check.ok
    assert fidelity.overrun(samples(overrun_s=[0.0] * 4), pace_s=0.5).ok


def test_waiting_for_a_core_is_compared_with_the_synchronisation() -> None:
    check = fidelity.run_queue(samples(wait_s=[0.1, 0.1, 0.6, 0.6]))
    assert check.value == pytest.approx(0.6)
    assert not check.ok
    unknown = fidelity.run_queue(samples(wait_s=[None, None, None, None]))
    assert unknown.value is None
    assert "does not count" in unknown.detail


@pytest.mark.parametrize(("counted", "ok"), [(1000, True), (1025, True), (1040, False), (900, False)])
def test_bytes_must_be_those_of_the_forest(counted: float, ok: bool) -> None:
    assert fidelity.wire(counted, 1000).ok is ok


@pytest.mark.parametrize(("counted", "ok"), [(960, False), (980, True), (1150, True), (1250, True), (1290, False)])
def test_iterations_that_were_broken_off_may_have_added_none_or_all_of_their_bytes(counted: float, ok: bool) -> None:
    check = fidelity.wire(counted, 1000, spoilt=250)
    assert check.ok is ok
    assert "which were broken off" in check.detail


def test_who_died_unasked_makes_a_trial_invalid() -> None:
    assert fidelity.workers("h0 was killed by SIGKILL", 0).ok
    assert not fidelity.workers("h0 was killed by SIGKILL", 1).ok


def test_drops_name_the_worst_link() -> None:
    links = [{"from": "h0", "to": "s0", "drops": 0}, {"from": "s0", "to": "h1", "drops": 7}]
    check = fidelity.drops(links)
    assert not check.ok
    assert check.detail == "7 packets dropped, most at s0 to h1"
    assert fidelity.drops(links[:1]).ok


@pytest.mark.parametrize(("cpu_s", "ok"), [(4.0, True), (9.1, False)])
def test_the_busiest_aggregator_decides(cpu_s: float, ok: bool) -> None:
    check = fidelity.aggregators({"leaf0": 1.0, "leaf1": cpu_s}, 10.0)
    assert check.ok is ok
    assert f"leaf1, at {cpu_s * 10:.0f}% of a core" in check.detail


def test_faster_than_the_links_is_suspicious() -> None:
    """Two workers, ready 0.02 s apart: what the first sent in that time is not a reason to doubt the links."""
    found = samples(ready_s=[0.0, 1.0, 0.02, 1.02], sum_s=[0.09, 1.09, 0.1, 1.1])
    check = fidelity.bound(found, 0.1)
    assert check.ok
    assert check.value == pytest.approx(1.0)
    assert not fidelity.bound(found, 0.11).ok
    assert fidelity.bound(found, pd.Series([0.09, 0.11])).value == pytest.approx((0.1 / 0.09 + 0.1 / 0.11) / 2)


def test_one_bad_check_makes_a_trial_invalid_and_is_the_reason() -> None:
    good, bad = fidelity.wire(1, 1), fidelity.wire(2, 1)
    assert fidelity.verdict([good])["verdict"] == "VALID"
    found = fidelity.verdict([good, bad])
    assert found["verdict"] == "INVALID"
    assert fidelity.reasons(found) == "bytes on the wire: the kernel counted +100.00% against the forest's bytes"


def test_of_a_library_that_polls_only_a_short_gst_says_that_cores_were_enough() -> None:
    near, far = fidelity.polled("openmpi", 1.04, 1.0), fidelity.polled("openmpi", 1.7, 1.0)
    assert (near.ok, near.value) == (True, 1.04)
    assert (far.ok, far.value) == (False, None)
    assert far.detail.endswith(
        "with GST at 1.70 of the least that the links allow, whether cores were short is not known"
    )
    assert fidelity.verdict([near, far])["verdict"] == "INVALID"


def test_bytes_that_are_not_ours_to_know_are_called_so() -> None:
    check = fidelity.wire_unknown("openmpi", "default")
    assert (check.ok, check.value) == (True, None)
    assert check.detail.startswith("not known: which bytes openmpi moves")
