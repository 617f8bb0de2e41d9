"""What goes wrong with a lab behind the harness's back, for real: the known-bad set-ups of ``fidelity.py``.

A fault is a context manager that is entered once the workers have been launched, and left when the trial has ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from os import sched_getaffinity
from pathlib import Path

import ending

from testbed.lab.base import Impairment, LinkChange, LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Launch, Program
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.sync.schemes import build

Fault = Callable[[NetnsLab], AbstractContextManager[None]]

BURN = """import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
parent = os.getppid()
while os.getppid() == parent: pass
"""
MID_RUN_S = 1.2
"""From launch until training goes on: meeting and bursts take 0.6 s or more."""
SLACK_NS = 30_000_000
LATE_S = 0.05
COMMAND_S = 10.0


class FaultyLab(NetnsLab):
    """A lab in which a fault happens to every trial, which adjusts links ``late_s`` too late, whose h0 sends with
    ``delay_s``, whatever was asked for, and whose workers follow another ``scheme``, with the same neighbours."""

    def __init__(
        self,
        fault: Fault = lambda _lab: nullcontext(),
        late_s: float = 0.0,
        delay_s: float | None = None,
        scheme: str | None = None,
    ) -> None:
        super().__init__()
        self._fault, self._late_s, self._delay_s, self._scheme = fault, late_s, delay_s, scheme
        self._faults = ExitStack()
        self.launches = 0

    def up(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> None:
        super().up(topology, settings, pairs)
        self._up = topology
        if self._delay_s is not None:
            self.impair({0: Impairment(self._delay_s)})

    def launch(self, workers: Sequence[Launch]) -> None:
        if self._scheme:
            kinds.save(build(self._scheme, self._up, []), Path(json.loads(Path(workers[0].job).read_text())["forest"]))
        super().launch(workers)
        self.launches += 1
        self._faults.enter_context(self._fault(self))

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        time.sleep(self._late_s)
        super().adjust(changes)

    def verify(self) -> None:
        try:
            super().verify()
        finally:
            self._faults.close()

    def close(self) -> None:
        self._faults.close()
        super().close()

    def on_node(self, node: int, command: str) -> None:
        """Run a command that the harness knows nothing of."""
        done = self.execute(node, command.split(), COMMAND_S)
        ending.with_command(command, done)


@contextmanager
def hogs(_lab: NetnsLab) -> Iterator[None]:
    """Two processes that burn CPU on each core."""
    burning = [subprocess.Popen([sys.executable, "-c", BURN, str(core)]) for core in 2 * sorted(sched_getaffinity(0))]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


@contextmanager
def cpu_quota(cores: float) -> Iterator[None]:
    """This process, and all that it starts, may use so many cores: it goes into a control group of its own (version 1),
    and back. Unlike the faults of a lab this begins before the run does, as in a container with a quota.

    Raises:
        OSError: this machine has no such groups, or they are not for us.
    """
    above = Path("/sys/fs/cgroup/cpu")
    group = above / f"testbed-benchmark-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_quota_us").write_text(str(round(cores * 100_000)))
        (group / "cgroup.procs").write_text("0")
        yield
    finally:
        (above / "cgroup.procs").write_text("0")
        for _ in range(200):  # processes of the run may take a moment to end
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.05)


def bucket(rate: str, burst: str, after_s: float = 0.0) -> Fault:
    """The token bucket at h0's egress has another rate, or depth (both as tc writes them)."""

    @contextmanager
    def changed(lab: NetnsLab) -> Iterator[None]:
        assert isinstance(lab, FaultyLab)
        command = f"tc class change dev eth0 parent 1: classid 1:1 htb rate {rate} burst {burst} cburst {burst}"
        timer = threading.Timer(after_s, lab.on_node, (0, f"{command} quantum 60000"))
        timer.start()
        if not after_s:
            timer.join()
        yield
        timer.join()

    return changed


def for_a_while(rate: str, burst: str, usual: tuple[str, str], begin_s: float, end_s: float) -> Fault:
    """h0's egress has another rate and depth from one moment to another, counted from when workers are launched, and
    then the ``usual`` ones again, so that nothing is to be seen after the trial."""

    @contextmanager
    def changed(lab: NetnsLab) -> Iterator[None]:
        with bucket(rate, burst, begin_s)(lab), bucket(*usual, end_s)(lab):
            yield

    return changed


def real_time_hog(share: float) -> Fault:
    """A process on each core takes so much of it away from everybody else, a few milliseconds at a time, as a busy host
    does."""

    @contextmanager
    def hogging(_lab: NetnsLab) -> Iterator[None]:
        words = [sys.executable, "-c", HOG]
        hogs = [subprocess.Popen([*words, str(core), str(share)]) for core in sorted(sched_getaffinity(0))]
        try:
            yield
        finally:
            for process in hogs:
                process.kill()
                process.wait()

    return hogging


HOG = """import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
parent = os.getppid()
while os.getppid() == parent:
    begun = time.monotonic()
    while time.monotonic() < begun + 0.05 * float(sys.argv[2]): pass
    time.sleep(max(0.0, begun + 0.05 - time.monotonic()))
"""


def stopped(stop_s: float, every_s: float | None = None) -> Fault:
    """One worker is stopped for ``stop_s`` once training goes on, and again every so often."""

    @contextmanager
    def stopping(lab: NetnsLab) -> Iterator[None]:
        worker = _latest(lab)
        end = threading.Event()

        def run() -> None:
            wait_s: float | None = MID_RUN_S
            while wait_s is not None and not end.wait(wait_s):
                with suppress(ProcessLookupError):  # training is over
                    os.kill(worker, signal.SIGSTOP)
                    time.sleep(stop_s)
                    os.kill(worker, signal.SIGCONT)
                wait_s = None if every_s is None else every_s - stop_s

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    return stopping


def in_first_trial(fault: Fault) -> Fault:
    """The fault, in the first trial of a lab alone."""
    return lambda lab: fault(lab) if isinstance(lab, FaultyLab) and lab.launches == 1 else nullcontext()


def all_at_once(*faults: Fault) -> Fault:
    """Several faults of one trial."""

    @contextmanager
    def together(lab: NetnsLab) -> Iterator[None]:
        with ExitStack() as stack:
            for fault in faults:
                stack.enter_context(fault(lab))
            yield

    return together


@contextmanager
def stranger(lab: NetnsLab) -> Iterator[None]:
    """Somebody else's TCP sends 6 Mbit/s from h0 to h1 all along, to a port where it comes and goes unread."""
    assert isinstance(lab, FaultyLab)
    (address,) = (words[3].split("/")[0] for words in map(str.split, _addresses(lab, 1)))
    started = [
        lab.start(node, Program(words, {}, "/tmp"), "/dev/null")
        for node, words in (
            (1, (sys.executable, "-c", SINK, address)),
            (0, (sys.executable, "-c", SOURCE, address, str(STRANGER_BPS))),
        )
    ]
    yield
    for one in started:
        one.signal(signal.SIGKILL)


STRANGER_BPS = 6_000_000
SINK = """
import socket, sys
one = socket.create_server((sys.argv[1], 7777)).accept()[0]
while one.recv(1 << 16): pass
"""
SOURCE = """
import socket, sys, time
while True:
    try:
        one = socket.create_connection((sys.argv[1], 7777))
        break
    except OSError:
        time.sleep(0.05)
while True:
    one.sendall(bytes(int(sys.argv[2]) // 800))
    time.sleep(0.01)
"""


def _addresses(lab: NetnsLab, node: int) -> list[str]:
    return lab.execute(node, ["ip", "-4", "-o", "addr", "show", "dev", "eth0"], COMMAND_S).stdout.splitlines()


@contextmanager
def detour(lab: NetnsLab) -> Iterator[None]:
    """On spine_leaf(racks=2,hosts_per_rack=2,spines=2), the way from rack 0 to h3 leads over the other spine."""
    assert isinstance(lab, FaultyLab)
    found = {node: lab.execute(node, ["ip", "route"], COMMAND_S).stdout for node in (LEAF0, SPINE0)}
    towards = {node: dict(_gateways(text)) for node, text in found.items()}
    h2, h3 = towards[SPINE0].keys() & towards[LEAF0].keys(), towards[LEAF0].keys() - towards[SPINE0].keys()
    (h2_address,), (h3_address,) = h2, h3
    for node, verb in ((SPINE0, "add"), (LEAF0, "replace")):
        lab.on_node(node, f"ip route {verb} {h3_address} via {towards[node][h2_address]}")
    yield


LEAF0, SPINE0 = 4, 6


def _gateways(routes: str) -> Iterator[tuple[str, str]]:
    """(destination, gateway) of each route that has one."""
    for words in map(str.split, routes.splitlines()):
        if words[1:2] == ["via"]:
            yield words[0], words[2]


@contextmanager
def late_clock(lab: NetnsLab) -> Iterator[None]:
    """The kernel may wake one worker 30 ms late: its timer slack, which is 0.05 ms unless somebody changes it."""
    worker = _latest(lab)
    Path(f"/proc/{worker}/timerslack_ns").write_text(str(SLACK_NS))
    yield


def _latest(lab: NetnsLab) -> int:
    """One of the processes that were launched last: each node's own first process is no worker, and PIDs begin anew
    when the last has been given."""
    return max(lab._pids().values(), key=_started)


def _started(pid: int) -> int:
    """When a process was started, in ticks since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
