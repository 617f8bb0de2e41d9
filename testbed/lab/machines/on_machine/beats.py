"""Small packets between machines, beside the tunnels: each reading of NICs sends some, and the next ones tell which of
them came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from testbed.lab.baremetal.on_hosts import pings

COPIES = 3
"""Packets that are sent for each number: if one is lost, that is no cut."""
MOST_TAKEN = 1000
"""The most packets that are taken at once; others wait, or are lost."""


class Beats:
    """Numbers that machines send each other.

    Args:
        address: this machine's, on the NIC that leads to others.
    """

    def __init__(self, address: str) -> None:
        self._socket = pings.bound(address)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    def send(self, number: int, to: Sequence[tuple[str, int]]) -> None:
        """Send a number to machines, by address and port."""
        for end in to:
            for _ in range(COPIES):
                with suppress(OSError):  # such as that there is no way: the other one does not hear it
                    self._socket.sendto(number.to_bytes(8, "big"), end)

    def heard(self) -> dict[str, list[int]]:
        """Return the numbers that came since the last call, by the address that they came from."""
        found: defaultdict[str, set[int]] = defaultdict(set)
        for _ in range(MOST_TAKEN):
            try:
                data, (address, _) = self._socket.recvfrom(16)
            except BlockingIOError:
                break
            except OSError:  # what an earlier packet met
                continue
            if len(data) == 8:
                found[address].add(int.from_bytes(data, "big"))
        return {address: sorted(numbers) for address, numbers in found.items()}
