"""Limits of cores, memory and processes that the kernel sets for this process and its children.

A process lies in one control group (cgroup) of each hierarchy. Its own group limits it, and every group above does; the
least counts. A limit of CPU time is a quota: so much time in each period, after which all processes of the group stand
still until the next one begins (they are *throttled*). CPUs, by contrast, need no look here: the kernel keeps a
process's affinity within its cpuset, so that :func:`os.sched_getaffinity` knows both.

Version 1 has a hierarchy for each controller, version 2 one for all, and a machine may have both. Groups above the root
of a container, or of a cgroup namespace, cannot be seen from inside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MOST_BYTES = 1 << 20
"""The most bytes that are read of a file: a machine with a thousand mounts has a list of 200 KiB."""
ROOT = Path("/")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_NO_LIMIT = 1 << 62
"""Number from which a limit is none: version 1 has no word for *no limit*, and gives the largest number of whole pages
below 2^63."""


class Quota(NamedTuple):
    """A group that has a quota of CPU time: its directory, and the cores that it stands for."""

    directory: Path
    cores: float


@dataclass(frozen=True)
class Limits:
    """Limits of one process and its children; None where there is none.

    Attributes:
        cpus: how many CPUs it may run on, by its affinity and its cpuset.
        quotas: every group above it, its own included, that has a quota of CPU time.
        memory_bytes, memory_left_bytes: the least memory of any group, and the least that any group has left.
        processes: the least number of processes and threads of any group.
        is_known: its groups could be read; otherwise nothing is known of quotas.
    """

    cpus: int
    quotas: tuple[Quota, ...] = ()
    memory_bytes: int | None = None
    memory_left_bytes: int | None = None
    processes: int | None = None
    is_known: bool = True

    @property
    def quota_cores(self) -> float | None:
        """The least quota of any group."""
        return min((quota.cores for quota in self.quotas), default=None)

    @property
    def cores(self) -> float:
        """Number of cores that it may use at once in the long run: whole ones unless a quota is less than the CPUs."""
        return self.cpus if self.quota_cores is None else min(self.cpus, self.quota_cores)

    def as_json(self) -> dict[str, float | int | None]:
        """Limits for records: a quota that allows more than all CPUs is none."""
        quota = None if self.cores == self.cpus else self.cores
        return {"quota_cores": quota, "memory_bytes": self.memory_bytes, "processes": self.processes}


def limits(root: Path = ROOT) -> Limits:
    """Limits of this process; ``root`` is the directory in which ``proc`` is, and the mounts of control groups."""
    of_cpu, of_memory, of_pids = (_groups(controller, "self", root) for controller in ("cpu", "memory", "pids"))
    memory = [(group, most) for group in of_memory or () if (most := _memory_bytes(group)) is not None]
    return Limits(
        cpus=len(os.sched_getaffinity(0)),
        quotas=_quotas(of_cpu or ()),
        memory_bytes=min((most for _, most in memory), default=None),
        memory_left_bytes=min((max(0, most - _held_bytes(group)) for group, most in memory), default=None),
        processes=min(
            (most for group in of_pids or () if (most := _number(group, "pids.max")) is not None), default=None
        ),
        is_known=of_cpu is not None,
    )


def quotas_above(pid: int, root: Path = ROOT) -> tuple[Quota, ...] | None:
    """Quotas of the groups above that of another process, without its own; None where nothing is known of them."""
    groups = _groups("cpu", str(pid), root)
    return _quotas(groups[1:]) if groups else None


def _quotas(groups: Iterable[Path]) -> tuple[Quota, ...]:
    return tuple(Quota(group, cores) for group in groups if (cores := _quota_cores(group)) is not None)


def throttled_s(groups: Iterable[Path]) -> float | None:
    """Seconds for which these groups' quotas have kept processes from cores, summed over cores, since the groups were
    made; None if one cannot be read."""
    total_s = 0.0
    for group in groups:
        words = dict(line.split(maxsplit=1) for line in _text(group / "cpu.stat").splitlines() if " " in line)
        if "throttled_usec" in words:
            total_s += int(words["throttled_usec"]) / 1e6
        elif "throttled_time" in words:
            total_s += int(words["throttled_time"]) / 1e9
        else:
            return None
    return total_s


def _groups(controller: str, process: str, root: Path) -> list[Path] | None:
    """Directories of the groups that limit a process, its own first, as far up as they can be seen; None where it lies
    in groups that are mounted nowhere, so that nothing is known of them."""
    proc = root / "proc"
    memberships = _text(proc / process / "cgroup").splitlines()
    if not memberships:
        return []  # a kernel without control groups
    mounts = list(_mounts(_text(proc / "self" / "mountinfo")))
    own = [line.split(":", 2)[1:] for line in memberships if line.count(":") >= 2]
    version_1 = [path for controllers, path in own if controller in controllers.split(",")]
    version_2 = [path for controllers, path in own if not controllers]
    found = [_seen(mounts, controller, path, root) for path in version_1]
    if not version_1:
        found += [_seen(mounts, None, path, root) for path in version_2]
    return None if any(groups is None for groups in found) else [group for groups in found for group in groups or ()]


class _Mount(NamedTuple):
    """A mounted hierarchy: where, from which of its groups on, and its controllers, None for version 2."""

    point: str
    top: str
    controllers: frozenset[str] | None


def _mounts(text: str) -> Iterator[_Mount]:
    """Yield the hierarchies of control groups in the text of mountinfo (proc_pid_mountinfo(5))."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, about = before.split(), after.split()
        if len(fields) < 6 or len(about) < 3 or about[0] not in ("cgroup", "cgroup2"):
            continue
        top, point = (_ESCAPED.sub(lambda code: chr(int(code[1], 8)), field) for field in fields[3:5])
        yield _Mount(point, top, None if about[0] == "cgroup2" else frozenset(about[2].split(",")))


def _seen(mounts: Iterable[_Mount], controller: str | None, path: str, root: Path) -> list[Path] | None:
    """Directories of a group and of those above it, where its hierarchy is mounted; None where it is not to be seen."""
    for mount in sorted(mounts, key=lambda mount: len(mount.top)):  # the one that shows most
        is_it = mount.controllers is None if controller is None else controller in (mount.controllers or ())
        if not is_it or not _is_within(path, mount.top):
            continue
        top = root / mount.point.lstrip("/")
        below = [name for name in path.removeprefix(mount.top.rstrip("/")).split("/") if name]
        groups = [top.joinpath(*below[:depth]) for depth in range(len(below), -1, -1)]
        if groups[0].is_dir():
            return groups
    return None


def _is_within(path: str, top: str) -> bool:
    return ".." not in path.split("/") and f"{path.rstrip('/')}/".startswith(f"{top.rstrip('/')}/")


def _quota_cores(group: Path) -> float | None:
    """A group's own quota."""
    quota, _, period = _text(group / "cpu.max").strip().partition(" ")
    if not quota:
        quota, period = (_text(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() and int(period) else None


def _memory_bytes(group: Path) -> int | None:
    """A group's own limit."""
    found = [_number(group, name) for name in ("memory.max", "memory.limit_in_bytes")]
    return next((most for most in found if most is not None and most < _NO_LIMIT), None)


def _held_bytes(group: Path) -> int:
    """Memory that a group uses and would not give back at once, as caches of files that nobody has used of late."""
    used = next(filter(None, (_number(group, name) for name in ("memory.current", "memory.usage_in_bytes"))), 0)
    stat = dict(line.split(maxsplit=1) for line in _text(group / "memory.stat").splitlines() if " " in line)
    return used - int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))


def _number(group: Path, name: str) -> int | None:
    """A file's number; None where there is none, or ``max``."""
    text = _text(group / name).strip()
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    """A file of the kernel's; empty where there is none, or it is not for us."""
    with suppress(OSError), path.open("rb") as file:
        return file.read(MOST_BYTES).decode(errors="replace")
    return ""
