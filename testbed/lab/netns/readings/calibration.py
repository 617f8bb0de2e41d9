"""Measurements of an idle network: round trips of small packets, and bursts over links that no pair of hosts uses
alone.

The lab's first process forks a process for it. A socket stays in the namespace in which it was made, so this one
process holds both ends of every way. That makes a round trip one of packets, with no other process to be woken on the
way, and it needs nothing to run on a switch.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from testbed.lab.measurements import Burst, Way
from testbed.lab.netns.kernel_interface import kernel
from testbed.workloads.bursts.probe import finish, receive, send
from testbed.workloads.job import Probe

PINGS = 11
"""Number of round trips of each way, of which the median counts. Their packets fit the bucket of the slowest link."""
GAP_S = 0.001
"""The longest time between two packets of all ways together (s). The next one leaves as soon as all are back, which
takes a tenth of that where links have no delay, so none waits for another."""
PATIENCE_S = 1.0
"""Seconds to wait for an echo after the last packet, beyond twice the longest round trip so far."""
SMALL = struct.Struct("=I60x")
"""Layout of a ping: its number, in 64 bytes."""
TOGETHER_BPS = 2_000_000_000
"""Sum of the rates of bursts that are sent at once (bit/s): half of what one core moves."""
PORT = 9_000


class Namespaces:
    """Nodes' network namespaces, entered by number of node."""

    def __init__(self, descriptors: Mapping[int, int]) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC
        self._files = {node: os.open(f"{kernel.OWNER}/{number}", flags) for node, number in descriptors.items()}

    def enter(self, node: int) -> None:
        """Enter a node's namespace: sockets that are made from now on are this node's."""
        kernel.setns(self._files[node], kernel.CLONE_NEWNET)


def round_trips(ways: Sequence[Way], enter: Callable[[int], None]) -> list[list[float]]:
    """Measure, for each way, the times (s) of :data:`PINGS` packets there and back; those that did not come back are
    missing."""
    selector = selectors.DefaultSelector()
    ends = [_udp_pair(way, enter) for way in ways]
    for number, (near, far) in enumerate(ends):
        selector.register(near, selectors.EVENT_READ, number)
        selector.register(far, selectors.EVENT_READ, None)
    sent_s: list[float] = []
    found: list[list[float]] = [[] for _ in ways]
    back = 0

    def listen(until_s: float) -> None:
        nonlocal back
        while back < len(sent_s) and (left_s := until_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                packet = sock.recv(SMALL.size)
                if key.data is None:
                    sock.send(packet)
                else:
                    found[key.data].append(time.monotonic() - sent_s[SMALL.unpack(packet)[0]])
                    back += 1

    for number in range(PINGS * len(ways)):
        sent_s.append(time.monotonic())
        ends[number % len(ways)][0].send(SMALL.pack(number))
        listen(sent_s[-1] + GAP_S)
    listen(time.monotonic() + PATIENCE_S + 2 * max((max(one, default=0.0) for one in found), default=0.0))
    selector.close()
    for pair in ends:
        for sock in pair:
            sock.close()
    return found


def _udp_pair(way: Way, enter: Callable[[int], None]) -> tuple[socket.socket, socket.socket]:
    """Make sockets at both ends of a way, each of which sends to the other."""
    ends = []
    for node, address in ((way.src, way.local), (way.dst, way.remote)):
        enter(node)
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((address, 0))
        ends.append(sock)
    near, far = ends
    near.connect(far.getsockname())
    far.connect(near.getsockname())
    return near, far


def rates(bursts: Sequence[Burst], enter: Callable[[int], None]) -> list[float]:
    """Send bursts, a few at a time; the payload (bit/s) that arrives of each."""
    found = [0.0] * len(bursts)
    for batch in batches(bursts):
        for number, rate_bps in zip(batch, _at_once([bursts[number] for number in batch], enter), strict=True):
            found[number] = rate_bps
    return found


def batches(bursts: Sequence[Burst]) -> Iterator[list[int]]:
    """Yield the numbers of bursts that run at once: at least one, and more as long as they stay within
    :data:`TOGETHER_BPS`.

    No two go to and fro between the same nodes: acknowledgements would queue behind the other's data and come in
    clumps, and at 10 Mbit/s a burst of 0.5 s then seemed to run at 0.6 to 1.2 of its rate.
    """
    batch: list[int] = []
    for number, burst in enumerate(bursts):
        others = [bursts[other] for other in batch]
        fits = sum(other.rate_bps for other in others) + burst.rate_bps <= TOGETHER_BPS
        if others and not (fits and (burst.way.dst, burst.way.src) not in {(o.way.src, o.way.dst) for o in others}):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _at_once(bursts: Sequence[Burst], enter: Callable[[int], None]) -> list[float]:
    selector = selectors.DefaultSelector()
    receivers = []
    for number, burst in enumerate(bursts):
        enter(burst.way.dst)
        receivers.append(receive(_probe(burst.way.remote, burst.way.local, PORT + number, burst), selector))
    senders = []
    for number, burst in enumerate(bursts):
        enter(burst.way.src)
        senders.append(send(_probe(burst.way.local, burst.way.remote, PORT + number, burst), selector))
    finish(selector, max(burst.duration_s for burst in bursts))
    for sender in senders:
        sender.end()
    for key in list(selector.get_map().values()):  # what did not end in time
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    selector.close()
    return [receiver.arrivals.rate_bps for receiver in receivers]


def _probe(local: str, remote: str, port: int, burst: Burst) -> Probe:
    """Make one end of a burst."""
    return Probe(
        local, remote, remote, port, port, burst.rate_bps, burst.duration_s, datagram_bytes=burst.datagram_bytes
    )


def main(descriptors: Mapping[int, int], pings: Sequence[Way], bursts: Sequence[Burst]) -> int:
    """Measure, and write the answer on standard output, as JSON; returns 0.

    ``descriptors`` of the lab's first process hold the nodes' network namespaces, by node.
    """
    inside = Namespaces(descriptors)
    trips_s = round_trips(pings, inside.enter)
    found = {"pings": PINGS, "round_trips_s": trips_s, "rates_bps": rates(bursts, inside.enter)}
    with open(1, "w", closefd=False) as file:
        json.dump(found, file)
    return 0
