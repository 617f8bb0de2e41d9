"""A program that calls the lab to hold it up, says ``ready`` then, and stays.

Usage: ``python hold_up.py lingering|silent|limiting``
"""

from __future__ import annotations

import os
import resource
import socket
import struct
import sys
import time
from contextlib import suppress

AGENT = "/run/testbed-agent"
ATTEMPTS, SILENT = 8, 600
HOURS = 3600


def call() -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    found.settimeout(1)
    found.connect(AGENT)
    return found


def lingering() -> None:
    """Hand over a connection that is full, whose close waits for its data, and close our own end before that arrives;
    as we may be late, several times."""
    for _ in range(ATTEMPTS):
        if os.fork() == 0:
            with socket.create_server(("127.0.0.1", 0)) as listening:
                full = socket.create_connection(listening.getsockname())
                reader, _ = listening.accept()
            full.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    full.send(bytes(1 << 16))
            full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, HOURS))
            one = call()
            socket.send_fds(one, [b'["h1", 3]'], [full.fileno()])
            full.close()
            time.sleep(HOURS)
            reader.close()
    time.sleep(1)


def silent() -> None:
    """Call and say nothing, as often as anybody listens."""
    patience = 10
    while patience and len(kept) < SILENT:
        try:
            kept.append(call())
        except BlockingIOError:  # too many wait
            time.sleep(0.1)
            patience -= 1


def limiting() -> None:
    """Leave the node's first process no open files and a second of processor time, and have it use that second."""
    for limit, most in ((resource.RLIMIT_NOFILE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CPU, 1)):
        resource.prlimit(1, limit, (most, most))
    if os.fork() == 0:
        while True:
            with suppress(OSError), call() as one:
                one.send(b"[" * 60_000)


kept: list[socket.socket] = []

if __name__ == "__main__":
    {"lingering": lingering, "silent": silent, "limiting": limiting}[sys.argv[1]]()
    print("ready", flush=True)
    time.sleep(HOURS)
