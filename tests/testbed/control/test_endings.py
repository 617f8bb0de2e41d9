"""Files that processes leave: samples, last words and logs, from processes of any intent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.base.errors import TrialError
from testbed.control import endings
from testbed.lab.programs import Exit
from testbed.trial.files import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, tmp_path)


def write(files: Files, name: str, content: bytes) -> None:
    """Let a process have written that into its samples file."""
    files.own(name).mkdir()
    files.samples(name).write_bytes(content)


@pytest.mark.parametrize(
    ("status", "text"),
    [(3, "ended with exit status 3"), (-15, "was killed by SIGTERM"), (-99, "was killed by signal 99")],
)
def test_endings_in_words(status: int, text: str) -> None:
    assert endings.ending(status) == text


def test_a_line_cut_short_is_left_out_and_a_damaged_one_is_not(files: Files) -> None:
    path = files.samples("h0")
    write(files, "h0", b'{"kind": "hello"}\n{"kind": "iter')
    assert endings.read(path) == [{"kind": "hello"}]
    path.write_text('{"kind": "hel\n{"kind": "iteration"}\n')
    with pytest.raises(TrialError, match=r"h0/samples\.jsonl: damaged"):
        endings.read(path)


def test_a_line_that_is_nested_too_deeply_fails_the_trial(files: Files) -> None:
    write(files, "h1", b"[" * 100_000 + b"\n")
    with pytest.raises(TrialError, match=r"h1/samples\.jsonl: damaged, not JSON lines \(nested too deeply\)"):
        endings.read(files.samples("h1"))


def test_samples_have_a_size_that_a_trial_can_need(files: Files) -> None:
    write(files, "h0", b'{"kind": "begin"}\n' * 10)
    assert len(endings.read(files.samples("h0"), 200)) == 10
    with pytest.raises(TrialError, match=r"h0/samples\.jsonl: has more than 100 bytes"):
        endings.read(files.samples("h0"), 100)


def test_lines_that_no_worker_writes_fail_the_trial(files: Files) -> None:
    write(files, "h0", b'{"kind": "iteration", "i": 0}\n')
    with pytest.raises(TrialError, match=r"h0/samples\.jsonl: damaged \(a line of the kind iteration has no rank\)"):
        endings.read_checked(files.samples("h0"), 1000)


def test_of_a_log_the_end_is_read_and_no_escape_sequence_told(files: Files) -> None:
    log = files.log("h0")
    with log.open("wb") as file:
        file.truncate(1 << 40)  # a hole
        file.seek(0, os.SEEK_END)
        file.write(b"\nfirst\n\x1b[2J\x1b]0;title\x07\xe2\x80\xaetxt\n" + b"y" * 5000 + b"\n")
    told = endings.tail(log)
    assert told.splitlines()[-3:-1] == ["    | first", r"    | \x1b[2J\x1b]0;title\x07\u202etxt"]
    assert len(told) < 20_000


def test_a_killed_process_is_named_with_what_it_was_at(files: Files) -> None:
    files.own("h0").mkdir()
    for content, told in (
        (b"node 7 (send)".ljust(500), " at node 7 (send)\n"),
        (b"x" * 501, "KILL\n"),
        (b"\x1b[2J", "\\x1b[2J"),
    ):
        files.position("h0").write_bytes(content)
        assert told in endings.died([Exit("h0", 0, -9)], [], files).problem
    assert " at " not in endings.died([Exit("h0", 0, 1)], [], files).problem, "which says by itself why it ended"
