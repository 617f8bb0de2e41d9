"""Ports on loopback that no other test process of this machine uses meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle

FIRST, LAST = 10_000, 32_000
"""Below the ephemeral ones."""
ROOM = 1000


@cache
def _claimed() -> tuple[socket.socket, int]:
    """A name that the kernel gives to one process only, until that ends, and the first port that it stands for."""
    for first in range(FIRST, LAST, ROOM):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0testbed's tests have ports {first} to {first + ROOM - 1}")
        except OSError:
            claim.close()
        else:
            return claim, first
    raise RuntimeError(f"all ports from {FIRST} to {LAST} are in use by {(LAST - FIRST) // ROOM} test processes")


def blocks(size: int) -> Iterator[int]:
    """The first of ``size`` ports, again and again; those that were given longest ago come again."""
    _, first = _claimed()
    yield from cycle(range(first, first + ROOM - size + 1, size))
