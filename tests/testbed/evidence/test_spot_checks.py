"""Links are read back in mid-run: what is changed and put back is seen, what was asked for is not told of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import LabError
from testbed.evidence import spot_checks
from testbed.evidence.spot_checks import LEAST_COUNT, LEAST_S, MOST_S, SPREAD, Made, Readings, SpotChecks, mean_s
from testbed.execution.so_far import SoFar
from testbed.lab.base import LinkChange, LinkSettings
from testbed.lab.measurements import Reading
from testbed.lab.netns import NetnsLab
from testbed.topologies.build import build
from tests.patience import PATIENCE_S, until

from ..bench import Bench
from ..fake_lab import FakeLab

RATE_BPS = 100_000_000
TC = "tc class change dev eth0 parent 1: classid 1:1 htb rate {rate} burst {burst} cburst {burst} quantum 60000"
TWICE, USUAL = TC.format(rate="100mbit", burst=12500), TC.format(rate="50mbit", burst=6250)
SPEC = """
name: put-back
links: {rate: 10 Gbit/s}
workload: {kind: profile, model: vgg19, scale: 200, batch: 32, iterations: 5, compute: none}
arms: [{topology: star(hosts=2), scheme: ring}]
perturb: [{kind: rate, links: [h1], share: 0.5, at: 0.2 s, until: 1 s}]
"""
SHORT = """
name: short
links: {rate: 30 Gbit/s}
workload: {kind: profile, model: vgg19, scale: 200, batch: 32, iterations: 2, warmup: 0, compute: none}
arms: [{topology: star(hosts=2), scheme: ring}]
"""


def readings(*moments_s: float) -> list[Made]:
    return [Made(at_s, at_s + 0.005, 36) for at_s in moments_s]


def fake(*odd: str) -> FakeLab:
    lab = FakeLab()
    lab.up(build("star(hosts=2)", rate_bps=RATE_BPS), LinkSettings(), [])
    lab.odd = odd
    return lab


def test_what_was_put_back_is_told_with_how_often_and_when_it_was_seen() -> None:
    seen = Readings(readings(*range(17)))
    seen.seen_s["h0 -> s0: rate (bit/s): asked for 1, the kernel has 2"] += [13.25, 13.5, 14.0, 14.75]
    assert seen.differs(10.0, None) == (
        "while processes ran, h0 -> s0: rate (bit/s): asked for 1, the kernel has 2 (in 4 of 17 readings, from 3.2 s "
        "to 4.8 s after the start)"
    )
    assert str(seen.differs(10.0, "h1: a route is gone")).endswith("after the start); h1: a route is gone")
    for name in "abc":
        seen.seen_s[name].append(15.0)
    assert str(seen.differs(10.0, None)).endswith("; and 1 other")


def test_nothing_that_differs_is_nothing_to_tell() -> None:
    assert Readings(readings(1, 2, 3)).differs(0.0, None) is None
    assert Readings().differs(0.0, "h1: a route is gone") == "h1: a route is gone"


def test_only_a_reading_between_the_first_start_and_the_last_end_is_in_mid_run() -> None:
    """Processes start before, to measure the links, and end after."""
    made = [Made(9.9, 10.1, 1), Made(10.0, 10.2, 2), Made(11.8, 12.0, 3), Made(11.9, 12.1, 4)]
    assert Readings(made).within(10.0, 12.0) == (2, 3)
    assert Readings(made[:1]).within(10.0, 12.0) == ()


def test_a_reading_that_takes_long_is_made_seldom() -> None:
    assert mean_s(1e-5) == LEAST_S
    assert mean_s(0.001) == pytest.approx(0.2)
    assert mean_s(0.5) == MOST_S


@pytest.mark.parametrize("trial_s", [0.2, 0.5, 1.0, 30.0])
def test_no_interval_is_longer_than_the_trial(trial_s: float) -> None:
    assert (1 + SPREAD) * mean_s(0.005, trial_s) < trial_s
    assert mean_s(0.005, trial_s) == min(MOST_S, trial_s / LEAST_COUNT)
    assert mean_s(0.001, trial_s) == pytest.approx(min(0.2, trial_s / LEAST_COUNT)), "no more often than it costs"
    assert mean_s(0.005, 0.01) == LEAST_S


def test_a_lab_is_read_until_the_trial_ends() -> None:
    lab = fake()
    with SpotChecks(lab) as checks:
        until(lambda: len(checks.readings.made) >= 2)
        lab.odd = ("another rate",)
        until(lambda: bool(checks.readings.seen_s))
        lab.odd = ()
    count = len(lab.asked("spot_check"))
    assert [one.links for one in checks.readings.made] == [4] * count
    assert all(one.begun_s <= one.done_s for one in checks.readings.made)
    assert "another rate (in" in str(checks.readings.differs(0.0, None))


def test_a_lab_that_cannot_be_read_fails_the_trial() -> None:
    lab = fake()
    checks = SpotChecks(lab).__enter__()
    lab.close()
    until(lambda: bool(lab.asked("spot_check")))
    with pytest.raises(LabError, match="the lab has ended"):
        checks.__exit__(None, None, None)


@pytest.fixture
def lab() -> Iterator[NetnsLab]:
    with NetnsLab() as lab:
        yield lab


@pytest.mark.lab
def test_changes_that_the_lab_makes_are_no_difference(lab: NetnsLab) -> None:
    lab.up(build("star(hosts=3)", rate_bps=RATE_BPS), LinkSettings(), [])
    stop = threading.Event()

    def adjust() -> None:
        rate_bps = RATE_BPS
        while not stop.is_set():
            rate_bps = RATE_BPS - (RATE_BPS - rate_bps + 1_000_000) % 50_000_000
            lab.adjust([LinkChange(link, rate_bps=rate_bps) for link in range(6)])

    thread = threading.Thread(target=adjust)
    thread.start()
    found: list[Reading] = [lab.spot_check() for _ in range(200)]
    stop.set()
    thread.join()
    assert {one.links for one in found} == {6}
    assert not any(one.differs for one in found)


@pytest.mark.lab
def test_a_rate_that_somebody_changes_in_mid_run_and_puts_back(bench: Bench, tmp_path: Path) -> None:
    commands = [TWICE, USUAL]

    def tick(done: int, so_far: SoFar) -> None:
        """Change it once an iteration is done, and put it back when that was seen."""
        while commands and done:
            assert bench.lab.execute(0, commands.pop(0).split(), PATIENCE_S).status == 0
            until(lambda: so_far.links() == "links not as asked")

    (outcome,) = bench.run(SPEC, tmp_path, tick)
    assert not commands
    checks: dict[str, Any] = {one["name"]: one for one in outcome.record["fidelity"]["checks"]}
    read = checks["read back"]
    assert not read["ok"]
    assert read["detail"].startswith(
        "while processes ran, h0:eth0 -> s0:eth0: rate (bit/s): asked for 50000000, the kernel has 100000000 (in "
    )
    assert "h1" not in read["detail"]  # whose rate changed as planned
    assert "; " not in read["detail"]  # nor was anything left after the trial


@pytest.mark.lab
@pytest.mark.parametrize("is_read", [True, False])
def test_a_short_trial_is_read_in_its_midst_or_not_certified(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    if not is_read:
        monkeypatch.setattr(spot_checks, "mean_s", lambda *_: 3600.0)
    (outcome,) = bench.run(SHORT, tmp_path)
    judged: dict[str, Any] = outcome.record["fidelity"]
    (read,) = (one for one in judged["checks"] if one["name"] == "read back")
    assert (read["ok"], read["value"]) == (True, 0.0 if is_read else None)
    assert {number["error"] is not None for number in judged["numbers"].values()} == {is_read}
