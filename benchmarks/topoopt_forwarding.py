"""What a flow loses when other servers forward it: three circuits of a patch panel against one (TopoOpt, section 6).

Usage: ``python benchmarks/topoopt_forwarding.py``

Eight servers are a ring over two panels. One TCP flow goes from server 0 to server 1, over one circuit, and one to
server 3, which servers 1 and 2 forward in the kernel; in turn, so that other load disturbs both. Rates are of the
payload, from the first byte that arrives to the last, less the first tenth. The target is 0.97.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
import threading
import time

import ending

from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from testbed.topologies.model import Topology

SERVERS, RATE_BPS = 8, 100_000_000
NEAR, FAR = 1, 3
FLOWS = 5
FLOW_BYTES = 25_000_000
PORT, PIECE = 9999, 2**16
LIMIT_S = 30.0
TARGET = 0.97


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    parser.add_argument("--receive", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.send:
        return send(given.send)
    if given.receive:
        return receive(given.receive)
    ring = build(f"patch_panel(servers={SERVERS},degree=2)", rate_bps=RATE_BPS)
    hops = {to: len(ring.paths(0, to)[0].links) // 2 for to in (NEAR, FAR)}
    with NetnsLab() as lab:
        lab.up(ring, LinkSettings(), [(0, NEAR), (0, FAR)])
        rates = [[flow_bps(lab, ring, to) for to in (NEAR, FAR)] for _ in range(FLOWS)]
    near_bps, far_bps = (statistics.median(each) for each in zip(*rates, strict=True))
    ratio = statistics.median(far / near for near, far in rates)
    print(f"one flow over circuits of {RATE_BPS / 1e6:g} Mbit/s, Mbit/s of payload, medians of {FLOWS}")
    print(f"  over {hops[NEAR]} circuit {near_bps / 1e6:8.1f}\n  over {hops[FAR]} circuits{far_bps / 1e6:8.1f}")
    print(f"  ratio          {ratio:8.3f}\n  target         {TARGET:8.3f}   {'' if ratio >= TARGET else 'NOT '}reached")
    return 0 if ratio >= TARGET else 1


def flow_bps(lab: NetnsLab, ring: Topology, to: int) -> float:
    address = plan(ring).arrival(0, to)
    told: list[str] = []
    receiver = threading.Thread(target=lambda: told.append(command(lab, to, "--receive", address)))
    receiver.start()
    command(lab, 0, "--send", address)
    receiver.join()
    return float(told[0])


def command(lab: NetnsLab, server: int, *words: str) -> str:
    done = lab.execute(server, [sys.executable, __file__, *words], LIMIT_S)
    ending.with_command(words[0], done)
    return done.stdout


def send(address: str) -> int:
    until_s = time.monotonic() + LIMIT_S / 2
    while True:
        try:
            connection = socket.create_connection((address, PORT), LIMIT_S / 2)
            break
        except ConnectionRefusedError:  # the receiver is still starting
            if time.monotonic() > until_s:
                raise
            time.sleep(0.05)
    with connection:
        connection.sendall(bytes(FLOW_BYTES))
    return 0


def receive(address: str) -> int:
    """Print the rate of the payload."""
    count, begun_s, begun_at = 0, 0.0, 0
    with socket.create_server((address, PORT)) as server:
        server.settimeout(LIMIT_S)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(LIMIT_S)
            while piece := connection.recv(PIECE):
                count += len(piece)
                if not begun_s and count >= FLOW_BYTES / 10:
                    begun_s, begun_at = time.monotonic(), count
            print(8 * (count - begun_at) / (time.monotonic() - begun_s))
    return 0


if __name__ == "__main__":
    sys.exit(main())
