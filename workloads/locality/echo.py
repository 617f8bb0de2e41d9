"""Process that measures round trips between its host and all others, by UDP packets of 4 bytes that come back.

It runs as a worker does (:mod:`testbed.workloads.worker`). Hosts meet in rounds (:func:`.rounds`), with a barrier
before each. In a round both hosts of a pair probe each other at once: each sends a packet, waits for its answer, and
sends the next one. A packet has 14 bits of its number and 18 of its round (PHub thesis, section 5.2.2). The 10th
percentile counts. (The thesis sends 10,000 packets a pair by DPDK.)

Writes an ``echo`` line for each pair to the job's samples file.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from testbed.workloads.bursts.arrivals import bind
from testbed.workloads.bursts.probing import MeetingJob, run

ROUND_BITS, SEQUENCE_BITS = 18, 14
PACKET_BYTES = 4
SENT = 200
"""Packets to a host."""
PERCENTILE = 10
ANSWER_S = 1.0
"""Longest time for which an answer is waited for."""
SLOW, LEAST_WAIT_S = 4, 0.02
"""After the first answer, each is waited for this many times as long as for the slowest so far, and at least so long
(s), so that lost packets do not take much time."""
SILENT = 10
"""Unanswered packets in a row after which a host does not answer at all."""
_LARGEST_BYTES = 64
"""Bytes that are read of a packet: more than one of ours has."""


@dataclass(frozen=True)
class Meet:
    """A pair that this host is in: the number of the round, and the other host."""

    round: int
    peer: int
    local: str
    """Own IPv4 address on the way to the other host."""
    remote: str
    """The other host's IPv4 address on that way."""


@dataclass(frozen=True)
class EchoJob(MeetingJob):
    """Part of one host.

    Attributes:
        meets: pairs of this host, in the order of rounds: one a round at most.
        ports: UDP ports of all hosts: from which packets are sent, and at which they are answered.
    """

    measures = "echo"
    rounds: int
    meets: tuple[Meet, ...]
    ports: tuple[int, int]
    sent: int = SENT

    @classmethod
    def read(cls, raw: dict[str, Any]) -> EchoJob:
        return cls(
            **cls.fields(raw) | {"meets": tuple(Meet(**meet) for meet in raw["meets"]), "ports": tuple(raw["ports"])}
        )


@dataclass(frozen=True)
class Echoed:
    """Round trips to one host.

    Attributes:
        sent, answered: packets.
        left_out: packets that were no answer to the one that was waited for: late, doubled, or of another round.
        rtt_s: the 10th percentile; None if nothing was answered.
    """

    round: int
    peer: int
    sent: int
    answered: int
    left_out: int
    rtt_s: float | None


def packed(round_number: int, sequence: int) -> bytes:
    """Return a packet's 4 bytes."""
    return (sequence << ROUND_BITS | round_number).to_bytes(PACKET_BYTES, "big")


class Answering:
    """Threads that send packets back while this is entered, and count ``strangers``: packets of no pair of the host."""

    def __init__(self, meets: Sequence[Meet], ports: tuple[int, int]) -> None:
        """Open the sockets. Raises WorkerError: an address cannot be used."""
        self.strangers = 0
        self._expected = {meet.round: (meet.remote, ports[0]) for meet in meets}
        self._ended = False
        self._sockets = [_bound(local, ports[1]) for local in sorted({meet.local for meet in meets})]
        self._threads = [threading.Thread(target=self._answer, args=(sock,), daemon=True) for sock in self._sockets]

    def __enter__(self) -> Answering:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        for sock, thread in zip(self._sockets, self._threads, strict=True):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RD)  # wakes the thread, although a socket of UDP is not connected
            thread.join()
            sock.close()

    def _answer(self, sock: socket.socket) -> None:
        while True:
            try:
                data, source = sock.recvfrom(_LARGEST_BYTES)
            except OSError:  # an earlier answer could not be delivered
                data, source = b"", None
            if self._ended:
                return
            number = int.from_bytes(data, "big") & (1 << ROUND_BITS) - 1
            if len(data) != PACKET_BYTES or self._expected.get(number) != source:
                self.strangers += bool(source)
                continue
            with suppress(OSError):
                sock.sendto(data, source)


def probe(meet: Meet, ports: tuple[int, int], count: int = SENT) -> Echoed:
    """Send ``count`` packets to the other host of a pair, one after another.

    Raises:
        WorkerError: the address cannot be used.
    """
    times_s: list[float] = []
    left_out = silent = sequence = 0
    with _bound(meet.local, ports[0]) as sock:
        try:
            sock.connect((meet.remote, ports[1]))  # so the kernel drops what others send
        except OSError:  # no route leads there
            return Echoed(meet.round, meet.peer, 0, 0, 0, None)
        while sequence < count and silent < SILENT:
            wait_s = min(ANSWER_S, max(LEAST_WAIT_S, SLOW * max(times_s))) if times_s else ANSWER_S
            took_s, others = _sent(sock, packed(meet.round, sequence), wait_s)
            times_s += [] if took_s is None else [took_s]
            silent = silent + 1 if took_s is None else 0
            left_out += others
            sequence += 1
    rtt_s = float(np.percentile(times_s, PERCENTILE)) if times_s else None
    return Echoed(meet.round, meet.peer, sequence, len(times_s), left_out, rtt_s)


def _sent(sock: socket.socket, packet: bytes, wait_s: float) -> tuple[float | None, int]:
    """Send a packet; return the time (s) until its answer, if there is one, and how many other packets came."""
    left_out = 0
    begun_s = time.monotonic()
    with suppress(OSError):  # there is no way: no answer will come
        sock.send(packet)
    while (left_s := begun_s + wait_s - time.monotonic()) > 0:
        sock.settimeout(left_s)
        try:
            answer = sock.recv(_LARGEST_BYTES)
        except TimeoutError:
            break
        except OSError:  # nobody listens there yet, says its kernel
            time.sleep(min(left_s, LEAST_WAIT_S))
            continue
        if answer == packet:
            return time.monotonic() - begun_s, left_out
        left_out += 1
    return None, left_out


def _bound(local: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bind(sock, local, port)
    return sock


def measure(job: EchoJob, barrier: Callable[[], None]) -> Iterator[Echoed]:
    """Probe in all rounds. ``barrier`` returns once every host has called it as often.

    Raises:
        WorkerError: an address cannot be used.
    """
    by_round = {meet.round: meet for meet in job.meets}
    with Answering(job.meets, job.ports):
        for number in range(job.rounds):
            barrier()
            if number in by_round:
                yield probe(by_round[number], job.ports, job.sent)
        barrier()  # until then others want answers


def main(raw: dict[str, Any]) -> None:
    """Do the job that the JSON of its file tells."""
    run(EchoJob.read(raw), _echoes)


def _echoes(job: EchoJob, barrier: Callable[[], None]) -> Iterator[Mapping[str, Any]]:
    return ({"kind": "echo", **asdict(echoed)} for echoed in measure(job, barrier))
