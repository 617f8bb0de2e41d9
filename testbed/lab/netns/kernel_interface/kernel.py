"""System calls that Python 3.11 does not wrap: namespaces, mounts, dying with one's parent, and a filter of system
calls."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
NO_CORE_BYTES = 1
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SYS_MOUNT_SETATTR, AT_RECURSIVE, MOUNT_ATTR = 442, 0x8000, struct.Struct("=4Q")
"""Constants of mount_setattr(2). The call's number is the same on all architectures. Read-only and no devices have the
numbers that they have in mount(2)."""
SYS_FSOPEN, SYS_FSCONFIG, SYS_FSMOUNT = 430, 431, 432
FSOPEN_CLOEXEC, FSCONFIG_CMD_CREATE, FSMOUNT_CLOEXEC = 1, 6, 1
CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_KILL, CAP_SETGID, CAP_SETUID = 0, 1, 3, 5, 6, 7
CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW = 10, 12, 13
CAP_SYS_ADMIN = 21
CAPABILITIES = 64
"""Number of capabilities that the system call can name."""
CAPABILITY_VERSION = 0x20080522
"""Version of the format of :func:`keep_capabilities`: two words of 32 bits for each set."""
CAPABILITY_HEADER, CAPABILITY_SETS = struct.Struct("=Ii"), struct.Struct("=6I")

SOCK_FILTER, SOCK_FPROG = struct.Struct("=HBBI"), struct.Struct("@HP")
"""Layout of an instruction of a filter: what, how many to leave out if true, and if not, a constant; and of the filter:
how many instructions there are, and where."""

OWNER = "/proc/1/fd"
"""Folder with descriptors of the first process in the lab's PID namespace, the sandbox."""
SIGNALLED = 128
"""Number that, plus a signal's number, is the exit status of an end by that signal (the shell's convention)."""

_libc = ctypes.CDLL(None, use_errno=True)
KEY_CALLS: Final = {
    0xC000003E: 248,  # x86_64, and x32 with X32 in the number
    0x40000003: 286,  # i386
    0xC00000B7: 217,  # aarch64
    0x40000028: 309,  # arm
    0xC00000F3: 217,  # riscv64
    0xC0000102: 217,  # loongarch64
    0xC0000015: 269,  # ppc64le
    0x80000016: 278,  # s390x
}
"""Number of the first of add_key, request_key and keyctl, which follow each other, by architecture (linux/audit.h). A
process can call by the numbers of a second architecture, such as those of 32 bits."""
X32 = 0x40000000
LOAD, AND, EQUAL, NOT_LESS, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
"""Instructions of linux/bpf_common.h: the first reads a word of the call, the others work on it and a constant."""
NUMBER_AT, ARCHITECTURE_AT = 0, 4
"""Offsets in ``struct seccomp_data``."""
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOSYS


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


@contextmanager
def inside(network: int, home: int) -> Iterator[None]:
    """Be in a network namespace meanwhile, and after that in the one at ``home``; both are open files."""
    setns(network, CLONE_NEWNET)
    try:
        yield
    finally:
        setns(home, CLONE_NEWNET)


def mount(source: str, target: str, kind: str, flags: int, data: str | None = None) -> None:
    """Mount as mount(2). Raises OSError."""
    words = [os.fsencode(one) for one in (source, target, kind)]
    result = _libc.mount(*words, ctypes.c_ulong(flags), None if data is None else os.fsencode(data))
    _checked(result, f"mount {target}")


def restrict_mounts(target: str, flags: int) -> None:
    """Add options (``MS_RDONLY``, ``MS_NODEV``) to a mount and to all below it, reachable or not (mount_setattr(2),
    Linux 5.12). Raises OSError."""
    attributes = MOUNT_ATTR.pack(flags, 0, 0, 0)
    path = os.fsencode(target)
    result = _libc.syscall(SYS_MOUNT_SETATTR, -1, path, AT_RECURSIVE, attributes, ctypes.c_size_t(len(attributes)))
    _checked(min(result, 0), f"restrict {target}")


def proc() -> int:
    """Open a proc file system that is mounted nowhere (fsopen(2), fsmount(2), Linux 5.2). Raises OSError."""
    context = _opened(_libc.syscall(SYS_FSOPEN, b"proc", FSOPEN_CLOEXEC), "fsopen proc")
    try:
        _checked(_libc.syscall(SYS_FSCONFIG, context, FSCONFIG_CMD_CREATE, None, None, 0), "make a proc file system")
        return _opened(_libc.syscall(SYS_FSMOUNT, context, FSMOUNT_CLOEXEC, 0), "fsmount proc")
    finally:
        os.close(context)


def _opened(result: int, what: str) -> int:
    _checked(min(result, 0), what)
    return int(result)


def unmount(target: str) -> None:
    """Take ``target`` out of the tree at once; what still uses it keeps it. Raises OSError."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def sethostname(name: str) -> None:
    """Name the machine in the caller's UTS namespace. Raises OSError."""
    _checked(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends, however that happens."""
    _checked(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent ends. Raises OSError."""
    _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def hide_from_peers() -> None:
    """Let no process of the same user trace this one, or read its memory and files, until it runs another program.
    Raises OSError."""
    _checked(_libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def leave_no_core() -> None:
    """Have the kernel dump no memory of this process, nor of those that it starts, when they crash (core(5)). A limit
    of 0 is ignored where a program takes dumps, which runs as root outside of all namespaces; a limit of 1 is not, and
    no file can be so short."""
    _, hard_bytes = resource.getrlimit(resource.RLIMIT_CORE)
    most_bytes = 0 if hard_bytes == 0 else NO_CORE_BYTES
    resource.setrlimit(resource.RLIMIT_CORE, (most_bytes, most_bytes))


def keep_capabilities(kept: Iterable[int]) -> None:
    """Let go of all capabilities but these, for good: neither this process nor a program that it runs can gain others
    (capabilities(7), PR_SET_NO_NEW_PRIVS in prctl(2)). Raises OSError."""
    wanted = set(kept)
    for number in range(CAPABILITIES):
        if (
            number not in wanted
            and _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
            and ctypes.get_errno() != errno.EINVAL
        ):
            _checked(-1, f"drop capability {number}")  # EINVAL: the kernel knows no such capability
    _checked(_libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clear ambient capabilities")
    low, high = (sum(1 << number % 32 for number in wanted if number // 32 == word) for word in (0, 1))
    sets = CAPABILITY_SETS.pack(low, low, 0, high, high, 0)  # effective, permitted, inheritable, for either word
    _checked(_libc.capset(CAPABILITY_HEADER.pack(CAPABILITY_VERSION, 0), sets), "set capabilities")
    _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "set no_new_privs")


def has_capability(number: int) -> bool:
    """Whether this process has a capability (capabilities(7)) in effect."""
    status = Path("/proc/self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> number & 1)


def _key_filter() -> list[tuple[int, int, int, int]]:
    """Instructions of the filter, as in ``struct sock_filter``. On an architecture that is not known here it refuses
    all: a lab that does not start is noticed."""
    found = [(LOAD, 0, 0, ARCHITECTURE_AT)]
    for architecture, first in KEY_CALLS.items():
        found += [
            (EQUAL, 0, 6, architecture),
            (LOAD, 0, 0, NUMBER_AT),
            (AND, 0, 0, ~X32 & 0xFFFFFFFF),
            (NOT_LESS, 1, 0, first + 3),
            (NOT_LESS, 1, 0, first),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, REFUSE),
        ]
    return [*found, (RETURN, 0, 0, REFUSE)]


def hide_keys() -> None:
    """Hide the kernel's keys of the user from this process and all that it starts, for good (PR_SET_SECCOMP in
    prctl(2)). Raises OSError.

    Problem: keyrings belong to a user, and no namespace keeps root's apart. A session keyring of its own
    (KEYCTL_JOIN_SESSION_KEYRING in keyctl(2)) is not enough: a process can link the user's keyring into it, and then
    has all that is there. Chosen: a filter of system calls (seccomp(2)), under which the three that reach keys do not
    exist, as in a container of Docker's.
    """
    instructions = _key_filter()
    held = ctypes.create_string_buffer(b"".join(SOCK_FILTER.pack(*one) for one in instructions))
    program = SOCK_FPROG.pack(len(instructions), ctypes.addressof(held))
    _checked(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0), "filter system calls")
