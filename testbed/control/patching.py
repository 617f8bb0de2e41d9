"""Moves of circuits while a trial runs, one after the other, beside everything else that happens to it.

They come from the schedule, through the conductor, and from the trial's own processes: a line such as ``{"kind":
"request", "rings": [1, 3]}`` in a process's samples file, with the keys of the perturbation ``circuits``. The forest
stays, and with it who sends to whom; traffic takes the new circuits by the new routes.

Requests are heard as a controller. A thread carries the moves out, for each takes as long as its circuits are dark.
"""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from testbed.base.errors import TestbedError
from testbed.control.conductor import Record
from testbed.control.feed import LOOK_S, Feed
from testbed.lab.base import Lab
from testbed.perturb.circuits import State
from testbed.perturb.events import Move
from testbed.perturb.registry import ASKED_IN_BAND, requested
from testbed.topologies.model import Topology


class Patching:
    """Controller that carries out moves in the lab; use in ``with``, around the conductor and the thread that asks
    both.

    Attributes:
        records: what was asked for in band, as it went.
        history: which circuits carried light, and when.
    """

    is_urgent = True

    def __init__(self, lab: Lab, topology: Topology) -> None:
        """Prepare to move circuits of ``topology``, which is up."""
        self._lab, self._topology = lab, topology
        self.records: list[Record] = []
        self.history: list[State] = [State(topology)]
        self._has_panels = topology.panels is not None
        self._heard = 0
        self._wanted: queue.SimpleQueue[tuple[Move, Record | None] | None] = queue.SimpleQueue()
        self._planned: tuple[Move, Topology] | None = None
        self._free_s = 0.0  # since when nothing has been under way, and the next move is worked out if it is known
        self._began_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="circuits", daemon=True)

    def __enter__(self) -> Patching:
        if self._has_panels:
            self._began_bytes = self._counted() or 0
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread. Whatever is still dark stays so: the lab goes down next, which ends a move that waits."""
        self._stop.set()
        self._wanted.put(None)

    def expect(self, move: Move) -> None:
        """Work out a move that will be the next."""
        self._wanted.put((move, None))

    def put(self, move: Move, record: Record) -> None:
        """Have a move carried out when those before it are done; ``record`` is told when that was, how long the move is
        meant to take, and when it begins and is done."""
        self._wanted.put((move, record))

    def look(self, feed: Feed) -> float:
        """Take in what processes ask for."""
        if not self._has_panels:
            return math.inf
        lines = feed.lines(self._heard)
        self._heard += len(lines)
        for line in lines:
            if line.said["kind"] == "request":
                self._ask(line.said)
        return LOOK_S

    def _ask(self, keys: Mapping[str, Any]) -> None:
        record = Record(ASKED_IN_BAND, "asked for in band", planned_s=time.monotonic())
        self.records.append(record)
        try:
            move = requested(keys)
        except ValidationError as error:
            record.error = f"request {json.dumps(keys)}: {error.errors()[0]['msg']}"
            return
        record.what = f"{move.words}, asked for in band"
        self.put(move, record)

    # The thread.

    def _work(self) -> None:
        while (wanted := self._wanted.get()) is not None and not self._stop.is_set():
            move, record = wanted
            try:
                if record is None:
                    self._plan(move)
                else:
                    self._carry_out(move, record)
            except TestbedError as error:
                if record is not None and not self._stop.is_set():
                    record.error = error.problem
            if record is not None:
                self._free_s = time.monotonic()

    def _counted(self) -> int | None:
        """Add up what all links have carried so far; None where the lab does not count it."""
        counts = [count.bytes for count in self._lab.counters()]
        return sum(counts) if counts else None

    def _plan(self, move: Move) -> Topology:
        if self._planned is None or self._planned[0] is not move:
            target = move.moved(self._topology)
            if not move.look_ahead:
                self._lab.plan_patch(target)
            self._planned = move, target
            self._free_s = time.monotonic()
        return self._planned[1]

    def _carry_out(self, move: Move, record: Record) -> None:
        record.takes_s = dark_s = move.dark_s(self._topology)
        target = self._plan(move)
        self._planned = None
        record.free_s = self._free_s if self._free_s > (record.planned_s or 0.0) else None
        record.begun_s = time.monotonic()
        if move.look_ahead:
            self._stop.wait(dark_s)
            done_s = time.monotonic()
        else:
            counted = self._counted()
            done = self._lab.patch(target, dark_s)
            done_s = done.lit_s
            carried = None if counted is None else counted - self._began_bytes
            self.history.append(State(target, done.dark_s, done.lit_s, counted_bytes=carried))
        self._topology, record.done_s = target, done_s
