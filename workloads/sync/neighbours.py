"""Statistics of a worker's connections with its neighbours, iteration by iteration, for its samples."""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping

from testbed.workloads.sync.bundle import Sockets
from testbed.workloads.sync.tcp_info import BYTES, read, speed

SENT, BUSY, RTT, RATE = "sent_bytes", "busy_s", "rtt_s", "rate_bps"
COUNTS, NUMBERS = (f"{SENT}_*",), (f"{BUSY}_*", f"{RTT}_*", f"{RATE}_*")
"""Fields of a sample, by neighbour: payload that was sent to it, for how long there was some to send or to be
acknowledged, the round trip, and the delivery rate, which is missing where the application limited it. They end in the
neighbour's node, counted from 1."""
SAID_BYTES = 160
"""Most bytes of a line of samples that are about one neighbour."""


def of_node(field: str, node: int) -> str:
    """Name the field of a neighbour."""
    return f"{field}_{node + 1}"


class Neighbours:
    """Connections with all neighbours, which count from one look to the next."""

    def __init__(self, sockets: Sockets) -> None:
        self._sockets: Mapping[int, Collection[socket.socket]] = {
            node: [ends] if isinstance(ends, socket.socket) else ends for node, ends in sockets.items()
        }
        self._before = dict.fromkeys(self._sockets, (0, 0.0))
        self.look()

    def look(self) -> dict[str, float]:
        """Return the fields of a sample since the last look. Over parallel circuits to a neighbour, bytes and rates
        add up, and the longest times count.

        Raises:
            WorkerError: the kernel does not count or measure this.
        """
        fields: dict[str, float] = {}
        for node, ends in self._sockets.items():
            infos = [end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES) for end in ends]
            sent_bytes, speeds = sum(read(info)[0].payload_bytes for info in infos), [*map(speed, infos)]
            busy_s, (before_bytes, before_s) = max(each.busy_s for each in speeds), self._before[node]
            rates_bps = [each.rate_bps for each in speeds if each.rate_bps is not None]
            fields[of_node(SENT, node)] = sent_bytes - before_bytes
            fields[of_node(BUSY, node)] = round(busy_s - before_s, 6)
            fields[of_node(RTT, node)] = max(each.rtt_s for each in speeds)
            if len(rates_bps) == len(speeds):
                fields[of_node(RATE, node)] = sum(rates_bps)
            self._before[node] = sent_bytes, busy_s
        return fields
