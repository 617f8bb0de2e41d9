"""What this machine can do, and the command that enables what it cannot.

Whatever can be tried is tried, in a sandbox that vanishes with the check: a file that says that something is allowed is
not believed. A check is *needed* if without it no experiment runs, otherwise it enables something that is named.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from testbed.base.errors import LabError, MissingToolError, TestbedError
from testbed.capacity.advice import MEASURE, carried_text
from testbed.capacity.cache import Known, known
from testbed.experiment.provenance import PREFERRED, sysctl
from testbed.lab.baremetal.installed import check_installed as check_ansible
from testbed.lab.base import LinkSettings, Way
from testbed.lab.docker.lab import check_ready as check_docker
from testbed.lab.mininet.lab import check_installed as check_mininet
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.impairing import NETEM
from testbed.lab.netns.kernel import CAP_SYS_ADMIN, has_capability
from topologies.addressing import plan
from topologies.build import build
from workloads.datagrams import ROOM_BYTES
from workloads.kinds.library import installed as libraries

LEAST_MEMORY_BYTES = 2 * 2**30
"""PyTorch once (0.4 GB) and nine workers of the quickstart (80 MB each), with room for the rest."""
TOOLS = {
    "ping": ("iputils-ping", "latency, by hand, with testbed exec"),
    "iperf3": ("iperf3", "throughput, by hand, with testbed exec"),
    "tcpdump": ("tcpdump", "packets, by hand, with testbed exec"),
    "mpirun": ("openmpi-bin", "the scheme openmpi"),
    "tc": ("iproute2", "shapers as the kernel shows them, by hand, with testbed exec"),
}


TRIED_DELAY_S, TRIED_LINKS, TRIED_RATE_BPS = 0.001, 4, 100_000_000
TRIED = 4
"""Times the packets of one calibration."""
MOST_OFF_S = 0.001
"""Beyond this, delays of some milliseconds mean little; on two idle cores it is 0.1 ms."""


@dataclass(frozen=True)
class Prerequisite:
    """One thing looked at: whether it is as wished, what was found, and what to do if it is not."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None
    needed: bool = False


def checks() -> list[Prerequisite]:
    """Look at everything; takes about a second."""
    return [*_machine(), _capacity(known()), *_lab(), *_other_labs(), *_pytorch(), *_tools(), *_mpi4py()]


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


def _lab() -> Iterator[Prerequisite]:
    root = has_capability(CAP_SYS_ADMIN)
    how = "as root" if root else f"as user {os.geteuid()}, in a user namespace"
    try:
        with NetnsLab() as lab:
            yield Prerequisite("namespaces", True, f"made and left again, {how}", needed=True)
            yield _enclosure(lab)
            yield _qdisc(lab, "htb", "rates of links", needed=True)
            yield _impairments(lab)
            yield _congestion_control(lab.congestion_controls())
    except TestbedError as error:
        yield Prerequisite("namespaces", False, error.problem, error.fix, needed=True)


def _other_labs() -> Iterator[Prerequisite]:
    """Whether the labs beside ``netns``, which needs no more than what was looked at, are ready."""
    for name, check in (("mininet", check_mininet), ("docker", check_docker)):
        try:
            check()
            yield Prerequisite(f"lab {name}", True, f"--backend {name}: ready")
        except TestbedError as error:
            yield Prerequisite(f"lab {name}", False, f"--backend {name}: {error.problem}", error.fix)
    try:
        check_ansible()
        yield Prerequisite(
            "lab baremetal", True, "--inventory FILE: ready; whether its hosts are, testbed hosts prepare says"
        )
    except MissingToolError as error:
        yield Prerequisite("lab baremetal", False, f"--inventory FILE: {error.problem}", error.fix)


def _enclosure(lab: NetnsLab) -> Prerequisite:
    """Whether workers can be kept apart from the machine, with a copy on write of a command's folder."""
    try:
        lab.try_enclosure()
    except LabError as error:
        fix = "use Linux 5.12 or newer with CONFIG_SECCOMP_FILTER and overlayfs: modprobe overlay, as root"
        return Prerequisite("enclosures", False, error.problem, fix, needed=True)
    return Prerequisite("enclosures", True, "workers can be kept apart from the machine", needed=True)


def _qdisc(lab: NetnsLab, kind: str, what: str, *, needed: bool) -> Prerequisite:
    found = lab.has_qdisc(kind)
    detail = f"{what}: the kernel {'has' if found else 'has no'} {kind}"
    fix = f"sudo modprobe sch_{kind} (or a kernel built with CONFIG_NET_SCH_{kind.upper()})"
    return Prerequisite(kind, found, detail, None if found else fix, needed)


def _impairments(lab: NetnsLab) -> Prerequisite:
    """How links are delayed here, and how exact it is: round trips over two delayed links, each both ways."""
    topology = build("star(hosts=2)", rate_bps=TRIED_RATE_BPS, delay_s=TRIED_DELAY_S)
    name, what = "delays", "delay, jitter, loss and reordering of links"
    try:
        lab.require(topology, LinkSettings())
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        found = lab.calibrate([Way(0, 1, *plan(topology).flow(0, 1))] * TRIED, [])
        way = lab.impaired_by()
        lab.down()
    except (MissingToolError, LabError) as error:
        return Prerequisite(name, False, f"{what}: {error.problem}", error.fix)
    by = "the kernel's netem" if way["way"] == NETEM else "the delay line, for the kernel has no netem"
    took_s = [one_s for trips in found.round_trips_s for one_s in trips]
    if not took_s:
        return Prerequisite(name, False, f"{what}: by {by}, but no packet came back", "report this machine")
    asked_s = TRIED_LINKS * TRIED_DELAY_S
    off_s = statistics.median(took_s) - asked_s
    unprivileged = way.get("real_time") is False
    priority = "; without real-time priority, which needs root, less exact when cores are busy" if unprivileged else ""
    detail = f"{what}: by {by}; a round trip of {asked_s * 1e3:g} ms takes {off_s * 1e3:+.2f} ms more{priority}"
    fix = None if abs(off_s) <= MOST_OFF_S else "end what else uses the cores, and look again"
    return Prerequisite(name, fix is None, detail, fix)


def _congestion_control(allowed: list[str]) -> Prerequisite:
    """Whether workers may have the one that trials take by themselves."""
    ok = PREFERRED[0] in allowed
    fix = f'sudo sysctl -w net.ipv4.tcp_allowed_congestion_control="{" ".join([*allowed, PREFERRED[0]])}"'
    return Prerequisite("congestion control", ok, f"workers may choose {', '.join(allowed)}", None if ok else fix)


def _pytorch() -> Iterator[Prerequisite]:
    found = importlib.util.find_spec("torch") is not None
    fix = "make set-up, or: pip install torch==2.13.0"
    yield Prerequisite("PyTorch", found, "installed" if found else "not installed", None if found else fix, needed=True)


def _mpi4py() -> Iterator[Prerequisite]:
    found = importlib.util.find_spec(libraries.MPI4PY[0]) is not None
    detail = f"the scheme openmpi: {'installed' if found else 'not installed'}"
    yield Prerequisite(libraries.MPI4PY[0], found, detail, None if found else libraries.MPI4PY[1])


def _tools() -> Iterator[Prerequisite]:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    for program, (package, use) in TOOLS.items():
        where = shutil.which(program, path=path)
        detail = f"{use}: {where or 'not found'}"
        yield Prerequisite(program, where is not None, detail, None if where else f"sudo apt-get install {package}")
