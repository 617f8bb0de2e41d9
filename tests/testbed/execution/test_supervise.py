"""Waiting for workers, with a lab that only says who ended."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.base.errors import TrialError, TrialTimeoutError, WorkerError
from testbed.control import endings
from testbed.control.feed import Feed
from testbed.execution import supervise
from testbed.lab.programs import Exit
from testbed.trial.files import Files

from ..fake_lab import FakeLab

HOSTS = ("h0", "h1", "h2")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(supervise, "POLL_S", 0.001)
    monkeypatch.setattr(supervise, "GRACE_S", 0.05)
    monkeypatch.setattr(supervise, "SETTLE_S", 0.05)
    return Files(tmp_path, tmp_path)


def say(files: Files, name: str, *lines: dict) -> None:
    files.own(name).mkdir()
    files.samples(name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def wait(lab: FakeLab, files: Files, timeout_s: float = 5.0, start_timeout_s: float = 5.0) -> list[int]:
    ticks: list[int] = []
    signs = growth(lab, files, HOSTS, timeout_s, start_timeout_s)
    supervise.wait(lab, feed(files, HOSTS), files, signs, [supervise.Progress(ticks.append)])
    return ticks


def growth(
    lab: FakeLab, files: Files, processes: Sequence[str], timeout_s: float = 5.0, start_timeout_s: float = 5.0
) -> supervise.Growth:
    return supervise.Growth(lab, files, processes, timeout_s, start_timeout_s)


def feed(files: Files, processes: Sequence[str]) -> Feed:
    return Feed({process: files.samples(process) for process in processes})


def test_it_returns_when_all_have_ended_well_and_counts_iterations(files: Files) -> None:
    say(files, "h0", {"kind": "hello"}, {"kind": "iteration"}, {"kind": "iteration"})
    assert wait(FakeLab([Exit("h1", 1, 0)], [], [Exit("h0", 0, 0), Exit("h2", 2, 0)]), files) == [2]


def test_the_worker_that_a_signal_ended_is_named_before_those_that_missed_it(files: Files) -> None:
    say(files, "h0", {"kind": "error", "error": "neighbour h2 is gone"})
    files.log("h2").write_text("".join(f"line {i}\n" for i in range(20)))
    with pytest.raises(WorkerError) as error:
        wait(FakeLab([Exit("h0", 0, 1)], [Exit("h2", 2, -9), Exit("h1", 1, 1)]), files)
    text = str(error.value)
    assert text.startswith("the worker on h2 was killed by SIGKILL\n    | line 8\n")
    assert text.endswith(f"    | line 19\n  fix: {endings.OUT_OF_MEMORY}; all of its log: {files.log('h2')}")


def test_who_failed_first_is_known_with_the_moment_and_how(files: Files) -> None:
    """For whoever knows what was done to it."""
    with pytest.raises(WorkerError) as error:
        wait(FakeLab([Exit("h0", 0, 1, ended_s=3.0), Exit("h2", 2, -9, ended_s=2.5)], [Exit("h1", 1, 1)]), files)
    assert (error.value.process, error.value.at_s, error.value.signalled) == ("h2", 2.5, True)


def test_another_process_of_a_node_is_named_as_itself(files: Files) -> None:
    """And its files are told from those of the node's own, whose folder they share."""
    files = Files(files.work, files.logs, {"h0.daemon": "h0", "a/h0": "h0"})
    say(files, "h0", {"kind": "error", "error": "not this one"})
    files.samples("a/h0").write_text('{"kind": "error", "error": "out of slots"}\n')
    assert files.samples("a/h0") == files.work / "h0" / "a+h0.samples.jsonl"
    for process, status, told in (
        ("a/h0", 1, "the process a/h0 ended with exit status 1: out of slots; still running a moment later: h0, h0.d"),
        ("h0.daemon", -9, "the process h0.daemon was killed by SIGKILL; still running a moment later: h0, a/h0\n"),
        ("h0", 1, "the worker on h0 ended with exit status 1: not this one; still running a moment later: h0.daemon"),
    ):
        said = feed(files, ["h0", "h0.daemon", "a/h0"])
        lab = FakeLab([Exit(process, 0, status)])
        with pytest.raises(WorkerError) as error:
            supervise.wait(lab, said, files, growth(lab, files, said.running))
        assert error.value.problem.startswith(told)
        assert error.value.process == process


def test_it_waits_for_every_process_of_a_node(files: Files) -> None:
    files, both = Files(files.work, files.logs, {"h0.daemon": "h0"}), ["h0", "h0.daemon"]
    lab = FakeLab([Exit("h0", 0, 0)], stopped=["h0.daemon"])
    with pytest.raises(TrialTimeoutError, match=r"furthest behind, at iteration 0: h0\.daemon; stopped: h0\.daemon"):
        supervise.wait(lab, feed(files, both), files, growth(lab, files, both, 0.05, 0.05))
    lab = FakeLab([Exit("h0", 0, 0)], [Exit("h0.daemon", 0, 0)])
    supervise.wait(lab, feed(files, both), files, growth(lab, files, both))


def test_what_a_worker_said_before_it_ended_is_told(files: Files) -> None:
    say(files, "h1", {"kind": "hello"}, {"kind": "error", "error": "SpecError: no such thing"})
    with pytest.raises(WorkerError, match="the worker on h1 ended with exit status 1: SpecError: no such thing"):
        wait(FakeLab([Exit("h1", 1, 1), Exit("h0", 0, 1), Exit("h2", 2, 1)]), files)


def test_the_fix_is_the_one_that_the_worker_told(files: Files) -> None:
    say(files, "h1", {"kind": "error", "error": "h1 waits for h0", "fix": "raise the timeout"})
    with pytest.raises(WorkerError) as error:
        wait(FakeLab([Exit("h1", 1, 1), Exit("h0", 0, 1), Exit("h2", 2, 1)]), files)
    assert error.value.fix == f"raise the timeout; all of its log: {files.log('h1')}"


def test_who_neither_ended_nor_failed_is_named_beside(files: Files) -> None:
    with pytest.raises(WorkerError) as error:
        wait(FakeLab([Exit("h0", 0, 1)], [Exit("h2", 2, 1)]), files)
    assert error.value.problem.splitlines()[0] == (
        "the worker on h0 ended with exit status 1; still running a moment later: h1"
    )


def test_a_death_that_a_controller_forgives_is_no_failure(files: Files) -> None:
    class Forgiving:
        is_urgent = False

        def look(self, feed: Feed) -> float:
            feed.forgive([exit for exit in feed.failed if exit.process == "h1"])
            return math.inf

    def ended(process: str) -> FakeLab:
        return FakeLab([Exit(process, 1, -9)], [Exit("h0", 0, 0), Exit("h1", 1, 0), Exit("h2", 2, 0)])

    def go(lab: FakeLab) -> None:
        supervise.wait(lab, feed(files, HOSTS), files, growth(lab, files, HOSTS), [Forgiving()])

    go(ended("h1"))
    with pytest.raises(WorkerError, match="the worker on h2 was killed by SIGKILL"):
        go(ended("h2"))


def test_when_the_first_has_ended_the_next_one_is_counted(files: Files) -> None:
    say(files, "h0", {"kind": "iteration"})
    say(files, "h1", {"kind": "iteration"}, {"kind": "iteration"})
    lab = FakeLab([], [Exit("h0", 0, 0)], [Exit("h1", 1, 0), Exit("h2", 2, 0)])
    assert wait(lab, files) == [1, 2]


def test_silence_is_noticed_and_the_furthest_behind_named(files: Files) -> None:
    say(files, "h0", {"kind": "iteration"}, {"kind": "iteration"})
    say(files, "h1", {"kind": "iteration"})
    say(files, "h2", {"kind": "iteration"}, {"kind": "iteration"})
    with pytest.raises(
        TrialTimeoutError, match=r"for 0\.05 s; furthest behind, at iteration 1: h1; stopped: h2"
    ) as error:
        wait(FakeLab(stopped=["h2"]), files, timeout_s=0.05)
    assert str(error.value.fix).endswith("or give a longer timeout")


def test_until_all_have_met_the_limit_is_that_of_the_start(files: Files) -> None:
    say(files, "h0", {"kind": "hello"})
    say(files, "h1", {"kind": "hello"})
    began_s = time.monotonic()
    with pytest.raises(TrialTimeoutError, match=r"for 0\.3 s; furthest behind, at iteration 0: h0, h1, h2") as error:
        wait(FakeLab(), files, timeout_s=0.01, start_timeout_s=0.3)
    assert str(error.value.fix).endswith("or give a longer start_timeout")
    assert time.monotonic() - began_s > 0.3


def replaced(path: Path, by: str) -> None:
    """Put what somebody may put in the place of a worker's file there."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if by == "fifo":
        os.mkfifo(path)
    elif by == "link":
        (path.parent / "secret").write_text('{"kind": "iteration"}\nsecret\n')
        path.symlink_to(path.parent / "secret")
    else:
        path.write_bytes(b"[" * 100_000 + b"\n")


@pytest.mark.parametrize("by", ["fifo", "link"])
def test_samples_that_are_no_file_fail_the_trial_at_once(files: Files, by: str) -> None:
    replaced(files.samples("h1"), by)
    with pytest.raises(TrialError, match=r"h1/samples\.jsonl: is "):
        wait(FakeLab(), files)
    with pytest.raises(TrialError, match=r"h1/samples\.jsonl: is "):
        endings.read(files.samples("h1"))


@pytest.mark.parametrize("by", ["fifo", "link", "deep"])
def test_a_death_is_told_whatever_the_dead_made_of_its_files(files: Files, by: str) -> None:
    replaced(files.samples("h1"), by)
    if by != "deep":
        replaced(files.log("h1"), by)
    with pytest.raises(TrialError) as error:
        wait(FakeLab([Exit("h1", 1, 1), Exit("h0", 0, 1), Exit("h2", 2, 1)]), files)
    assert str(error.value).startswith("the worker on h1 ended with exit status 1\n    | (its log is")
    assert "secret" not in str(error.value)


def test_samples_of_a_terabyte_do_not_keep_the_watch_busy(files: Files) -> None:
    say(files, "h0", {"kind": "hello"})
    with files.samples("h0").open("r+b") as file:
        file.truncate(1 << 40)  # takes no room
    began_s = time.monotonic()
    wait(FakeLab([], [Exit("h0", 0, 0), Exit("h1", 1, 0), Exit("h2", 2, 0)]), files)
    assert time.monotonic() - began_s < 30


def test_a_log_that_would_fill_the_disk_ends_the_trial(files: Files) -> None:
    with files.log("h1").open("wb") as log:
        log.truncate(supervise.LARGEST_LOG_BYTES + 1)  # takes no room
    with pytest.raises(TrialError, match=r"h1\.log has more than 1,073,741,824 bytes"):
        wait(FakeLab(), files)
