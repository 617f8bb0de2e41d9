"""What this machine can do, and the command that enables what it cannot.

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

from testbed.capacity.advice import MEASURE, carried_text
from testbed.capacity.cache import Known, known
from testbed.experiment.provenance import sysctl
from testbed.lab.choice import places
from testbed.lab.place import Prerequisite
from workloads.datagrams import ROOM_BYTES
from workloads.kinds import kinds

LEAST_MEMORY_BYTES = 2 * 2**30
"""PyTorch once (0.4 GB) and nine workers of the quickstart (80 MB each), with room for the rest."""
TOOLS = {
    "ping": ("iputils-ping", "latency, by hand, with testbed exec"),
    "iperf3": ("iperf3", "throughput, by hand, with testbed exec"),
    "tcpdump": ("tcpdump", "packets, by hand, with testbed exec"),
    "tc": ("iproute2", "shapers as the kernel shows them, by hand, with testbed exec"),
}


def checks() -> list[Prerequisite]:
    """Look at everything; takes about a second."""
    labs = [check for place in places().values() for check in place.checks()]
    return [*_machine(), _capacity(known()), *labs, *_pytorch(), *_tools(), *_of_kinds()]


def _machine() -> Iterator[Prerequisite]:
    cores = len(os.sched_getaffinity(0))
    fix = "run on a machine with more cores, or lower the links' rates until trials come out VALID"
    yield Prerequisite("CPU cores", cores >= 2, f"{cores} to use", None if cores >= 2 else fix)
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    enough = available >= LEAST_MEMORY_BYTES
    detail = f"{available / 2**30:.1f} GiB available, {LEAST_MEMORY_BYTES / 2**30:.0f} GiB wanted"
    yield Prerequisite("memory", enough, detail, None if enough else "end what uses memory, or run fewer workers")
    yield Prerequisite("kernel", True, f"{platform.system()} {platform.release()}")
    yield from _receive_buffers(sysctl("net.core.rmem_max"))


def _receive_buffers(most: str | None) -> Iterator[Prerequisite]:
    """What workers get of the room that they ask for: to take more, they would need a capability that they have not."""
    if most is None:  # in a container, older kernels do not say
        return
    ok = int(most) >= ROOM_BYTES
    detail = f"{int(most) >> 10} KiB for bursts over links that lose packets, {ROOM_BYTES >> 10} KiB wanted"
    yield Prerequisite("receive buffers", ok, detail, None if ok else f"sudo sysctl -w net.core.rmem_max={ROOM_BYTES}")


def _capacity(found: Known) -> Prerequisite:
    """What is known of what this machine carries; that nothing is known is no fault of the machine's."""
    detail = carried_text(found) if found.capacity else found.trouble or "not measured"
    return Prerequisite("capacity", found.capacity is not None, detail, None if found.capacity else MEASURE)


def _pytorch() -> Iterator[Prerequisite]:
    found = importlib.util.find_spec("torch") is not None
    fix = "make set-up, or: pip install torch==2.13.0"
    yield Prerequisite("PyTorch", found, "installed" if found else "not installed", None if found else fix, needed=True)


def _of_kinds() -> Iterator[Prerequisite]:
    """What some trials of a kind need."""
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
