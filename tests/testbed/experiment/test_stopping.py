"""A run that is asked to end before its next trial: it does, keeps what it has, and goes on later."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.base.errors import OutputError
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Stopped, ask_to_stop
from testbed.run_directory import access
from testbed.run_directory.directory import RunDirectory
from testbed.run_directory.layout import LOCK, STOP
from testbed.spec import Source
from testbed.trial.model import Trial

from ..conftest import SPEC, Called
from ..fake_lab import FakeLab
from ..runner import Disturbed, go, in_memory
from ..sweeps import Made, source

ROUNDS = SPEC + "repeats: 3\n"
TWICE = SPEC.replace("retries: 0", "retries: 2")


def asks(run: Path, gst_s: float = 1.0) -> Callable[[Trial], float]:
    """Somebody asks the run to end during each trial; what the trial measures."""

    def measure(_: Trial) -> float:
        ask_to_stop(run)
        return gst_s

    return measure


def test_it_ends_before_the_next_trial_and_goes_on_later(made_up: Made, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = made_up(asks(run))
    with pytest.raises(Stopped):
        go(Experiment.new(source(ROUNDS), run, in_memory))
    assert len(first.ids) == 1
    assert not (run / STOP).exists()
    second = made_up()
    assert len(go(Experiment.resumed(run, None, in_memory)).records) == 6
    assert first.ids + second.ids == list(dict.fromkeys(first.ids + second.ids))


def test_it_ends_before_a_trial_is_measured_again(made_up: Made, tmp_path: Path) -> None:
    run = tmp_path / "run"
    calls = 0

    def measure(_: Trial) -> float:
        nonlocal calls
        calls += 1
        if calls == 2:
            ask_to_stop(run)
        return Disturbed(1.0)

    ran = made_up(measure)
    with pytest.raises(Stopped):
        go(Experiment.new(source(TWICE), run, in_memory))
    assert len(ran.ids) == 2


def test_a_request_in_the_last_trial_changes_nothing(made_up: Made, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made_up(stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.new(source(SPEC), run, in_memory))
    made_up(asks(run))
    assert len(go(Experiment.resumed(run, None, in_memory)).records) == 2
    assert not (run / STOP).exists()


def test_a_request_that_a_killed_run_left_is_removed(made_up: Made, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made_up(stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        go(Experiment.new(source(SPEC), run, in_memory))
    (run / STOP).touch()
    made_up()
    assert len(go(Experiment.resumed(run, None, in_memory)).records) == 2


def test_the_command_says_so(
    made_up: Made, testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.experiment.run.opener", lambda *_: FakeLab)
    monkeypatch.setattr("testbed.api.labs.opener", lambda *_: FakeLab)
    (tmp_path / "spec.yaml").write_text(SPEC)
    made_up(asks(tmp_path / "run"))
    found = testbed("run", "spec.yaml", "--out", "run")
    assert found.code == 130
    assert found.err == (
        "interrupted: run/stop asked for it; 1 of 2 trials finished and kept in run\n"
        "  go on with: testbed run --resume run\n"
    )
    made_up()
    assert testbed("run", "--resume", "run").code == 0


def test_nothing_is_asked_where_no_run_goes_on(tmp_path: Path, source: Source) -> None:
    RunDirectory.create(tmp_path / "run", source).close()
    with pytest.raises(OutputError, match="no run goes on there"):
        ask_to_stop(tmp_path / "run")
    assert not (tmp_path / "run" / STOP).exists()


def test_a_look_keeps_no_run_out(tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks whether a run goes on has its lock for a moment."""
    path = tmp_path / "run"
    RunDirectory.create(path, source).close()
    monkeypatch.setattr(access, "MOMENT_S", 30.0)
    with (path / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        threading.Timer(0.2, fcntl.flock, (os.dup(lock.fileno()), fcntl.LOCK_UN)).start()
        RunDirectory.reopen(path).close()


def test_the_command_tells_trials_that_will_be_measured_again_from_finished_ones(
    made_up: Made, testbed: Callable[..., Called], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.experiment.run.opener", lambda *_: FakeLab)
    monkeypatch.setattr("testbed.api.labs.opener", lambda *_: FakeLab)
    (tmp_path / "spec.yaml").write_text(TWICE)

    made_up(asks(tmp_path / "run", Disturbed(1.0)))
    assert testbed("run", "spec.yaml", "--out", "run").err == (
        "interrupted: run/stop asked for it; 0 of 2 trials (1 more will be measured again) finished and kept in run\n"
        "  go on with: testbed run --resume run\n"
    )
