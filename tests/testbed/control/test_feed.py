"""What is known of a trial while it runs, of files that several processes write."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from testbed.control.feed import Feed
from testbed.lab.programs import Exit


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Path]:
    return {name: tmp_path / f"{name}.jsonl" for name in ("h0", "h1", "s0")}


def write(path: Path, *lines: dict[str, object]) -> None:
    with path.open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))


def iteration(i: object, end: object) -> dict[str, object]:
    return {"kind": "iteration", "i": i, "end": end}


def test_lines_of_all_processes_come_once_whoever_has_looked_before(paths: dict[str, Path]) -> None:
    feed = Feed(paths)
    for path in paths.values():
        write(path, {"kind": "hello"})
    feed.look()
    first = feed.lines(0)
    assert [line.process for line in first] == ["h0", "h1", "s0"]
    write(paths["s0"], {"kind": "request", "rings": [1]})
    assert feed.lines(len(first)) == [("s0", {"kind": "request", "rings": [1]})]
    assert feed.lines(0)[: len(first)] == first


def test_a_look_reads_only_the_first_process(paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(Feed, "_read", lambda _, process, *__: read.append(process))
    feed = Feed(paths)
    feed.look()
    feed.note([Exit("h0", 0, 0)])
    feed.look()
    assert read == ["h0", "h0", "h1"], "and what it wrote before it ended"


def test_moments_are_those_of_the_first_that_lives(paths: dict[str, Path]) -> None:
    feed = Feed(paths)
    write(paths["h0"], {"kind": "begin", "time": 5.0}, iteration(0, 6.0))
    write(paths["h1"], {"kind": "begin", "time": 5.5}, iteration(0, 6.5), iteration(2, 7.5))
    assert feed.begun_s is None
    feed.look()
    feed.lines(0)  # somebody else has read the files of others, too
    assert (feed.begun_s, feed.ended_s(0), feed.ended_s(1)) == (5.0, 6.0, None)
    feed.forget(["h0"])
    feed.look()
    assert (feed.begun_s, feed.ended_s(0)) == (5.0, 6.0), "what it said remains"
    assert feed.ended_s(1) == 7.5, "h1 took iteration 1 over from another"
    assert feed.running == ["h0", "h1", "s0"], "only its exit says that it has ended"


def test_a_worker_that_rests_goes_on_later(paths: dict[str, Path]) -> None:
    feed = Feed(paths)
    write(paths["h0"], {**iteration(0, 6.0), "rested_s": 0.03}, {**iteration(1, 7.0), "rested_s": "long"})
    feed.look()
    assert (feed.ended_s(0), feed.ended_s(1)) == (6.03, 7.0)


def test_the_last_lines_of_the_first_count(paths: dict[str, Path]) -> None:
    feed = Feed(paths)
    write(paths["h0"], {"kind": "begin", "time": 5.0}, iteration(0, 6.0))
    feed.note([Exit("h0", 0, 0)])
    assert (feed.begun_s, feed.ended_s(0), feed.first) == (5.0, 6.0, "h1")


def test_iterations_are_counted_by_process(paths: dict[str, Path]) -> None:
    feed = Feed(paths)
    write(paths["h1"], iteration(0, 1.0), {"kind": "hello"}, iteration(1, 2.0))
    with paths["h1"].open("a") as file:
        file.write('{"kind": "iter')
    assert [feed.done(process) for process in paths] == [0, 2, 0]
    with paths["h1"].open("a") as file:
        file.write('ation"}\n')
    assert feed.done("h1") == 3


@pytest.mark.parametrize("line", [iteration("0", 1.0), iteration(0, None), {"kind": "begin", "time": "now"}])
def test_what_makes_no_sense_is_no_moment(paths: dict[str, Path], line: dict[str, object]) -> None:
    feed = Feed(paths)
    write(paths["h0"], line)
    feed.look()
    assert (feed.begun_s, feed.ended_s(0)) == (None, None)


def test_what_is_no_file_says_nothing(paths: dict[str, Path]) -> None:
    os.mkfifo(paths["h0"])
    feed = Feed({**paths, "h2": None})
    assert (feed.done("h0"), feed.done("h2"), feed.lines(0)) == (0, 0, [])
    assert feed.running == ["h0", "h1", "s0", "h2"]


def test_of_a_file_the_bytes_are_read_that_it_may_have(paths: dict[str, Path]) -> None:
    write(paths["h0"], *[{"kind": "hello"}] * 10)
    assert len(Feed(paths, most_bytes=40).lines(0)) == 2


def test_exits_that_nobody_forgives_remain() -> None:
    feed = Feed(dict.fromkeys(["h0", "h1", "h2"]))
    killed, failed = Exit("h0", 0, -9), Exit("h1", 1, 1)
    feed.note([killed, failed, Exit("h2", 2, 0)])
    feed.forgive([killed])
    assert (feed.running, feed.failed, feed.first) == ([], [failed], None)


def test_several_threads_that_look_miss_nothing_and_get_nothing_twice(paths: dict[str, Path]) -> None:
    feed, count = Feed(paths), 2000
    heard: dict[int, list[object]] = {}

    def listen(thread: int) -> None:
        heard[thread] = []
        while len(heard[thread]) < count:
            feed.look()
            heard[thread] += [line.said["i"] for line in feed.lines(len(heard[thread]))]

    threads = [threading.Thread(target=listen, args=(thread,), daemon=True) for thread in range(3)]
    for thread in threads:
        thread.start()
    for i in range(count):
        write(paths["h0"], iteration(i, float(i)))
    for thread in threads:
        thread.join(30)
    assert list(heard.values()) == [list(range(count))] * 3
    assert feed.done("h0") == count
