"""Whether processes stood still or waited for a core, seen from outside: /proc, read on the side.

A process cannot be asked whether it was stopped: a script's rank has no code of ours that would know, and a program may
say anything. The kernel knows. ``/proc/PID/stat`` has the state, T or t of one that a signal or a debugger has stopped;
a cgroup's freezer has a file of its own; ``schedstat`` of each thread says for how long it was able to run and had no
core. They are read again and again, at random moments, because then the share of looks at which a process stood still
is the share of time for which it did, however short its stops are and whatever their rhythm is. A process that sleeps
because it wants to is in another state and does not count.

Files stay open, since opening one costs ten times as much as reading it. Between two looks the watch rests so long that
it takes at most :data:`SHARE` of a core: 9 ranks are looked at about 20 times a second, 64 about 4 times.
"""

from __future__ import annotations

import os
import random
import resource
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

PERIOD_S = 0.02
"""Mean time between two looks, unless that would cost too much."""
SHARE = 0.006
"""Most of a core that looking takes, by the clock of its thread."""
MEAN_OF = 20
"""Number of looks, about, of which the mean cost counts."""
LONGEST_S = 0.25
"""Longest mean time between two looks."""
REFRESH_S = 1.0
"""Seconds after which the children and threads of a process are looked up anew; of one process at each look, for it
takes a hundred times as long as a look."""
GAP_S = 0.5
"""Seconds between two looks from which on nobody watched in between."""
STARVED_S = 0.05
"""Seconds without a core at once from which a thread was kept from running; shorter waits are its turn in the queue.
Nine ranks that compute on two cores wait for 10 to 30 ms at a time."""
MOST_POINTS = 20_000
"""The most points of a process; of a longer trial every second one is left out, again and again."""
LEAST_S = 0.0002
"""Seconds of growth that are worth a point of its own."""
MOST_PROCESSES = 1024
"""The most processes of all trees together: what a program that starts others without end costs us."""
OF_FILES = 4
"""Divisor of the number of files that this process may open: one in so many is for this; others are opened at each
look."""
SMALL_BYTES = 128
"""Bytes that are read of a file: the state of a process is within its first 40 bytes, for a name has 15 at most."""
CHILDREN = Path("/proc/thread-self/children")
"""File of kernels that list children (CONFIG_PROC_CHILDREN)."""
STOPPED = frozenset(b"Tt")
GONE = frozenset(b"ZXx")


@dataclass
class Standing:
    """Time that one process and those that it started have lost, counted from the first look on, at moments of
    ``time.monotonic`` (all in seconds).

    Attributes:
        stopped_s: for how long one of them was stopped or frozen.
        starved_s: for how long, more than :data:`STARVED_S` at a time, a thread of the main process had no core.
        waited_s: for how long a thread of the main process waited for a core, of the thread that waited longest
            between each two looks; the main process is the first with more than one thread, or the first.
        counts_waits: whether the kernel counts these.
    """

    at_s: array[float] = field(default_factory=lambda: array("d"))
    stopped_s: array[float] = field(default_factory=lambda: array("d"))
    starved_s: array[float] = field(default_factory=lambda: array("d"))
    waited_s: array[float] = field(default_factory=lambda: array("d"))
    counts_waits: bool = False

    def add(self, at_s: float, stopped_s: float, starved_s: float, waited_s: float) -> None:
        """Note what was lost until ``at_s``. A point that says nothing new takes the place of the one before."""
        counted = (self.stopped_s, self.starved_s, self.waited_s)
        now = (stopped_s, starved_s, waited_s)
        if len(self.at_s) > 1 and all(value - one[-2] < LEAST_S for one, value in zip(counted, now, strict=True)):
            self.at_s[-1] = at_s
            for one, value in zip(counted, now, strict=True):
                one[-1] = value
            return
        self.at_s.append(at_s)
        for one, value in zip(counted, now, strict=True):
            one.append(value)
        if len(self.at_s) > MOST_POINTS:
            self.at_s = self.at_s[::2]
            self.stopped_s, self.starved_s, self.waited_s = (one[::2] for one in counted)

    def inside(self, windows: Sequence[tuple[float, float]], counted: Sequence[float]) -> np.ndarray:
        """Growth of one of the counts inside each window (start, end), float64[windows]."""
        edges = np.asarray(windows, np.float64).reshape(-1, 2)
        if len(self.at_s) < 2:
            return np.zeros(len(edges))
        grown = np.interp(edges, self.at_s, counted)
        return np.asarray(grown[:, 1] - grown[:, 0])


@dataclass
class ProcessLog:
    """Looks at processes, by name: their number ``looks``, the first of which was at ``begun_s``, the last at
    ``looked_s``; ``gaps`` are (from, to) moments between which nobody looked."""

    of: dict[str, Standing] = field(default_factory=dict)
    looks: int = 0
    begun_s: float = 0.0
    looked_s: float = 0.0
    gaps: list[tuple[float, float]] = field(default_factory=list)

    @property
    def looks_per_s(self) -> float:
        """Number of looks at all processes in a second."""
        return self.looks / (self.looked_s - self.begun_s) if self.looked_s > self.begun_s else 0.0

    def look(self, now_s: float) -> None:
        """Note that all processes were looked at."""
        if self.looks and now_s - self.looked_s > GAP_S:
            self.gaps.append((self.looked_s, now_s))
        self.begun_s = self.begun_s if self.looks else now_s
        self.looked_s = now_s
        self.looks += 1

    def unseen_s(self, start_s: float, end_s: float) -> float:
        """Seconds within a window in which nobody looked."""
        outside = [(start_s, self.begun_s), (self.looked_s, end_s)] if self.looks else [(start_s, end_s)]
        gaps = [*self.gaps, *((from_s, to_s) for from_s, to_s in outside if to_s - from_s > GAP_S)]
        unseen_s = 0.0
        for from_s, to_s in sorted(gaps):  # those of several machines may overlap
            unseen_s += max(0.0, min(end_s, to_s) - max(start_s, from_s))
            start_s = max(start_s, to_s)
        return unseen_s


def children_by_inner_pid(parent: int) -> dict[int, int]:
    """Find the children of the first process of a PID namespace, by the PIDs that they have there (``NSpid`` in
    proc_pid_status(5)); those that have ended are missing."""
    found = {}
    with suppress(OSError):  # it has ended
        depth = len(_namespaced(parent)) - 1
        for child in _children(parent):
            with suppress(OSError):  # as well
                pids = _namespaced(child)
                if len(pids) > depth:
                    found[pids[depth]] = child
    return found


def first_child(parent: int) -> int | None:
    """Find the first process that a process has started; None if there is none."""
    with suppress(OSError):  # it has ended
        return next(iter(_children(parent)), None)
    return None


def _namespaced(pid: int) -> list[int]:
    """A process's PIDs, from our namespace to its own. Raises OSError: it has ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(([int(word) for word in line.split()[1:]] for line in lines if line.startswith("NSpid:")), [])


def _children(pid: int) -> Iterator[int]:
    """Raises OSError: it has ended."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield from map(int, (task / "children").read_bytes().split())


def cpu_s(root: int) -> float:
    """Processor time of a process and of all that it has started; 0 if it has ended."""
    used_ticks, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):  # it has ended
            stat = Path(f"/proc/{pid}/stat").read_bytes()
            used_ticks += sum(
                map(int, stat[stat.rindex(b")") + 2 :].split()[11:15])
            )  # proc_pid_stat(5): utime to cstime
            waiting += _children(pid)
    return used_ticks / os.sysconf("SC_CLK_TCK")


class ProcessWatch:
    """Watch of processes and of all that they have started; where the kernel does not list the children of a process,
    of none. ``log`` has what was seen.

    Args:
        roots: by name, the PID of each process that is to be watched now.
    """

    def __init__(self, roots: Callable[[], Mapping[str, int]], clock: Callable[[], float] = time.monotonic) -> None:
        self.log = ProcessLog()
        self._roots = roots if CHILDREN.exists() else dict
        self._clock = clock
        self._trees: dict[str, _Tree] = {}
        self._cost_s = 0.0
        """CPU time of a look (s), as the mean of the last ones."""
        self._files = _Files()
        self._freezers = _Freezers(self._files)

    def look(self) -> float:
        """Look once; return how long (s) to wait until the next time."""
        began_s = time.thread_time()
        now_s = self._clock()
        self._follow(self._roots())
        oldest = min(self._trees.values(), key=lambda tree: tree.refreshed_s, default=None)
        for tree in self._trees.values():
            is_due = tree.refreshed_s < 0 or (tree is oldest and now_s - tree.refreshed_s > REFRESH_S)
            if is_due:
                tree.refresh(
                    now_s,
                    lambda pid: _Process(pid, self._files, self._freezers),
                    max(1, MOST_PROCESSES // len(self._trees)),
                )
            tree.look(now_s, every=is_due)
        self.log.look(now_s)
        self._cost_s += (time.thread_time() - began_s - self._cost_s) / MEAN_OF
        return min(LONGEST_S, max(PERIOD_S, self._cost_s / SHARE)) * random.uniform(0.5, 1.5)

    def close(self) -> None:
        """Close the files."""
        for tree in self._trees.values():
            tree.close()
        self._trees.clear()
        self._files.close()

    def _follow(self, roots: Mapping[str, int]) -> None:
        for name, pid in roots.items():
            tree = self._trees.get(name)
            if tree is None or tree.root != pid:
                if tree is not None:
                    tree.close()
                self._trees[name] = _Tree(pid, self.log.of.setdefault(name, Standing()))
        for name in self._trees.keys() - roots.keys():
            self._trees.pop(name).close()


class _Files:
    """Small files of /proc that are read again and again. As many stay open as leave others enough."""

    def __init__(self) -> None:
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // OF_FILES
        self._open: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """Read a file's beginning. Raises OSError: what it tells of has ended."""
        file = self._open.get(path)
        if file is not None:
            return os.pread(file, SMALL_BYTES, 0)
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if len(self._open) < self._most:
            self._open[path] = file
            return os.pread(file, SMALL_BYTES, 0)
        try:
            return os.pread(file, SMALL_BYTES, 0)
        finally:
            os.close(file)

    def close(self, paths: Iterable[str] | None = None) -> None:
        """Close the files at these paths, or all."""
        for path in list(self._open if paths is None else paths):
            if (file := self._open.pop(path, None)) is not None:
                os.close(file)


class _Freezers:
    """Whether cgroups are frozen, as ``docker pause`` does it: of version 1 by ``freezer.state``, of version 2 by
    ``cgroup.events``. Their processes seem to sleep."""

    def __init__(self, files: _Files, mounts: Path = Path("/proc/mounts")) -> None:
        self._files = files
        self._mounted: dict[bool, str] = {}
        """Mount point of each version, the second one under True."""
        for line in mounts.read_text().splitlines():
            _, place, kind, options, *_ = line.split()
            if kind == "cgroup2" or (kind == "cgroup" and "freezer" in options.split(",")):
                self._mounted.setdefault(kind == "cgroup2", place)

    def of(self, pid: int) -> tuple[str, ...]:
        """Find the files that say whether the process is frozen; the first cgroup has none, and cannot be. Raises
        OSError: it has ended."""
        found = []
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            is_second = number == "0" and not controllers
            if (is_second or "freezer" in controllers.split(",")) and is_second in self._mounted:
                name = "cgroup.events" if is_second else "freezer.state"
                found.append(f"{self._mounted[is_second]}{path}/{name}")
        return tuple(one for one in found if Path(one).exists())

    def is_frozen(self, file: str) -> bool:
        with suppress(OSError):  # the cgroup is gone
            said = self._files.read(file)
            return said.startswith((b"FROZEN", b"FREEZING")) or b"frozen 1" in said
        return False


@cache
def kernel_counts() -> bool:
    """Whether the kernel has filled in the ``schedstat`` of this process, which has run for a while."""
    with suppress(OSError):  # there is no such file
        return int(Path("/proc/self/schedstat").read_bytes().split()[0]) > 0
    return False


class _Process:
    """A process: its state, and its threads' waits for a core."""

    def __init__(self, pid: int, files: _Files, freezers: _Freezers) -> None:
        """Raises OSError: it has ended."""
        self._pid, self._files, self._freezers = pid, files, freezers
        self._frozen_by = freezers.of(pid)
        self._stat = f"/proc/{pid}/stat"
        self._threads: dict[int, str] = {}
        """Paths of the files that tell of the threads' waits, by thread."""
        self._waited_ns: dict[int, int] = {}
        self._busy: set[int] = set()
        """Threads that have waited since the last refresh but one; others are read at refreshes only."""

    def close(self) -> None:
        self._files.close([self._stat, *self._threads.values()])

    @property
    def threads(self) -> int:
        """Number of threads at the last refresh."""
        return len(self._threads)

    @property
    def counts_waits(self) -> bool:
        """Whether the kernel counts waits: it has counted one of its threads, or time of ours. A process may not have
        waited for a core yet."""
        return any(self._waited_ns.values()) or kernel_counts()

    def refresh(self) -> list[int]:
        """Find new threads; return the PIDs of its children. Raises OSError: it has ended."""
        children: list[int] = []
        known = {int(one.name) for one in Path(f"/proc/{self._pid}/task").iterdir()}
        for thread in self._threads.keys() - known:
            self._files.close([self._threads.pop(thread)])
            self._waited_ns.pop(thread, None)
        for thread in known:
            with suppress(ProcessLookupError, FileNotFoundError):  # the thread has ended
                children += map(int, Path(f"/proc/{self._pid}/task/{thread}/children").read_bytes().split())
                self._threads.setdefault(thread, f"/proc/{self._pid}/task/{thread}/schedstat")
        return children

    def is_stopped(self) -> bool | None:
        """Whether the process stands still; None if it has ended."""
        try:
            said = self._files.read(self._stat)
        except (ProcessLookupError, FileNotFoundError):
            return None
        state = said[said.rindex(b")") + 2] if b")" in said else 0
        if state in GONE or not state:
            return None
        return state in STOPPED or any(map(self._freezers.is_frozen, self._frozen_by))

    def waits_s(self, *, every: bool) -> tuple[float, float]:
        """Seconds for which a thread waited for a core since it was read last, the longest of ``every`` thread or of
        those that were busy lately; and the same of the busy ones alone, which were read at the last look."""
        longest_s = longest_busy_s = 0.0
        for thread in tuple(self._threads) if every else tuple(self._busy):
            try:
                waited_ns = int(self._files.read(self._threads[thread]).split()[1])
            except (OSError, KeyError, IndexError, ValueError):  # the thread has ended
                self._busy.discard(thread)
                continue
            more_s = (waited_ns - self._waited_ns.get(thread, waited_ns)) / 1e9
            self._waited_ns[thread] = waited_ns
            longest_s = max(longest_s, more_s)
            if thread in self._busy:
                longest_busy_s = max(longest_busy_s, more_s)
            if every:
                (self._busy.add if more_s > 0 else self._busy.discard)(thread)
        return longest_s, longest_busy_s


class _Tree:
    """A process, and all that it has started."""

    def __init__(self, root: int, standing: Standing) -> None:
        self.root, self._standing = root, standing
        self.processes: dict[int, _Process] = {}
        self._at_s: float | None = None
        self._was_stopped = False
        self.refreshed_s = -1.0
        last = [one[-1] if one else 0.0 for one in (standing.stopped_s, standing.starved_s, standing.waited_s)]
        self._stopped_s, self._starved_s, self._waited_s = last

    def close(self) -> None:
        for process in self.processes.values():
            process.close()
        self.processes.clear()

    def refresh(self, now_s: float, make: Callable[[int], _Process], most: int) -> None:
        """Look up which processes there are, ``most`` at most. Once the first has ended, another may get its PID."""
        found: dict[int, _Process] = {}
        waiting = [self.root] if self.refreshed_s < 0 else list(self.processes)
        self.refreshed_s = now_s
        while waiting and len(found) < most:
            pid = waiting.pop(0)
            if pid in found:
                continue
            try:
                process = self.processes.pop(pid, None) or make(pid)
            except OSError:  # it has ended
                continue
            found[pid] = process
            with suppress(OSError):  # it has ended
                waiting += process.refresh()
        for process in self.processes.values():
            process.close()
        self.processes = found

    def look(self, now_s: float, *, every: bool) -> None:
        """Note what was lost since the last look."""
        states = {pid: process.is_stopped() for pid, process in self.processes.items()}
        for pid in [pid for pid, state in states.items() if state is None]:
            self.processes.pop(pid).close()
        if not self.processes:
            return
        main = next((one for one in self.processes.values() if one.threads > 1), None)
        main = main or next(iter(self.processes.values()))
        waited_s, at_once_s = main.waits_s(every=every)
        is_stopped = any(states.values())
        if self._at_s is not None:
            between_s = now_s - self._at_s
            self._stopped_s += between_s * (is_stopped + self._was_stopped) / 2
            self._waited_s += min(waited_s, max(between_s, at_once_s))
            self._starved_s += at_once_s if at_once_s > between_s + STARVED_S else 0.0
        self._at_s, self._was_stopped = now_s, is_stopped
        self._standing.counts_waits |= main.counts_waits
        self._standing.add(now_s, self._stopped_s, self._starved_s, self._waited_s)
