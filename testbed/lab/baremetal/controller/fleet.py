"""The agents of all hosts in use: asks them together, compares their clocks all along, and writes down here what they
tell."""

from __future__ import annotations

import base64
import json
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from testbed.base.errors import HostError, LabError
from testbed.files.shape import is_number
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.answers import Ended, Event, Exited, Grown, Relayed
from testbed.lab.baremetal.controller.connection import ANSWER_TIMEOUT_S, Connection, Lost
from testbed.lab.baremetal.networks.network import translated
from testbed.lab.baremetal.on_hosts.host_requests import HostRequests
from testbed.lab.baremetal.on_hosts.processes import MOST_TOLD_BYTES
from testbed.lab.programs import Exit
from testbed.lab.requests import Call
from testbed.machine.monitor import CpuLog
from testbed.machine.processes import ProcessLog, Standing

_T = TypeVar("_T")
COMPARE_S = 1.0
"""Seconds between two comparisons of clocks while a lab is up; the host also takes one for a sign of life."""
FIRST_EXCHANGES = 10
MOMENTS = ("time", "start", "ready", "sum", "end", "asked_s", "begun_s", "came_s", "done_s")
"""Fields of a worker's lines that are on its host's clock."""
LONGEST_LINE_BYTES = 4 << 20
"""The most bytes of a line of a worker's samples."""
MOST_EVENTS, EVENTS_PER_S = 10_000, 10.0
"""Events, of ends and CPUs, that one host may tell at once, and in the long run (1/s): what is told is kept."""


class Fleet:
    """Connections by node. What hosts tell of files is appended to local ones, on our clock and in the topology's
    addresses. A host that says nothing for ``silent_s`` is lost."""

    def __init__(self, connections: Sequence[Connection], silent_s: float = math.inf) -> None:
        self.connections, self._silent_s = tuple(connections), silent_s
        self._node = {id(one): node for node, one in enumerate(connections)}
        self._files: dict[tuple[int, str], Path] = {}
        self._rest: dict[tuple[int, str], bytes] = {}
        self._told_bytes: Counter[tuple[int, str]] = Counter()
        self._exits: queue.SimpleQueue[Exit] = queue.SimpleQueue()
        self._processes: dict[str, int] = {}
        self._ended: dict[tuple[int, int], int] = {}
        self._changed = threading.Condition()
        self._lost: list[LabError] = []
        self._began_s = time.monotonic()
        self._events: Counter[int] = Counter()
        self._known: dict[str, int] = {}
        """Node on which each worker runs or ran."""
        self.logs: dict[int, CpuLog] = {}
        self.process_logs: dict[int, ProcessLog] = {}
        self.logical: Mapping[str, str] = {}
        """Address of the topology's plan, for each address in use."""
        self.relayed: Callable[[int, Relayed], None] | None = None
        """Takes what processes say at sockets, with their node; None if there are no such sockets."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._compare, name="clocks", daemon=True)

    def begin(self) -> None:
        """Compare clocks, and go on doing so in a thread."""
        for one in self.connections:
            for _ in range(FIRST_EXCHANGES):
                one.exchange()
        self._thread.start()

    def close(self) -> None:
        """Stop comparing; the connections are the caller's."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def ask(self, call: Call[_T], timeout_s: float = ANSWER_TIMEOUT_S) -> list[_T]:
        """Send the same request to all hosts at once; their results by node. Raises LabError."""
        return self.ask_each([call] * len(self.connections), timeout_s)

    def ask_each(self, calls: Sequence[Call[_T]], timeout_s: float = ANSWER_TIMEOUT_S) -> list[_T]:
        """Send each host its own request, all at once; their results by node. Raises LabError."""
        found = self.ask_some(dict(enumerate(calls)), timeout_s)
        return [found[node] for node in range(len(self.connections))]

    def ask_some(self, calls: Mapping[int, Call[_T]], timeout_s: float = ANSWER_TIMEOUT_S) -> dict[int, _T]:
        """Send some hosts a request each, all at once; their results by node. Raises LabError."""
        answers = {node: self.connections[node].begin(call, timeout_s) for node, call in calls.items()}
        return {node: self.connections[node].end(answer, timeout_s) for node, answer in answers.items()}

    def follow(self, node: int, name: str, path: Path) -> None:
        """Append what the node tells of its file ``name`` to ``path``, which begins empty."""
        with suppress(FileNotFoundError):
            path.unlink()
        self._files[node, name] = path
        self._rest[node, name] = b""
        self._told_bytes[node, name] = 0

    def tell(self, name: str, said: Mapping[str, Any]) -> None:
        """Add a line of JSON to the file of that name on every host, with its ``time`` on that host's clock. Raises
        LabError: a host is lost, or cannot write it."""
        lines = [json.dumps({**said, "time": one.clock.their_s(said["time"])}) + "\n" for one in self.connections]
        self.ask_each([HostRequests.put(name, base64.b64encode(one.encode()).decode(), more=True) for one in lines])

    def expect(self, process: str, node: int) -> None:
        """Note that a worker is started on a node, which may tell of its end, once."""
        self._processes[process] = self._known[process] = node

    def node_of(self, process: str) -> int | None:
        """Node that a worker runs on; None once its end was told."""
        return self._processes.get(process)

    def stopped(self) -> list[str]:
        """Workers that were stopped by a signal, each as its own host says."""
        told = self.ask(HostRequests.stopped())
        return [process for process, node in list(self._processes.items()) if process in told[node]]

    def cpu_s(self) -> dict[str, float]:
        """Processor time of workers, each as its own host says."""
        told = self.ask(HostRequests.cpu_s())
        return {name: told[node][name] for name, node in list(self._processes.items()) if name in told[node]}

    def kill(self) -> None:
        """End every worker; nobody tells of it."""
        self.ask(HostRequests.kill())
        self._processes.clear()

    def exits(self) -> list[Exit]:
        """Workers that ended since the last call. Raises LabError: a host is lost."""
        self.check()
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._exits.get_nowait())
        return found

    def check(self) -> None:
        """Raises LabError: a host is lost."""
        if self._lost:
            raise LabError("; ".join(one.problem for one in self._lost), fix=self._lost[0].fix)

    def wait_ended(self, node: int, pid: int, timeout_s: float) -> int:
        """Wait for the end of a program that was started beside the workers; its status. Raises LabError: it did not
        end in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: (node, pid) in self._ended or self._lost, timeout_s):
                raise LabError(f"{self.connections[node].name}: a program did not end within {timeout_s:g} s")
            self.check()
            return self._ended[node, pid]

    def clocks(self) -> list[dict[str, float]]:
        """Seconds to add to each node's clock, and by how much they may be off (s)."""
        best = [one.clock.best() for one in self.connections]
        return [{"offset_s": one.offset_s, "uncertainty_s": one.uncertainty_s} for one in best]

    def on_event(self, connection: Connection, event: Event | Lost) -> None:
        """Take an event; called by a connection's thread. Raises HostError: the host tells of what is not its own, or
        of too much."""
        node = self._node.get(id(connection))
        if node is None:
            return
        if isinstance(event, Grown):
            self._write(node, event.grown, event.data)
        elif isinstance(event, Relayed):
            if self.relayed is None:
                raise HostError("it tells of a socket, and has none", fix=answers.FIX)
            self.relayed(node, event)
        elif isinstance(event, Lost):
            with self._changed:
                self._lost.append(event.error)
                self._changed.notify_all()
        else:
            self._events[node] += 1
            told = self._events[node]
            if told > MOST_EVENTS + EVENTS_PER_S * (time.monotonic() - self._began_s):
                raise HostError(f"it tells of {told:,} things, more than can have happened", fix=answers.FIX)
            self._note(node, connection, event)

    def _note(
        self, node: int, connection: Connection, event: Exited | Ended | answers.Readings | answers.Looks
    ) -> None:
        """Raises HostError as :meth:`on_event` does."""
        if isinstance(event, Ended):
            with self._changed:
                self._ended[node, event.ended] = event.status
                self._changed.notify_all()
            return
        if not connection.clock.exchanges:
            raise HostError("it tells of moments before it said what its clock is", fix=answers.FIX)
        local_s: Callable[[float], float] = connection.clock.local_s
        if isinstance(event, answers.Looks):
            self._note_looks(node, event, local_s)
        elif not isinstance(event, Exited):
            for at_s, idle_s, steal_s, total_s, throttled_s in event.cpu:
                log = self.logs.setdefault(node, CpuLog())
                log.add(local_s(at_s), idle_s, steal_s, total_s, throttled_s)
        elif self._processes.get(event.exit) != node:
            raise HostError(f"it tells of the end of {event.exit}, which does not run there", fix=answers.FIX)
        else:
            del self._processes[event.exit]
            self._exits.put(Exit(event.exit, node, event.status, local_s(event.started_s), local_s(event.ended_s)))

    def _note_looks(self, node: int, event: answers.Looks, local_s: Callable[[float], float]) -> None:
        """Raises HostError: the host tells of what does not run there."""
        log = self.process_logs.setdefault(node, ProcessLog())
        for at_s, found in event.looks:
            now_s = local_s(at_s)
            log.look(now_s)
            for name, stopped_s, starved_s, waited_s, counts_waits in found:
                if self._known.get(name) != node:
                    raise HostError(f"it tells of {name}, which does not run there", fix=answers.FIX)
                standing = log.of.setdefault(name, Standing())
                standing.counts_waits |= counts_waits
                standing.add(now_s, stopped_s, starved_s, waited_s)

    def _write(self, node: int, name: str, data: bytes) -> None:
        """Append to the local file that was named when following began: a host names none. Raises HostError: no file of
        that name is followed there, or it is too large, or it has a line without end."""
        path = self._files.get((node, name))
        if path is None:
            raise HostError(f"it tells of its file {name[:200]!r}, which nobody follows", fix=answers.FIX)
        self._told_bytes[node, name] += len(data)
        if self._told_bytes[node, name] > MOST_TOLD_BYTES:
            raise HostError(f"it tells more than {MOST_TOLD_BYTES:,} bytes of its file {name[:200]!r}", fix=answers.FIX)
        if path.suffix == ".jsonl":
            *lines, rest = (self._rest[node, name] + data).split(b"\n")
            if len(rest) > LONGEST_LINE_BYTES:
                raise HostError(f"{path.name} has a line of more than {LONGEST_LINE_BYTES:,} bytes", fix=answers.FIX)
            self._rest[node, name] = rest
            data = b"".join(self._ours(node, line) + b"\n" for line in lines)
        with suppress(FileNotFoundError), path.open("ab") as file:  # a trial that failed has removed its directory
            file.write(data)

    def _ours(self, node: int, line: bytes) -> bytes:
        """Convert a sample's line to our clock and the topology's addresses; leave it as it is if it is no JSON object,
        as its reader says."""
        clock = self.connections[node].clock
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                return line
            moved = {key: clock.local_s(value) for key, value in fields.items() if key in MOMENTS and is_number(value)}
            return json.dumps(translated(fields | moved, self.logical)).encode()
        except (ValueError, RecursionError, OverflowError):
            return line

    def _compare(self) -> None:
        while not self._stop.wait(COMPARE_S):
            for one in self.connections:
                with suppress(LabError):  # who is lost is told of elsewhere
                    one.exchange(min(self._silent_s, ANSWER_TIMEOUT_S))
                one.give_up(self._silent_s)


class Started:
    """A program beside the workers (:class:`testbed.lab.programs.Running`), by its host and the number that this gave
    it."""

    def __init__(self, fleet: Fleet, node: int, pid: int) -> None:
        self._fleet, self._node, self._pid = fleet, node, pid

    def signal(self, number: int) -> object:
        return self._fleet.connections[self._node].ask(HostRequests.signal(number, self._pid))

    def wait(self, timeout_s: float) -> int:
        return self._fleet.wait_ended(self._node, self._pid, timeout_s)


class FleetMonitor:
    """Monitor of the hosts, as :class:`testbed.machine.monitor.Monitor`; ``log`` is that of the host with the least
    time to spare."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def __enter__(self) -> FleetMonitor:
        self._fleet.logs.clear()
        self._fleet.process_logs.clear()
        self._fleet.ask(HostRequests.watch(True))
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(LabError):  # who is lost is told of elsewhere
            self._fleet.ask(HostRequests.watch(False))

    @property
    def log(self) -> CpuLog:
        return min(self._fleet.logs.values(), key=_spare, default=CpuLog())

    @property
    def processes(self) -> ProcessLog:
        """Merge the logs of all hosts: a time in which any host was not looked at counts as not looked at."""
        logs = list(self._fleet.process_logs.values())
        return ProcessLog(
            of={name: one for log in logs for name, one in log.of.items()},
            looks=min((log.looks for log in logs), default=0),
            begun_s=max((log.begun_s for log in logs), default=0.0),
            looked_s=min((log.looked_s for log in logs), default=0.0),
            gaps=[gap for log in logs for gap in log.gaps],
        )


def _spare(log: CpuLog) -> float:
    """Idle share over all of a log, less the share of the time for which a quota kept processes from cores."""
    total_s, took_s = log.total_s[-1] - log.total_s[0], log.at_s[-1] - log.at_s[0]
    if not total_s or not took_s:
        return 1.0
    throttled_s = log.throttled_s[-1] - log.throttled_s[0]
    return (log.idle_s[-1] - log.idle_s[0]) / total_s - (0.0 if math.isnan(throttled_s) else throttled_s / took_s)
