"""The agents of all hosts in use: asked together, their clocks compared all along, what they tell written down here."""

from __future__ import annotations

import base64
import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.errors import LabError
from testbed.foreign import parse_json
from testbed.lab.baremetal.connection import ANSWER_TIMEOUT_S, Connection
from testbed.lab.baremetal.network import translated
from testbed.lab.base import Exit
from testbed.monitor import CpuLog
from testbed.perturb.follower import LONGEST_LINE_BYTES
from testbed.shape import is_number

COMPARE_S = 1.0
"""How often clocks are compared while a lab is up; the host also takes it for a sign of life."""
FIRST_EXCHANGES = 10
MOMENTS = ("time", "start", "ready", "sum", "end")
"""Fields of a worker's lines that are on its host's clock."""


class Fleet:
    """Connections by node. What hosts tell of files is appended to local ones, on our clock and in the topology's
    addresses."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self.connections = tuple(connections)
        self._node = {id(one): node for node, one in enumerate(connections)}
        self._files: dict[tuple[int, str], Path] = {}
        self._rest: dict[tuple[int, str], bytes] = {}
        self._exits: queue.SimpleQueue[Exit] = queue.SimpleQueue()
        self._ended: dict[tuple[int, int], int] = {}
        self._changed = threading.Condition()
        self._lost: list[str] = []
        self.logs: dict[int, CpuLog] = {}
        self.logical: Mapping[str, str] = {}
        """For each address in use, that of the topology's plan."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._compare, name="clocks", daemon=True)

    def begin(self) -> None:
        """Compare clocks, and go on doing so."""
        for one in self.connections:
            for _ in range(FIRST_EXCHANGES):
                one.exchange()
        self._thread.start()

    def close(self) -> None:
        """Stop comparing; the connections are the caller's."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def ask(self, do: str, timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any) -> list[Any]:
        """The same of all at once; their results by node. Raises LabError."""
        return self.ask_each(do, [fields] * len(self.connections), timeout_s)

    def ask_each(
        self, do: str, fields: Sequence[Mapping[str, Any] | None], timeout_s: float = ANSWER_TIMEOUT_S
    ) -> list[Any]:
        """Of each its own, by node, at once; None asks nothing. Raises LabError."""
        pairs = [
            (one, None if f is None else one.begin(do, **f)) for one, f in zip(self.connections, fields, strict=True)
        ]
        return [None if answer is None else one.end(answer, timeout_s) for one, answer in pairs]

    def follow(self, node: int, name: str, path: Path) -> None:
        """What the node tells of its file ``name`` is to be appended to ``path``, which begins empty."""
        with suppress(FileNotFoundError):
            path.unlink()
        self._files[node, name] = path
        self._rest[node, name] = b""

    def exits(self) -> list[Exit]:
        """Workers that ended since the last call.

        Raises:
            LabError: a host is lost.
        """
        self.check()
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._exits.get_nowait())
        return found

    def check(self) -> None:
        """
        Raises:
            LabError: a host is lost.
        """
        if self._lost:
            raise LabError(
                "; ".join(self._lost), fix="see whether it is on and reachable; then go on with testbed run --resume"
            )

    def wait_ended(self, node: int, pid: int, timeout_s: float) -> int:
        """Status of a program that was started beside the workers.

        Raises:
            LabError: it did not end in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: (node, pid) in self._ended or self._lost, timeout_s):
                raise LabError(f"{self.connections[node].name}: a program did not end within {timeout_s:g} s")
            self.check()
            return self._ended[node, pid]

    def clocks(self) -> list[dict[str, float]]:
        """By node, what is to be added to its clock, and by how much that may be off (s)."""
        best = [one.clock.best() for one in self.connections]
        return [{"offset_s": one.offset_s, "uncertainty_s": one.uncertainty_s} for one in best]

    def on_event(self, connection: Connection, event: Mapping[str, Any]) -> None:
        """Called by a connection's thread."""
        node = self._node.get(id(connection))
        if node is None:
            return
        if "grown" in event:
            self._write(node, event["grown"], base64.b64decode(event["data"]))
        elif "exit" in event:
            local_s: Callable[[float], float] = connection.clock.local_s
            started_s, ended_s = local_s(event["started_s"]), local_s(event["ended_s"])
            self._exits.put(Exit(event["exit"], event["status"], started_s, ended_s))
        elif "cpu" in event:
            for at_s, *rest in event["cpu"]:
                self.logs.setdefault(node, CpuLog()).add(connection.clock.local_s(at_s), *rest)
        else:
            with self._changed:
                if "lost" in event:
                    self._lost.append(f"{connection.name}: the connection to its agent is lost ({event['lost']})")
                else:
                    self._ended[node, event["ended"]] = event["status"]
                self._changed.notify_all()

    def _write(self, node: int, name: str, data: bytes) -> None:
        path = self._files.get((node, name))
        if path is None:
            return
        if path.suffix == ".jsonl":
            *lines, rest = (self._rest[node, name] + data).split(b"\n")
            self._rest[node, name] = rest[-LONGEST_LINE_BYTES:]
            data = b"".join(self._ours(node, line) + b"\n" for line in lines)
        with suppress(FileNotFoundError), path.open("ab") as file:  # a trial that failed has removed its directory
            file.write(data)

    def _ours(self, node: int, line: bytes) -> bytes:
        """A sample's line on our clock, in the topology's addresses; as it is if it is none, as its reader says."""
        try:
            fields = parse_json(line, finite=False)
        except ValueError:
            return line
        if not isinstance(fields, dict):
            return line
        clock = self.connections[node].clock
        moved = {key: clock.local_s(value) for key, value in fields.items() if key in MOMENTS and is_number(value)}
        return json.dumps(translated(fields | moved, self.logical)).encode()

    def _compare(self) -> None:
        while not self._stop.wait(COMPARE_S):
            for one in self.connections:
                with suppress(LabError):  # who is lost is told of elsewhere
                    one.exchange()
