"""Round trips of small packets between two hosts of a lab, as a program sees them (``ping`` without ``-U`` does not).

Usage: ``python -m testbed.lab.netns.echo ADDRESS`` on one host answers until it is killed, and
``python -m testbed.lab.netns.echo OWN_ADDRESS ADDRESS COUNT GAP_S`` on another prints, as JSON, the times (s) of those
that came back.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import time

from testbed.errors import LabError
from testbed.lab.netns.lab import NetnsLab
from topologies.addressing import plan
from topologies.model import Topology

PORT = 8_900
"""Below the probe's and the engine's ports."""
PATIENCE_S = 1.0
START_TIMEOUT_S = 10.0
NUMBER = struct.Struct("=I60x")
COMMAND = (sys.executable, "-P", "-m", "testbed.lab.netns.echo")


def answer(address: str) -> None:
    """Send every packet back."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((address, PORT))
        print("ready", flush=True)
        while True:
            packet, sender = sock.recvfrom(NUMBER.size)
            sock.sendto(packet, sender)


def ask(local: str, remote: str, count: int, gap_s: float) -> list[float]:
    """Send ``count`` packets at least ``gap_s`` apart, each after the answer to the one before; their times (s)."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE_S)
        sock.bind((local, 0))
        sock.connect((remote, PORT))
        for number in range(count):
            sent_s = time.monotonic()
            sock.send(NUMBER.pack(number))
            try:
                while NUMBER.unpack(sock.recv(NUMBER.size))[0] != number:
                    continue  # an answer that was given up
            except TimeoutError:
                continue  # lost
            found.append(time.monotonic() - sent_s)
            time.sleep(max(0.0, sent_s + gap_s - time.monotonic()))
    return found


def round_trips_s(lab: NetnsLab, topology: Topology, src: int, dst: int, count: int, gap_s: float) -> list[float]:
    """Round trips (s) between two hosts of the network that is up, at the addresses of the way between them.

    Raises:
        LabError: no round trip could be made.
    """
    local, remote = plan(topology).flow(src, dst)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    ready, says = os.pipe()
    server = lab.attach(dst, [*COMMAND, remote], (null, says, null))
    os.close(says)
    try:
        select.select([ready], [], [], START_TIMEOUT_S)
        patience_s = START_TIMEOUT_S + count * (gap_s + PATIENCE_S)
        done = lab.execute(src, [*COMMAND, local, remote, str(count), str(gap_s)], patience_s)
        if done.status:
            raise LabError(f"no packet could be sent to {remote}: {done.stderr.strip()}")
        return list(json.loads(done.stdout))
    finally:
        server.signal(signal.SIGKILL)
        server.wait()
        os.close(ready)
        os.close(null)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        answer(sys.argv[1])
    else:
        print(json.dumps(ask(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))
