"""Controllers of kinds in real trials: one of a test, in this process, and the very example of
docs/extend/controller.md, as an installed package."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest

from testbed.control import registry
from testbed.control.feed import LOOK_S, Feed
from testbed.control.registry import Context
from testbed.lab.base import LinkChange
from testbed.perturb.events import Event
from testbed.perturb.moments import NOW
from testbed.workloads.kinds.forest.kind import ForestKind
from testbed.workloads.kinds.parts import Control
from tests.packages import ROOT, install, install_page, python
from tests.testbed.bench import Bench
from tests.testbed.records import check

pytestmark = pytest.mark.lab

PAGE = ROOT / "docs/extend/controller.md"
SPEC = """
name: controlled
links: {rate: 200 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 32, iterations: 4, compute: {pace: {32: 0.1 s}}}
arms: [{topology: star(hosts=3), scheme: ps}]
timeout: 20 s
"""


class Hearing:
    """Slows a link down when every worker has said that it ended its first iteration."""

    heard: list[str]
    is_urgent = True

    def __init__(self, context: Context) -> None:
        self._act, self._lines = context.act, 0
        type(self).heard = []

    def look(self, feed: Feed) -> float:
        lines = feed.lines(self._lines)
        self._lines += len(lines)
        self.heard.extend(line.process for line in lines if line.said["kind"] == "iteration" and line.said["i"] == 0)
        if len(self.heard) < 3:
            return LOOK_S
        self._act(Event(NOW, "slower", "a link slower", (LinkChange(0, rate_bps=10**8),)), feed)
        return math.inf


class Broken:
    """Fails as soon as the trial has begun."""

    is_urgent = False

    def __init__(self, _: Context) -> None:
        pass

    def look(self, feed: Feed) -> float:
        feed.look()
        if feed.begun_s is not None:
            raise ValueError("no such link")
        return LOOK_S


def declare(monkeypatch: pytest.MonkeyPatch, controller: type) -> None:
    """Have trials of forests declare it. Their class does: what was patched in an object stays there as its own."""
    monkeypatch.setattr(ForestKind, "control", Control(("own",)))
    monkeypatch.setattr(registry, "plugged", lambda _: {"own": controller})


def test_it_hears_every_process_and_what_it_does_is_recorded(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, Hearing)
    (outcome,) = bench.run(SPEC + "perturb: [{kind: rate, links: h1, share: 50 %, at: 200 ms}]\n", tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
    assert sorted(Hearing.heard) == ["h0", "h1", "h2"]
    events = {event["kind"]: event for event in outcome.record["events"]}
    assert events.keys() == {"slower", "rate"}, "its events beside those of the spec"
    assert events["slower"]["links"]["rate_bps"] == {"0": 10**8}
    assert check(outcome.record, "events")["value"] is not None, "none failed"
    samples = outcome.samples
    ended_s = samples.loc[samples["iteration"] == 0, "end_s"].max() - samples["start_s"].min()
    assert ended_s <= events["slower"]["begun_s"] <= events["slower"]["done_s"]


def test_one_that_fails_ends_the_trial_and_is_named(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, Broken)
    (outcome,) = bench.run(SPEC, tmp_path)
    assert outcome.record["status"] == "failed"
    told = r"the controller Broken failed: ValueError: no such link \(test_trials.py, line \d+\)\n  fix: mend it"
    assert re.match(told, outcome.record["error"])


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's package, as files of an installed distribution, with its spec."""
    install_page(PAGE, tmp_path)
    return tmp_path


def test_the_pages_example_halves_the_links_once_all_have_come_so_far(package: Path) -> None:
    done = python(package, "-m", "testbed", "run", "spec.yaml", "--out", "out")
    (path,) = (package / "out/trials").glob("*.json")
    record = json.loads(path.read_text())
    assert (record["status"], record["moves"]) == ("done", "throttled"), record["error"] or done.stderr
    (event,) = record["events"]
    assert (event["kind"], event["error"]) == ("throttle", None)
    assert set(event["links"]["rate_bps"].values()) == {50_000_000}
    samples = pd.read_parquet(package / f"out/samples/{path.stem}.parquet")
    ended_s = samples.loc[samples["iteration"] == 1, "end_s"].max() - samples["start_s"].min()
    assert ended_s <= event["begun_s"]


def test_without_the_controller_the_run_says_so_before_it_starts(package: Path) -> None:
    install(package, {"testbed.kinds": {"throttled": "throttled:KIND"}})
    done = python(package, "-m", "testbed", "run", "spec.yaml", "--out", "out")
    assert done.returncode == 2
    assert done.stderr.startswith("error: the kind of trial throttled needs the controller 'throttle', and no inst")
    assert "Traceback" not in done.stderr
    assert not (package / "out").exists()
