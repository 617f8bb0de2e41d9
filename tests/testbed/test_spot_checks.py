"""Links are read back in mid-run: what is changed and put back is seen, what was asked for is not told of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import LabError
from testbed.lab.base import LinkChange, LinkSettings, Reading
from testbed.lab.netns import NetnsLab
from testbed.spot_checks import LEAST_S, MOST_S, Readings, SpotChecks, mean_s
from tests.patience import PATIENCE_S, until
from topologies.build import build

from .bench import Bench
from .fake_lab import FakeLab

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


def fake(*odd: str) -> FakeLab:
    lab = FakeLab()
    lab.up(build("star(hosts=2)", rate_bps=RATE_BPS), LinkSettings(), [])
    lab.odd = odd
    return lab


def test_what_was_put_back_is_told_with_how_often_and_when_it_was_seen() -> None:
    seen = Readings(count=17, links=17 * 36)
    seen.seen_s["h0 -> s0: rate (bit/s): asked for 1, the kernel has 2"] += [13.25, 13.5, 14.0, 14.75]
    assert seen.differs(10.0, None) == (
        "in mid-run, h0 -> s0: rate (bit/s): asked for 1, the kernel has 2 (in 4 of 17 readings, from 3.2 s to "
        "4.8 s after the start)"
    )
    assert str(seen) == "17 readings in mid-run, of 36 directed links each"
    assert str(seen.differs(10.0, "h1: a route is gone")).endswith("after the start); h1: a route is gone")
    for name in "abc":
        seen.seen_s[name].append(15.0)
    assert str(seen.differs(10.0, None)).endswith("; and 1 others")


def test_nothing_that_differs_is_nothing_to_tell_and_no_reading_is_said() -> None:
    assert Readings(count=3).differs(0.0, None) is None
    assert Readings().differs(0.0, "h1: a route is gone") == "h1: a route is gone"
    assert str(Readings()) == "none was read in mid-run"


def test_a_reading_that_takes_long_is_made_seldom() -> None:
    assert mean_s(1e-5) == LEAST_S
    assert mean_s(0.001) == pytest.approx(0.2)
    assert mean_s(0.5) == MOST_S


def test_a_lab_is_read_until_the_trial_ends() -> None:
    lab = fake()
    with SpotChecks(lab) as checks:
        until(lambda: checks.readings.count >= 2)
        lab.odd = ("another rate",)
        until(lambda: bool(checks.readings.seen_s))
        lab.odd = ()
    count = len(lab.asked("spot_check"))
    assert checks.readings.count == count
    assert checks.readings.links == 4 * count
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
    commands = {1: TWICE, 3: USUAL}

    def tick(done: int) -> None:
        for moment in [one for one in commands if one <= done]:
            assert bench.lab.execute(0, commands.pop(moment).split(), PATIENCE_S).status == 0

    (outcome,) = bench.run(SPEC, tmp_path, tick)
    assert not commands
    checks: dict[str, Any] = {one["name"]: one for one in outcome.record["fidelity"]["checks"]}
    read = checks["read back"]
    assert not read["ok"]
    assert read["detail"].startswith(
        "in mid-run, h0:eth0 -> s0:eth0: rate (bit/s): asked for 50000000, the kernel has 100000000 (in "
    )
    assert "h1" not in read["detail"]  # whose rate changed as planned
    assert "; " not in read["detail"]  # nor was anything left after the trial
