"""The few system calls that Python 3.11 does not wrap: namespaces, mounts, and dying with one's parent."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
CAP_SYS_ADMIN = 21

SIGNALLED = 128
"""This plus a signal's number is the exit status that tells of an end by that signal (the shell's convention)."""

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Move the calling thread (PID namespace: its next children) into fresh namespaces. Raises OSError."""
    _checked(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Move the calling thread into the namespace that ``fd`` holds. Raises OSError."""
    _checked(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str, flags: int) -> None:
    """mount(2) without data. Raises OSError."""
    _checked(
        _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None), f"mount {target}"
    )


def unmount(target: str) -> None:
    """Take ``target`` out of the tree at once; what still uses it keeps it. Raises OSError."""
    _checked(_libc.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def sethostname(name: str) -> None:
    """Name the machine in the caller's UTS namespace. Raises OSError."""
    _checked(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends, however that happens."""
    _checked(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def has_capability(number: int) -> bool:
    """Whether this process has a capability (capabilities(7)) in effect."""
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> number & 1)
