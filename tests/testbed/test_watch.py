"""Waiting for workers, with a lab that only says who ended."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from testbed import watch
from testbed.errors import TrialError, TrialTimeoutError, WorkerError
from testbed.jobs import Files
from testbed.lab.base import Exit, Launch

from .fake_lab import FakeLab

NAMES = ["h0", "h1", "h2"]
LAUNCHES = [Launch(i, "", "") for i in range(3)]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(watch, "POLL_S", 0.001)
    monkeypatch.setattr(watch, "GRACE_S", 0.05)
    monkeypatch.setattr(watch, "SETTLE_S", 0.05)
    return Files(tmp_path, tmp_path)


def say(files: Files, name: str, *lines: dict) -> None:
    files.own(name).mkdir()
    files.samples(name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def wait(lab: FakeLab, files: Files, timeout_s: float = 5.0, start_timeout_s: float = 5.0) -> list[int]:
    ticks: list[int] = []
    watch.wait(lab, LAUNCHES, NAMES, files, timeout_s, ticks.append, start_timeout_s)
    return ticks


def test_it_returns_when_all_have_ended_well_and_counts_iterations(files: Files) -> None:
    say(files, "h0", {"kind": "hello"}, {"kind": "iteration"}, {"kind": "iteration"})
    assert wait(FakeLab([Exit(1, 0)], [], [Exit(0, 0), Exit(2, 0)]), files) == [2]


def test_the_worker_that_a_signal_ended_is_named_before_those_that_missed_it(files: Files) -> None:
    say(files, "h0", {"kind": "error", "error": "neighbour h2 is gone"})
    files.log("h2").write_text("".join(f"line {i}\n" for i in range(20)))
    with pytest.raises(WorkerError) as error:
        wait(FakeLab([Exit(0, 1)], [Exit(2, -9), Exit(1, 1)]), files)
    text = str(error.value)
    assert text.startswith("the worker on h2 was killed by SIGKILL\n    | line 8\n")
    assert text.endswith(f"    | line 19\n  fix: {watch.OUT_OF_MEMORY}; all of its log: {files.log('h2')}")


def test_who_failed_first_is_known_with_the_moment_and_how(files: Files) -> None:
    """For whoever knows what was done to it."""
    with pytest.raises(WorkerError) as error:
        wait(FakeLab([Exit(0, 1, ended_s=3.0), Exit(2, -9, ended_s=2.5)], [Exit(1, 1)]), files)
    assert (error.value.node, error.value.at_s, error.value.signalled) == (2, 2.5, True)


def test_what_a_worker_said_before_it_ended_is_told(files: Files) -> None:
    say(files, "h1", {"kind": "hello"}, {"kind": "error", "error": "SpecError: no such thing"})
    with pytest.raises(WorkerError, match="the worker on h1 ended with exit status 1: SpecError: no such thing"):
        wait(FakeLab([Exit(1, 1), Exit(0, 1), Exit(2, 1)]), files)


def test_the_fix_is_the_one_that_the_worker_told(files: Files) -> None:
    say(files, "h1", {"kind": "error", "error": "h1 waits for h0", "fix": "raise the timeout"})
    with pytest.raises(WorkerError) as error:
        wait(FakeLab([Exit(1, 1), Exit(0, 1), Exit(2, 1)]), files)
    assert error.value.fix == f"raise the timeout; all of its log: {files.log('h1')}"


def test_who_neither_ended_nor_failed_is_named_beside(files: Files) -> None:
    with pytest.raises(WorkerError) as error:
        wait(FakeLab([Exit(0, 1)], [Exit(2, 1)]), files)
    assert error.value.problem.splitlines()[0] == (
        "the worker on h0 ended with exit status 1; still running a moment later: h1"
    )


def test_silence_is_noticed_and_the_furthest_behind_named(files: Files) -> None:
    say(files, "h0", {"kind": "iteration"}, {"kind": "iteration"})
    say(files, "h1", {"kind": "iteration"})
    say(files, "h2", {"kind": "iteration"}, {"kind": "iteration"})
    with pytest.raises(
        TrialTimeoutError, match=r"for 0\.05 s; furthest behind, at iteration 1: h1; stopped: h2"
    ) as error:
        wait(FakeLab(stopped=[2]), files, timeout_s=0.05)
    assert str(error.value.fix).endswith("or give a longer timeout")


def test_until_all_have_met_the_limit_is_that_of_the_start(files: Files) -> None:
    say(files, "h0", {"kind": "hello"})
    say(files, "h1", {"kind": "hello"})
    began_s = time.monotonic()
    with pytest.raises(TrialTimeoutError, match=r"for 0\.3 s; furthest behind, at iteration 0: h0, h1, h2") as error:
        wait(FakeLab(), files, timeout_s=0.01, start_timeout_s=0.3)
    assert str(error.value.fix).endswith("or give a longer start_timeout")
    assert time.monotonic() - began_s > 0.3


@pytest.mark.parametrize(
    ("status", "text"),
    [(3, "ended with exit status 3"), (-15, "was killed by SIGTERM"), (-99, "was killed by signal 99")],
)
def test_endings_in_words(status: int, text: str) -> None:
    assert watch.ending(status) == text


def test_a_line_cut_short_is_left_out_and_a_damaged_one_is_not(files: Files) -> None:
    path = files.samples("h0")
    path.parent.mkdir()
    path.write_text('{"kind": "hello"}\n{"kind": "iter')
    assert watch.read(path) == [{"kind": "hello"}]
    path.write_text('{"kind": "hel\n{"kind": "iteration"}\n')
    with pytest.raises(TrialError, match=r"h0/samples\.jsonl: damaged"):
        watch.read(path)
