"""A worker that means harm: tries its tricks one by one, and prints which of them succeeded, as a JSON list.

Usage: ``python hostile.py OWN SOCKET``, with its own folder and a socket of the machine's, on which somebody listens

A trick that succeeds does no harm: it opens and does not write, or sets what is set.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
OWN, SOCKET = Path(sys.argv[1]), sys.argv[2]
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_BIND, MS_REMOUNT = 0x1000, 0x20
PTRACE_ATTACH = 16
NO_RESTART_BY_KEYS = 0
FEW = 8
BLOCK, CHARACTER = 0o60600, 0o20600


def call(name: str, *arguments: object) -> None:
    """A function of the C library that must not return -1."""
    if getattr(LIBC, name)(*arguments) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT))


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def any_disk() -> None:
    """A disk of the machine's, by its number, as a device of our own."""
    for line in Path("/proc/partitions").read_text().split("\n")[2:-1]:
        major, minor, *_ = line.split()
        os.mknod(OWN / "disk", BLOCK, os.makedev(int(major), int(minor)))
        os.open(OWN / "disk", os.O_RDONLY)
        return
    raise OSError("there is none")


def found(pattern: str) -> Path:
    for path in Path("/").glob(pattern):
        return path
    raise FileNotFoundError(pattern)


def others() -> None:
    """A process that is neither the node's first nor ours."""
    mine = {1, os.getpid()}
    for pid in (int(one.name) for one in Path("/proc").glob("[0-9]*")):
        if pid not in mine:
            os.kill(pid, signal.SIGKILL)
            return
    raise ProcessLookupError


def setuid_shell() -> None:
    """A program of root's that gives whoever runs it root's rights, in a folder where the machine would heed it."""
    program = OWN / "program"
    program.write_bytes(Path("/bin/sh").read_bytes())
    program.chmod(0o4755)
    if not os.statvfs(OWN).f_flag & os.ST_NOSUID:
        return
    raise PermissionError


def in_a_namespace(*words: str) -> None:
    run("unshare", "--user", "--map-root-user", "--mount", *words)


def connect(family: int, address: str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(2)
        one.connect(address)


def interfaces() -> None:
    """Those of others: the node's own are lo and ethN."""
    if all(one.name == "lo" or one.name.startswith("eth") for one in Path("/sys/class/net").iterdir()):
        raise PermissionError


def everybody() -> None:
    """End whatever a signal reaches, but for the machine's processes, should they be seen; the test looks whether other
    nodes' are."""
    if len(list(Path("/proc").glob("[0-9]*"))) > FEW:
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGTERM)
    raise PermissionError


TRICKS: dict[str, Callable[[], object]] = {
    "writes to /etc": partial(write, "/etc/hostile"),
    "writes to /usr": partial(write, "/usr/hostile"),
    "writes to the home": partial(write, str(Path.home() / "hostile")),
    "writes the machine's hosts": partial(write, "/etc/hosts"),
    "changes job files": partial(write, str(OWN.parent / "h1.json")),
    "writes to another's folder": partial(write, str(OWN.parent / "h1" / "hostile")),
    "removes another's folder": lambda: (OWN.parent / "h1").rmdir(),
    "sees the machine's interfaces": interfaces,
    "changes an interface's MTU": partial(write, "/sys/class/net/lo/mtu"),
    "uses control groups": lambda: (found("sys/fs/cgroup/*/cgroup.procs"), found("sys/fs/cgroup/**/release_agent")),
    "changes the kernel's settings": partial(write, "/proc/sys/kernel/core_pattern"),
    "asks for a crash": partial(write, "/proc/sysrq-trigger"),
    "reads the kernel's memory": lambda: os.read(os.open("/proc/kcore", os.O_RDONLY), 64)[0],
    "makes a disk": any_disk,
    "makes a device of memory": lambda: os.mknod(OWN / "memory", CHARACTER, os.makedev(1, 1)),
    "opens a disk": lambda: os.open(found("dev/[svx]d[a-z]"), os.O_RDONLY),
    "opens the kernel's log": lambda: os.open("/dev/kmsg", os.O_RDONLY),
    "makes / writable": partial(call, "mount", b"none", b"/", None, ctypes.c_ulong(MS_REMOUNT | MS_BIND), None),
    "uncovers /run": partial(call, "umount2", b"/run", 0),
    "makes / writable in a namespace": partial(in_a_namespace, "mount", "-o", "remount,bind,rw", "/"),
    "uncovers /run in a namespace": partial(in_a_namespace, "umount", "/run"),
    "leaves by the first process": lambda: list(Path("/proc/1/root").iterdir()),
    "enters the first process's network": lambda: call("setns", os.open("/proc/1/ns/net", os.O_RDONLY), CLONE_NEWNET),
    "makes a mount namespace": partial(call, "unshare", CLONE_NEWNS),
    "traces the first process": partial(call, "ptrace", PTRACE_ATTACH, 1, None, None),
    "reads the first process's memory": lambda: os.open("/proc/1/mem", os.O_RDONLY),
    "ends a process": others,
    "ends all processes": everybody,
    "connects to a service": partial(connect, socket.AF_UNIX, SOCKET),
    "connects to a service by its name": partial(connect, socket.AF_UNIX, f"\0{SOCKET}"),
    "has other hosts run programs": partial(connect, socket.AF_UNIX, "/run/testbed-agent"),
    "leaves a setuid program": setuid_shell,
    "takes the cores": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)),
    "gets before others": lambda: os.setpriority(os.PRIO_PROCESS, 0, -10),
    "raises its limits": lambda: resource.setrlimit(resource.RLIMIT_RTPRIO, (99, 99)),
    "sets the clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
    "names the machine": lambda: socket.sethostname(socket.gethostname()),
    "decides how the machine restarts": partial(call, "reboot", NO_RESTART_BY_KEYS),
    "loads a module": partial(call, "syscall", 313, -1, b"", 0),
    "takes an interface away": lambda: run("ip", "link", "set", "eth0", "down"),
    "unshapes its links": lambda: run("tc", "qdisc", "del", "dev", "eth0", "root"),
    "becomes more by a setuid program": lambda: run("mount", "-t", "tmpfs", "none", str(OWN)),
}


def main() -> None:
    succeeded = []
    with suppress(OSError):  # it may: of what is there, only what it is shown is the machine's
        write(str(OWN / ".." / ".." / "hostile"))
    for name, trick in TRICKS.items():
        try:
            trick()
        except (OSError, subprocess.SubprocessError, ValueError):
            continue
        succeeded.append(name)
    print(json.dumps(succeeded))


if __name__ == "__main__":
    main()
