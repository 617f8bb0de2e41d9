"""Checks of what this machine can do, with the command that enables what it cannot.

Whatever can be tried is tried, in a sandbox that vanishes with the check: a file that says that something is allowed is
not believed. A check is *needed* if without it no experiment runs, otherwise it enables something that is named.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from testbed.base.extras import pip
from testbed.capacity.advice import MEASURE, carried_text
from testbed.capacity.cache import known
from testbed.lab.choice import places
from testbed.lab.place import Prerequisite
from testbed.machine.cgroups import Limits, limits
from testbed.machine.kernel import sysctl
from testbed.workloads.bursts.datagrams import ROOM_BYTES
from testbed.workloads.kinds import kinds

LEAST_MEMORY_BYTES = 2 * 2**30
"""Bytes of memory for PyTorch once (0.4 GB) and nine workers of the quickstart (80 MB each), with room for the rest."""
LEAST_PROCESSES = 256
"""Processes and threads for nine workers of the quickstart with their threads, what starts and watches them, and room
for the rest."""
TOOLS = {
    "ping": ("iputils-ping", "latency, by hand, with testbed exec"),
    "iperf3": ("iperf3", "throughput, by hand, with testbed exec"),
    "tcpdump": ("tcpdump", "packets, by hand, with testbed exec"),
    "tc": ("iproute2", "shapers as the kernel shows them, by hand, with testbed exec"),
}


def checks() -> list[Prerequisite]:
    """Look at everything; takes about a second."""
    labs = [check for place in places().values() for check in place.checks()]
    found = known()
    carried = carried_text(found) if found.capacity else found.trouble or "not measured"
    # That nothing is known is no fault of the machine's.
    capacity = Prerequisite("capacity", found.capacity is not None, carried, None if found.capacity else MEASURE)
    return [*_machine(), capacity, *labs, *_pytorch(), *_tools(), *_of_kinds()]


def _machine() -> Iterator[Prerequisite]:
    here = limits()
    yield _cores(here)
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    yield _memory(here, int(fields["MemAvailable"].split()[0]) * 1024)
    yield from _processes(here)
    yield Prerequisite("kernel", True, f"{platform.system()} {platform.release()}")
    yield from _receive_buffers(sysctl("net.core.rmem_max"))


def _cores(here: Limits) -> Prerequisite:
    detail, enough = f"{here.cores:g} to use", here.cores >= 2
    fix = "run on a machine with more cores, or lower the links' rates until trials come out VALID"
    if here.cores < here.cpus:
        group = min(here.quotas, key=lambda quota: quota.cores).directory
        detail += f": {here.cpus} CPUs, and a quota of CPU time ({group})"
        fix = f"raise the quota (--cpus of a container, CPUQuota= of systemd, or in {group}), or {fix}"
    elif not here.is_known:
        detail += "; whether a quota limits them is not known, because control groups are not mounted"
    return Prerequisite("CPU cores", enough, detail, None if enough else fix)


def _memory(here: Limits, available: int) -> Prerequisite:
    wanted, limit = f"{LEAST_MEMORY_BYTES / 2**30:.0f} GiB wanted", ""
    if here.memory_bytes is not None and here.memory_left_bytes is not None:
        available = min(available, here.memory_left_bytes)
        limit = f" under a limit of {here.memory_bytes / 2**30:.1f} GiB"
    enough = available >= LEAST_MEMORY_BYTES
    fix = "end what uses memory, or run fewer workers"
    detail = f"{available / 2**30:.1f} GiB available{limit}, {wanted}"
    return Prerequisite("memory", enough, detail, None if enough else f"raise the limit, {fix}" if limit else fix)


def _processes(here: Limits) -> Iterator[Prerequisite]:
    """Check the limit of processes and threads, where a control group has one."""
    if here.processes is None:
        return
    enough = here.processes >= LEAST_PROCESSES
    detail = f"at most {here.processes:,} with their threads, {LEAST_PROCESSES} wanted"
    fix = "raise the limit (--pids-limit of a container, TasksMax= of systemd)"
    yield Prerequisite("processes", enough, detail, None if enough else fix)


def _receive_buffers(most: str | None) -> Iterator[Prerequisite]:
    """Check how much workers get of the room that they ask for: to take more, they would need a capability that they
    have not."""
    if most is None:  # in a container, older kernels do not say
        return
    ok = int(most) >= ROOM_BYTES
    detail = f"{int(most) >> 10} KiB for bursts over links that lose packets, {ROOM_BYTES >> 10} KiB wanted"
    yield Prerequisite("receive buffers", ok, detail, None if ok else f"sudo sysctl -w net.core.rmem_max={ROOM_BYTES}")


def _pytorch() -> Iterator[Prerequisite]:
    found = importlib.util.find_spec("torch") is not None
    fix = f"./setup.sh run, in the clone of testbed; or {pip()} install torch==2.13.0, which may take CUDA's gigabytes"
    yield Prerequisite("PyTorch", found, "installed" if found else "not installed", None if found else fix, needed=True)


def _of_kinds() -> Iterator[Prerequisite]:
    """Check for the tools that some trials of a kind need."""
    for tool in dict.fromkeys(tool for kind in kinds().values() for tool in kind.tools):
        found = tool.is_there
        yield Prerequisite(
            tool.name, found, f"{tool.use}: {'installed' if found else 'not installed'}", None if found else tool.fix
        )


def _tools() -> Iterator[Prerequisite]:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    for program, (package, use) in TOOLS.items():
        where = shutil.which(program, path=path)
        detail = f"{use}: {where or 'not found'}"
        yield Prerequisite(program, where is not None, detail, None if where else f"sudo apt-get install {package}")
