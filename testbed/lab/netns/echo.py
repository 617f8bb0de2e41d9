"""Round trips of small packets between two hosts of a lab, as a program sees them (``ping`` without ``-U`` does not).

Usage: ``python -m testbed.lab.netns.echo ADDRESS`` on one host answers until it is killed, and
``python -m testbed.lab.netns.echo ADDRESS COUNT GAP_S`` on another prints, as JSON, the times (s) of those that came
back.
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


def ask(address: str, count: int, gap_s: float) -> list[float]:
    """Send ``count`` packets at least ``gap_s`` apart, each after the answer to the one before; their times (s)."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE_S)
        sock.connect((address, PORT))
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


def round_trips_s(lab: NetnsLab, asker: int, answerer: int, address: str, count: int, gap_s: float) -> list[float]:
    """Round trips (s) between two nodes of a lab, the second of which has this address.

    Raises:
        LabError: no round trip could be made.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    ready, says = os.pipe()
    server = lab.attach(answerer, [*COMMAND, address], (null, says, null))
    os.close(says)
    try:
        select.select([ready], [], [], START_TIMEOUT_S)
        patience_s = START_TIMEOUT_S + count * (gap_s + PATIENCE_S)
        done = lab.execute(asker, [*COMMAND, address, str(count), str(gap_s)], patience_s)
        if done.status:
            raise LabError(f"no packet could be sent to {address}: {done.stderr.strip()}")
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
        print(json.dumps(ask(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
