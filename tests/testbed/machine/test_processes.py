"""Whether processes stand still, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from testbed.machine import processes
from testbed.machine.monitor import Monitor
from testbed.machine.processes import ProcessLog, ProcessWatch, Standing, children_by_inner_pid

from ...patience import until

SLEEPS = "import time\nwhile True: time.sleep(0.003)"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python programs, and ends them with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def go(code: str, **named: object) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **named))  # type: ignore[call-overload]
        return started[-1]

    yield go
    for one in started:
        with suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def stopped_share(process: int, pids: dict[str, int], on_s: float, off_s: float, took_s: float) -> float:
    """Of the time in which the watcher looked, the share in which the first of ``pids`` was seen to stand still, while
    ``process`` is stopped for ``on_s`` and runs for ``off_s`` in turn.

    On a busy machine the watcher may look too seldom, and says so: then it is done again, three times at most.
    """
    for _ in range(3):
        stopped_s, seen_s, took_s = seen_stopped(process, pids, on_s, off_s, took_s)
        if seen_s > 0.7 * took_s:
            break
    return stopped_s / seen_s


def seen_stopped(
    process: int, pids: dict[str, int], on_s: float, off_s: float, took_s: float
) -> tuple[float, float, float]:
    """For how long it was seen to stand still, for how long somebody looked, and how long it took (s)."""
    with Monitor(lambda: pids) as monitor:
        until(lambda: monitor.processes.looks > 2)
        began_s = time.monotonic()
        while time.monotonic() - began_s < took_s:
            os.kill(process, signal.SIGSTOP)
            time.sleep(on_s)
            os.kill(process, signal.SIGCONT)
            time.sleep(off_s)
        ended_s = time.monotonic()
    log, seen = monitor.processes, monitor.processes.of["a"]
    stopped_s = float(seen.inside([(began_s, ended_s)], seen.stopped_s)[0])
    return stopped_s, ended_s - began_s - log.unseen_s(began_s, ended_s), ended_s - began_s


@pytest.mark.parametrize(("on_s", "off_s", "least"), [(0.05, 0.05, 0.3), (0.029, 0.041, 0.2), (0.01, 0.09, 0.02)])
def test_a_process_that_is_stopped_again_and_again_stood_still_for_that_share(
    start: Start, on_s: float, off_s: float, least: float
) -> None:
    process = start(SLEEPS)
    share = stopped_share(process.pid, {"a": process.pid}, on_s, off_s, 2.0)
    assert least < share < 0.8


def test_one_long_stop_is_seen_as_long_as_it_was(start: Start) -> None:
    process = start(SLEEPS)
    assert stopped_share(process.pid, {"a": process.pid}, 1.0, 0.5, 1.2) == pytest.approx(0.67, abs=0.2)


def test_a_process_that_sleeps_as_it_wants_did_not_stand_still(start: Start) -> None:
    process = start(SLEEPS)
    with Monitor(lambda: {"a": process.pid}) as monitor:
        until(lambda: monitor.processes.looks > 20)
    seen = monitor.processes.of["a"]
    assert set(seen.stopped_s) == {0.0}
    assert seen.counts_waits
    assert list(seen.at_s) == sorted(seen.at_s)


def test_a_child_that_is_stopped_counts_for_the_process_that_started_it(start: Start) -> None:
    code = f"import subprocess, sys\nprint(subprocess.Popen([sys.executable, '-c', {SLEEPS!r}]).pid, flush=True)\n"
    process = start(code + SLEEPS, stdout=subprocess.PIPE)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert 0.2 < stopped_share(child, {"a": process.pid}, 0.05, 0.05, 2.0) < 0.8


def test_a_process_that_ends_is_not_looked_for_again_and_one_of_its_name_goes_on_from_there(start: Start) -> None:
    first = start("import time; time.sleep(0.2)")
    pids = {"a": first.pid, "gone": 2**22 + 1}
    watch = ProcessWatch(lambda: pids)
    watch.look()
    first.wait()
    watch.look()
    pids["a"] = start(SLEEPS).pid
    for _ in range(3):
        watch.look()
    assert len(watch.log.of["a"].at_s) >= 2
    assert len(watch.log.of["gone"].at_s) == 0
    watch.close()


def test_looking_costs_little(start: Start) -> None:
    """It rests in proportion to what a look takes."""
    pids = {f"h{i}": start(SLEEPS).pid for i in range(9)}
    watch = ProcessWatch(lambda: pids)
    began_s, rested_s = time.thread_time(), 0.0
    for _ in range(60):
        rested_s += watch.look()
    watch.close()
    assert (time.thread_time() - began_s) / rested_s < 0.02


def counted(*points: tuple[float, float]) -> Standing:
    """What was stopped until each moment."""
    found = Standing()
    for at_s, stopped_s in points:
        found.add(at_s, stopped_s, 0.0, 0.0)
    return found


def test_growth_inside_windows_is_read_off_between_points() -> None:
    one = counted((0, 0), (1, 0), (2, 1), (3, 1))
    assert one.inside([(0, 1), (1, 2), (1.5, 3), (5, 6)], one.stopped_s).tolist() == pytest.approx([0, 1, 0.5, 0])
    assert counted((0, 0)).inside([(0, 1)], [0.0]).tolist() == [0.0]


def test_points_that_say_nothing_new_are_not_kept_and_there_are_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = counted(*((at, 0.0) for at in range(1000)))
    assert (len(quiet.at_s), quiet.at_s[-1]) == (2, 999)
    monkeypatch.setattr(processes, "MOST_POINTS", 100)
    busy = counted(*((at, at / 2) for at in range(10_000)))
    assert len(busy.at_s) <= 101
    assert busy.inside([(2000, 8000)], busy.stopped_s)[0] == pytest.approx(3000, rel=0.1)


def log_of(looks: Sequence[float]) -> ProcessLog:
    found = ProcessLog()
    for at_s in looks:
        found.look(at_s)
    return found


def test_time_in_which_nobody_looked_is_known() -> None:
    looked = log_of([*np.arange(0, 2, 0.1), *np.arange(5, 6.05, 0.1)])
    assert looked.unseen_s(0, 6) == pytest.approx(3.1)
    assert looked.unseen_s(3, 4) == pytest.approx(1)
    assert looked.unseen_s(0, 10) == pytest.approx(7.1, abs=0.1)
    assert looked.looks_per_s == pytest.approx(31 / 6, rel=0.05)
    assert ProcessLog().unseen_s(1, 3) == 2
    overlapping = [(3.0, 6.0), (1.0, 4.0), (2.0, 3.0)]  # those of several machines
    assert ProcessLog(looks=9, begun_s=0, looked_s=10, gaps=overlapping).unseen_s(0, 10) == 5


@pytest.mark.parametrize(
    ("mounts", "file", "said", "is_frozen"),
    [
        ("cgroup {0} cgroup rw,freezer 0 0\n", "freezer.state", "FROZEN\n", True),
        ("cgroup {0} cgroup rw,freezer 0 0\n", "freezer.state", "THAWED\n", False),
        ("cgroup2 {0} cgroup2 rw 0 0\n", "cgroup.events", "populated 1\nfrozen 1\n", True),
        ("cgroup2 {0} cgroup2 rw 0 0\n", "cgroup.events", "populated 1\nfrozen 0\n", False),
    ],
)
def test_a_frozen_cgroup_is_known_by_its_file(
    tmp_path: Path, mounts: str, file: str, said: str, is_frozen: bool
) -> None:
    """The groups of this process, in folders that look like the kernel's."""
    (tmp_path / "mounts").write_text(mounts.format(tmp_path))
    files = processes._Files()
    freezers = processes._Freezers(files, tmp_path / "mounts")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        folder = tmp_path / line.split(":", 2)[2].lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(said)
    found = freezers.of(os.getpid())
    assert [freezers.is_frozen(one) for one in found] == [is_frozen]
    files.close()


def test_files_that_are_too_many_are_read_and_not_kept(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "OF_FILES", 2**40)
    files = processes._Files()
    (tmp_path / "state").write_text("a")
    before = len([*Path("/proc/self/fd").iterdir()])
    assert files.read(str(tmp_path / "state")) == b"a"
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    process = start(SLEEPS)
    assert 0.2 < stopped_share(process.pid, {"a": process.pid}, 0.05, 0.05, 1.0) < 0.8


def test_a_kernel_that_lists_no_children_leaves_all_unseen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a container, only its first process would be seen."""
    monkeypatch.setattr(processes, "CHILDREN", tmp_path / "children")
    watch = ProcessWatch(lambda: {"a": os.getpid()})
    watch.look()
    assert watch.log.of == {}


def test_children_are_known_by_their_pids_in_their_namespace(start: Start) -> None:
    """Here, there is none between."""
    process = start(SLEEPS)
    assert children_by_inner_pid(os.getpid())[process.pid] == process.pid
    assert children_by_inner_pid(2**22 + 1) == {}
