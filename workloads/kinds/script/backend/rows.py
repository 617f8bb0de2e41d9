"""The report of a rank: a line of JSON for each collective, and lines about the script and its end.

Lines are written in batches by a thread of their own, never while a caller waits. A row is complete when the collective
is done and it is known whether the script waited for it: a script may wait long after that, or never. So rows of
collectives are held back for a moment, and the last ones are written at the end.
"""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.base.errors import TestbedError
from testbed.workloads.kinds.ranks import PAIRED
from testbed.workloads.kinds.script.backend.futures import is_chained
from testbed.workloads.rank_job import RankJob

if TYPE_CHECKING:
    from testbed.workloads.kinds.script.backend.watcher import Watcher

EVERY_S = 0.25
"""Time (s) between two writes of complete rows."""
HELD_S = 2.0
"""Time (s) for which a row waits for the script to wait for it."""
_TOLD = "is_told_by_testbed"
"""Name of an attribute that marks an error as reported with its collective."""
COMPILED = "allreduce"
"""Kind of all rows that C++ makes."""
LONGEST = 300
"""Limit on the characters of the error of a failed collective."""


class Row:
    """The row of one collective; moments are ``time.monotonic()``."""

    _waited_s = 0.0
    _is_unseen = _is_waited = False
    has_failed = False
    """Whether that has been told."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        fields["asked_s"] = fields["begun_s"] = time.monotonic()

    @property
    def op(self) -> str:
        return str(self._fields["op"])

    @property
    def nbytes(self) -> int:
        """The bytes of its array."""
        return int(self._fields["bytes"])

    @property
    def group(self) -> int:
        """The number of its group."""
        return int(self._fields["group"])

    @property
    def sequence(self) -> int:
        """Number of this collective among those of its group."""
        return int(self._fields["seq"])

    def asked(self, at_s: float) -> None:
        """Note when the script called it."""
        self._fields["asked_s"] = at_s

    def held(self, seconds: float) -> None:
        """Note for how long (s) the call held the script, which goes on now, or waits. A result that is there already
        is the script's from now on."""
        self._fields["asking_s"] = seconds
        if self.done_s is not None:
            self._fields["done_s"] = time.monotonic()

    def begun(self) -> None:
        """Note that it begins to move."""
        self._fields["begun_s"] = time.monotonic()

    def came(self) -> None:
        """Note that its first chunk from another process has come."""
        self._fields.setdefault("came_s", time.monotonic())

    def done(self) -> None:
        """Note that this rank has the result."""
        self._fields.setdefault("done_s", time.monotonic())

    def waited(self, since_s: float, *, for_it: bool = True) -> None:
        """Note that the script has waited since then, and goes on now. If it waited ``for_it`` alone, and not also for
        what is done with the result, the rank has the result now: before, its thread could not go on with it."""
        now_s = time.monotonic()
        self._waited_s += now_s - since_s
        self._is_waited = True
        if for_it and self.done_s is not None and self.done_s > since_s:
            self._fields["done_s"] = now_s

    def unseen(self) -> None:
        """Note that the script got a future, and that waits for it may not be seen."""
        self._is_unseen = True

    def chain(self) -> None:
        """Note that a callback at the end of another collective asked for it, so that only that callback's chain waits
        for it."""
        self._fields["chained"] = True
        self._is_unseen = True

    @property
    def done_s(self) -> float | None:
        """When the rank had the result; None if it has not yet."""
        return self._fields.get("done_s")

    @property
    def is_settled(self) -> bool:
        """Whether the row is complete: no more measurements are to come."""
        return self._is_waited and self.done_s is not None

    def line(self) -> dict[str, Any]:
        """Return the line that is written of it."""
        waited_s = None if self._is_unseen and not self._is_waited else self._waited_s
        return {"kind": "call", **self._fields, "waited_s": waited_s}


class _Asking(threading.local):
    """The collective that a thread is asking for: since when, for how long its pace has held it, and its row. As a
    context it times the thread; one within another, as of a collective that is made of others, changes nothing."""

    depth = 0
    since_s: float | None = None
    paced_s = 0.0
    row: Row | None = None

    def __enter__(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.since_s, self.paced_s = time.monotonic(), 0.0

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            if self.row is not None and self.since_s is not None:
                self.row.held(time.monotonic() - self.since_s - self.paced_s)
            self.since_s = self.row = None


class Rows:
    """The file of a rank. All methods may be called from any thread; after a fork, the child's write nothing."""

    def __init__(self, job: RankJob) -> None:
        self._job, self._pid = job, os.getpid()
        self._file = Path(job.samples).open("w")  # noqa: SIM115 - as long as the process
        self._begun: deque[Row] = deque()
        """Rows that the writer has not seen. Like numbers, they need no lock, for which a script would wait."""
        self._open: list[Row] = []
        """The writer's."""
        self._lines: list[Mapping[str, Any]] = []
        self._numbers: dict[tuple[int, bool], Iterator[int]] = defaultdict(count)
        self._compiled: Watcher | None = None
        self._totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._marks = 0
        self.asks: Callable[[str, int], None] | None = None
        """Callback before the script's own thread asks for a collective, with its kind and size; it may wait."""
        self._asking = _Asking()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._keep_writing, name="testbed-rows", daemon=True).start()

    def call(self, op: str, dtype: str, nbytes: int, ranks: int, **more: Any) -> Row:
        """Begin the row of a collective that the script asks for now; ``more`` are ``group`` (0 unless given), ``by``,
        ``root`` and ``other``."""
        here, is_of_chain = self._asking, is_chained()
        if self.asks is not None and not is_of_chain:
            before_s = time.monotonic()
            self.asks(op, nbytes)
            here.paced_s += time.monotonic() - before_s
        number = next(self._numbers[more.get("group", 0), op in PAIRED])  # else senders would count other ones
        fields = {"op": op, "dtype": dtype, "bytes": nbytes, "ranks": ranks, "group": 0, "by": "scheme", "seq": number}
        row = Row({**fields, **more})
        if is_of_chain:
            row.chain()
        elif here.since_s is not None and here.row is None:  # of several that it is made of, the first
            here.row = row
            row.asked(here.since_s + here.paced_s)
        self._begun.append(row)
        return row

    def join(self, compiled: Watcher, group: int, numbers: Iterator[int]) -> None:
        """Write rows that C++ makes of a group's sums, too; ``numbers`` has those of the group's other collectives."""
        self._compiled = compiled
        self._numbers[group, False] = numbers

    @property
    def is_open(self) -> bool:
        """Whether rows of C++'s are not complete yet."""
        return self._compiled is not None and self._compiled.is_open

    def asking(self) -> AbstractContextManager[None]:
        """Time a thread while it asks for a collective. Work before the collective has a row, such as a copy of its
        array, counts; waiting for a pace does not."""
        return self._asking

    def say(self, kind: str, **fields: Any) -> None:
        """Write a line of another kind."""
        with self._lock:
            self._lines.append({"kind": kind, **fields})

    def failed(self, row: Row, error: BaseException) -> None:
        """Note that a collective failed, whether the script goes on or not; only the first error of each is written."""
        with self._lock:
            if row.has_failed:
                return
            row.has_failed = True
        vars(error)[_TOLD] = True
        self.say("failed", op=row.op, group=row.group, seq=row.sequence, **_about(error))

    def refused(self, op: str, group: int, error: BaseException) -> None:
        """Note that a collective failed before it had a row; nothing is written about an error that a row has
        already."""
        if _TOLD not in vars(error):
            vars(error)[_TOLD] = True
            self.say("failed", op=op, group=group, **_about(error))

    def mark(self) -> None:
        """Note that an iteration of the script has ended."""
        with self._lock:
            self._lines.append({"kind": "mark", "iteration": self._marks, "time": time.monotonic()})
            self._marks += 1

    def log(self, values: Mapping[str, float]) -> None:
        """Note numbers that the script logs."""
        line = {"kind": "log", "iteration": self._marks, "time": time.monotonic(), "values": dict(values)}
        with self._lock:
            self._lines.append(line)

    def fail(self, problem: str, fix: str | None, *, elsewhere: bool) -> None:
        """Write why this rank ends; ``elsewhere`` if another one is the cause."""
        self.say("error", error=problem, fix=fix, elsewhere=elsewhere)
        self._write(everything=True)

    def close(self, **done: Any) -> None:
        """Write all that is left, and the last line. A second call does nothing."""
        if self._ended.is_set() or os.getpid() != self._pid:
            return
        self._ended.set()
        rss = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._write(everything=True)
        if self._compiled is not None:
            self._compiled.end()
            total = self._totals[COMPILED]
            total[:] = map(sum, zip(total, self._compiled.totals, strict=True))
        last = {"wire_bytes": None, "sent": None, "calls": self._totals, "max_rss_bytes": rss, **done}
        self.say("done", **last)
        self._write(everything=True)
        self._file.close()

    def _keep_writing(self) -> None:
        while not self._ended.wait(EVERY_S):
            self._write(everything=False)

    def _write(self, *, everything: bool) -> None:
        """Write lines, and rows of collectives that are complete; or all that are done."""
        if os.getpid() != self._pid:
            return
        before_s = time.monotonic() - HELD_S
        with self._writing:
            while self._begun:
                self._open.append(row := self._begun.popleft())
                total = self._totals[row.op]
                total[0] += 1
                total[1] += row.nbytes
            ready = [
                row
                for row in self._open
                if row.done_s is not None and (everything or row.is_settled or row.done_s < before_s)
            ]
            taken = set(map(id, ready))
            self._open = [row for row in self._open if id(row) not in taken]
            with self._lock:
                lines, self._lines = self._lines, []
            compiled = "" if self._compiled is None else self._compiled.take()
            if ready or lines or compiled:
                said = [*(row.line() for row in ready), *lines]
                self._file.write(compiled + "".join(f"{json.dumps(one)}\n" for one in said))
                self._file.flush()


def _about(error: BaseException) -> dict[str, Any]:
    """Return when something failed, and why."""
    said = error.problem if isinstance(error, TestbedError) else "".join(str(error).splitlines()[:1])
    return {"time": time.monotonic(), "error": f"{type(error).__name__}: {said}"[:LONGEST]}
