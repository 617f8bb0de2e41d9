"""SimGrid as a process of Debian's Python, for :mod:`.simgrid`. It imports nothing of testbed.

Sizes and rates are multiplied, as SimGrid takes whole numbers for sizes. Where a message ends, all others that end at
that moment are collected, some at a time: each question takes time for every one that it asks about.
"""

from __future__ import annotations

import json
import math
import sys
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from itertools import permutations
from typing import Any

SCALE = 2.0**20
HOSTS = 1024
"""Ends of connections: each pair of them is a connection of its own."""
AT_ONCE = 128
ARGUMENTS = (
    "simgrid",
    "--cfg=network/model:CM02",  # bytes over rates, with no model of TCP
    "--cfg=network/crosstraffic:0",
    "--cfg=surf/precision:1e-12",  # s; 1e-9 by itself, so that messages of 10 Gbit/s end in another order
    "--log=root.thresh:critical",
)


class Played:
    """The network in SimGrid."""

    def __init__(self, simgrid: Any, rates_bps: list[float]) -> None:
        self._simgrid, self._engine = simgrid, simgrid.Engine(list(ARGUMENTS))
        self._zone = simgrid.NetZone.create_full_zone("all")
        self._links = [
            self._zone.create_link(f"l{number}", rate_bps * SCALE).set_latency(0).seal()
            for number, rate_bps in enumerate(rates_bps)
        ]
        self._pairs = permutations([self._zone.create_host(f"h{i}", 1.0).seal() for i in range(HOSTS)], 2)
        self._ends: list[tuple[Any, Any]] = []
        self._paths: list[list[int]] = []
        self._waiting: list[deque[int]] = []
        self._active: dict[int, Any] = {}
        """What is sent now, by connection."""
        self._zone.seal()

    def run(self) -> None:
        """Answer until there are no more questions."""
        self._simgrid.Actor.create("main", self._engine.all_hosts[0], self._answer)
        self._engine.run()

    def connect(self, path: list[int]) -> None:
        src, dst = next(self._pairs)
        links = [self._simgrid.LinkInRoute(self._links[link]) for link in path]
        self._zone.add_route(src.netpoint, dst.netpoint, None, None, links, False)
        self._ends.append((src, dst))
        self._paths.append(path)
        self._waiting.append(deque())

    def send(self, connection: int, bits: float) -> None:
        self._waiting[connection].append(max(1, round(bits * SCALE)))  # SimGrid never ends a message of no bytes
        if connection not in self._active:
            self._begin(connection)

    def set_rate(self, link: int, rate_bps: float) -> None:
        """Change a rate. A message never gets faster than the links were when it began, so the rest begins anew."""
        self._links[link].set_bandwidth(rate_bps * SCALE)
        for connection in [each for each in self._active if link in self._paths[each]]:
            sent = self._active.pop(connection)
            self._waiting[connection].appendleft(max(1, round(sent.remaining)))
            sent.cancel()
            self._begin(connection)

    def _begin(self, connection: int) -> None:
        if self._waiting[connection]:
            size = self._waiting[connection].popleft()
            self._active[connection] = self._simgrid.Comm.sendto_async(*self._ends[connection], size)

    def _answer(self) -> None:
        print(json.dumps([0.0, []]), flush=True)
        for line in sys.stdin:
            until_s, asked = json.loads(line)
            for what, *arguments in asked:
                getattr(self, what)(*arguments)
            ended = sorted(self._ended(math.inf if until_s is None else until_s))
            for connection in ended:
                self._begin(connection)
            print(json.dumps([self._simgrid.Engine.clock, ended]), flush=True)

    def _ended(self, until_s: float) -> Iterator[int]:
        """Go on until messages end; yield the connections of all that have ended then."""
        left_s = until_s - self._simgrid.Engine.clock
        if not self._active:
            self._simgrid.this_actor.sleep_for(max(0.0, left_s))
            return
        if left_s <= 0:
            return
        numbers = list(self._active)
        first = self._simgrid.Comm.wait_any_for(list(self._active.values()), -1 if math.isinf(left_s) else left_s)
        if first < 0:
            return
        del self._active[numbers[first]]
        yield numbers[first]
        others = list(self._active.items())
        for begin in range(0, len(others), AT_ONCE):
            some = others[begin : begin + AT_ONCE]
            while some and (place := self._simgrid.Comm.test_any([sent for _, sent in some])) >= 0:
                connection = some.pop(place)[0]
                del self._active[connection]
                yield connection


def main() -> None:
    Played(import_module("simgrid"), json.loads(sys.stdin.readline())).run()


if __name__ == "__main__":
    main()
