"""What a machine has that a run could leave behind or change: processes, namespaces, mounts, interfaces, settings.

Counts are exact where nobody else is: in namespaces of one's own, as PID 1 (:func:`privately`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed.lab.netns.kernel_interface import kernel

LIMIT = Path("/proc/sys/user/max_net_namespaces")
PLENTY = 1000
PRIVATE = ("--user", "--map-root-user", "--net", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
SHARED_MEMORY = Path("/dev/shm")
RULES = (("nft", "list", "ruleset"), ("iptables-save",), ("ip6tables-save",))
ROUTES = ("/proc/net/route", "/proc/net/ipv6_route", "/proc/net/fib_trie")
CHANGES_BY_ITSELF = ("nf_conntrack_count", "/neigh/", "route/flush")


def privately(arguments: Sequence[str]) -> int:
    """Run this program again as PID 1 of private namespaces with an empty ``/dev/shm``; its exit status."""
    own_memory = ["sh", "-c", f'mount -t tmpfs none {SHARED_MEMORY} && exec "$@"', "sh"]
    return subprocess.run(["unshare", *PRIVATE, *own_memory, sys.executable, *arguments], check=False).returncode


def state() -> dict[str, object]:
    """Mounts, interfaces, routes, firewall rules and net sysctls, as they must be again."""
    found: dict[str, object] = {
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
    }
    for name in ROUTES:
        with contextlib.suppress(OSError):  # a kernel without IPv6
            found[name] = Path(name).read_text()
    for command in RULES:
        if program := shutil.which(command[0], path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"):
            done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
            found[command[0]] = "\n".join(line for line in done.stdout.splitlines() if not line.startswith(("#", ":")))
    return found | dict(sysctls())


def sysctls() -> Iterator[tuple[str, object]]:
    """Every setting under net."""
    for path in sorted(Path("/proc/sys/net").rglob("*")):
        if path.is_file() and not any(part in str(path) for part in CHANGES_BY_ITSELF):
            with contextlib.suppress(OSError):  # some can only be written
                yield str(path), path.read_bytes()


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """What is not as it was."""
    names = sorted(before.keys() | after.keys())
    return [
        f"{name}: {before.get(name)!r} is {after.get(name)!r}" for name in names if before.get(name) != after.get(name)
    ]


def processes() -> dict[int, int]:
    """Parent by PID, without those that have ended and wait to be reaped."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            status, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if status != "Z":
                found[int(stat.parent.name)] = int(parent)
    return found


def reap() -> None:
    """Collect orphans, which come to PID 1."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def wait_until_alone(limit_s: float) -> list[str]:
    """Wait until no other process is there; the command lines of those that are after ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while left := processes().keys() - {os.getpid()}:
        reap()
        if time.monotonic() > deadline:
            return [_command_line(pid) for pid in left]
        time.sleep(0.005)
    return []


def wait_until_one_namespace(limit_s: float) -> bool:
    """Whether the kernel counts one network namespace, ours, within ``limit_s``: a second can be made under a limit of
    two."""
    LIMIT.write_text("2")
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    deadline = time.monotonic() + limit_s
    try:
        while True:
            try:
                kernel.unshare(kernel.CLONE_NEWNET)
                return True
            except OSError as error:
                if error.errno != errno.ENOSPC or time.monotonic() > deadline:
                    return False
                time.sleep(0.005)
    finally:
        kernel.setns(home, kernel.CLONE_NEWNET)
        os.close(home)
        LIMIT.write_text(str(PLENTY))


def _command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"{Path(f'/proc/{pid}/cmdline').read_text().replace(chr(0), ' ')}({status})"
    return f"process {pid}"
