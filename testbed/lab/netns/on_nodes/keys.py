"""Filter that keeps the kernel's keys of the user from a worker.

Problem: keyrings belong to a user, and no namespace keeps root's apart. A session keyring of its own
(KEYCTL_JOIN_SESSION_KEYRING in keyctl(2)) is not enough: a process can link the user's keyring into it, and then has
all that is there. Chosen: a filter of system calls (seccomp(2)), under which the three that reach keys do not exist, as
in a container of Docker's.
"""

from __future__ import annotations

import errno
from typing import Final

from testbed.lab.netns.kernel_interface import kernel

NUMBERS: Final = {
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


def instructions() -> list[tuple[int, int, int, int]]:
    """Instructions of the filter. On an architecture that is not known here it refuses all: a lab that does not start
    is noticed."""
    found = [(LOAD, 0, 0, ARCHITECTURE_AT)]
    for architecture, first in NUMBERS.items():
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


def hide() -> None:
    """Hide the keys from this process and all that it starts, for good. Raises OSError."""
    kernel.filter_calls(instructions())
