"""Wait before a trial until the host and other programs leave the machine's cores, for they would spoil it.

A look is two readings of /proc/stat a little apart, less what this process and its children have used. The first
look of a trial goes back to the end of the trial before, whose results were saved meanwhile, and takes ``GLANCE_S`` at
most besides. So a calm machine costs a sweep of short trials nearly nothing. A kernel thread counts as another program:
what is left to clean up of the network before is better done first.

A machine that is never calm should not cost each trial the whole wait. After a wait in vain, the next one is at most
half as long; once the machine was calm, it is the whole again. Nothing here knows what a trial has measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from testbed.base.units import time_text
from testbed.machine import exclusive
from testbed.machine.monitor import read_cpu

GLANCE_S = 0.1
"""Seconds of a glance: of two cores that is 20 ticks of the kernel's clock, and one is 5 % of them."""
LOOK_S = 0.25
"""Seconds of each look that decides whether to wait on."""
BUSY = 0.15
"""Most of the cores' time that others may use. Trials that are VALID leave two to four times as much idle
(:data:`testbed.fidelity.cpu.IDLE`), and a desktop or a server at rest uses a few per cent."""

STOLEN = 0.05
"""Most of the CPU time that a hypervisor may take away, here and while gradients are on the wire."""


@dataclass(frozen=True)
class Reading:
    """CPU times in seconds, over all cores that we may use, since boot; ours include children that ended."""

    at_s: float
    idle_s: float
    steal_s: float
    total_s: float
    ours_s: float


@dataclass(frozen=True)
class Look:
    """Shares of the cores' time that other programs used, and that the host took; and whether another run has the
    machine to itself."""

    busy: float
    stolen: float
    taken: bool = False

    @property
    def is_calm(self) -> bool:
        return self.busy <= BUSY and self.stolen <= STOLEN and not self.taken

    def __str__(self) -> str:
        """Say what there is to wait for."""
        if self.taken:
            return "another run, which has this machine to itself"
        if self.stolen > STOLEN:
            return f"the host to give back the cores: {self.stolen:.0%} taken"
        return f"other programs to leave the cores: {self.busy:.0%} busy"


class Lookout:
    """Lookout for a calm machine between trials.

    Args:
        quiet_s: how long a wait takes at most; 0 does not look.
        read, sleep: for tests.
    """

    def __init__(
        self, quiet_s: float, read: Callable[[], Reading] | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._quiet_s = self._patience_s = quiet_s
        self._read, self._sleep = read or read_machine, sleep
        self._since: Reading | None = None

    def begin(self) -> None:
        """Note that from now on nothing of a trial runs."""
        self._since = self._read() if self._quiet_s else None

    def wait(self, tell: Callable[[str], None]) -> dict[str, Any] | None:
        """Wait until the machine is calm, or for as long as there is patience; ``tell`` is called with the reason.

        Returns:
            what a trial's record has of it: for how long, whether it was calm then, and what was seen at worst; None
            where nobody looks.
        """
        if not self._quiet_s:
            return None
        seen = worst = self._look(self._since or self._read(), GLANCE_S)
        assert self._since is not None
        began_s = self._since.at_s
        while not seen.is_calm and self._since.at_s - began_s < self._patience_s:
            tell(f"waiting for {seen}")
            seen = self._look(self._since, LOOK_S)
            worst = max(worst, seen, key=lambda one: (not one.is_calm, one.taken, one.busy + one.stolen))
        waited_s = self._since.at_s - began_s
        self._patience_s = self._quiet_s if seen.is_calm else self._patience_s / 2
        found = {"waited_s": round(waited_s, 3), "calm": seen.is_calm}
        return found | {"busy": round(worst.busy, 3), "stolen": round(worst.stolen, 3), "taken": worst.taken}

    def _look(self, since: Reading, least_s: float) -> Look:
        """Look at what there was from ``since`` until at least so much later."""
        now = self._read()
        if now.at_s - since.at_s < least_s:
            self._sleep(least_s - (now.at_s - since.at_s))
            now = self._read()
        self._since = now
        return replace(between(since, now), taken=exclusive.is_taken())


def between(first: Reading, last: Reading) -> Look:
    """Compute what others did between two readings; clocks that tick at different moments make it no less than
    nothing."""
    total_s = last.total_s - first.total_s
    if total_s <= 0:
        return Look(0.0, 0.0)
    idle_s, stolen_s = last.idle_s - first.idle_s, last.steal_s - first.steal_s
    others_s = total_s - idle_s - stolen_s - (last.ours_s - first.ours_s)
    return Look(max(0.0, others_s / total_s), stolen_s / total_s)


def sentence(waited: Mapping[str, Any] | None) -> str:
    """Write a record's wait for people; empty where there was none."""
    if not waited or not waited["waited_s"]:
        return ""
    vain = "" if waited["calm"] else " in vain"
    what = Look(waited["busy"], waited["stolen"], waited.get("taken", False))
    return f"waited {time_text(waited['waited_s'], measured=True)}{vain} for {what}"


def read_machine() -> Reading:
    """Take a reading now."""
    proc = Path("/proc")
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    counted = read_cpu((proc / "stat").read_text(), os.sched_getaffinity(0), ticks_per_s)
    return Reading(time.monotonic(), *counted, used_ticks(proc, os.getpid()) / ticks_per_s)


def used_ticks(proc: Path, root: int) -> int:
    """Count the CPU time of a process, all that descend from it, and those of theirs that have ended
    (proc_pid_stat(5))."""
    used: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in os.scandir(proc):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                continue
            fields = stat.rpartition(b")")[2].split()  # the name before may hold anything
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            used[int(entry.name)] = sum(map(int, fields[11:15]))
    found, left = 0, [root]
    while left:
        one = left.pop()
        found += used.get(one, 0)
        left += children.get(one, [])
    return found
