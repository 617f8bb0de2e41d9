"""Conductor of a schedule: carries it out while a trial runs, and records when each event was due, begun and done.

A controller, in the thread beside the one that waits for the workers. Moments count from the line that rank 0 writes
when its first iteration begins, and iterations from those that it (once it is killed, the next one) writes at each end;
it is asked every few milliseconds while an event depends on such a line, and otherwise when the next one is due.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.base.bounded_json import parse_json
from testbed.base.errors import TestbedError, TrialError, WorkerError
from testbed.base.python import module_command
from testbed.control.feed import LOOK_S, Feed
from testbed.files import foreign
from testbed.lab.base import Lab, LinkChange
from testbed.lab.programs import Program, Running
from testbed.perturb.events import Event, Helper, Move
from testbed.perturb.moments import Moment
from testbed.perturb.schedule import Schedule

if TYPE_CHECKING:
    from testbed.control.patching import Patching

READY = b"ready"
READY_TIMEOUT_S = 60.0
LAST_BYTES = 4096
"""Bytes at the end of a log that hold its last line: that of a source of background traffic is shorter."""
END_TIMEOUT_S = 30.0


@dataclass
class Record:
    """Record of an event as it went; times on ``time.monotonic``, None where that did not come. ``error`` says why it
    failed. An event that nobody planned has begun, and has no ``planned_s``.

    Attributes:
        takes_s: how long it is meant to take, from ``begun_s`` to ``done_s``: as long as a move's circuits are dark.
        free_s: when the move before it was done and this one worked out, if that was after ``planned_s``: it could not
            begin before. What a process asks for in band cannot be worked out ahead.
        links: what it was to change of links.
        stops: nodes and processes that it was to let stand still,
        kills: and those that it was to end.
    """

    kind: str
    what: str
    planned_s: float | None = None
    begun_s: float | None = None
    done_s: float | None = None
    error: str | None = None
    takes_s: float = 0.0
    free_s: float | None = None
    links: tuple[LinkChange, ...] = ()
    stops: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()


class Conductor:
    """Controller that starts the helpers, then the events; use in ``with``, around the thread that asks it.

    Attributes:
        records: every event that was begun, in order; after the end also those whose moment never came, though they
            were to change something.
        kills: nodes and processes that it has killed, with the record of each.
        halted: what it made stand still, in words, with the record of that and when it went on (inf: not yet).
    """

    is_urgent = True

    def __init__(
        self, schedule: Schedule, lab: Lab, logs: Path, patching: Patching | None = None, *, stage: str = ""
    ) -> None:
        """Prepare a schedule. Helpers' output goes into ``logs``, in files whose names begin with ``stage``.
        ``patching`` moves circuits, if there are such events. Raises TrialError: a helper did not start."""
        self._lab, self._logs, self._stage = lab, logs, stage
        self.records: list[Record] = []
        self.kills: dict[str, Record] = {}
        self.halted: dict[str, tuple[Record, float]] = {}
        self._patching = patching
        self._pending = [(event, stream) for stream in schedule.streams if (event := next(stream, None))]
        self._expected: Move | None = None
        self._helpers = {helper.name: self._start(helper) for helper in schedule.helpers}
        self._sources = [helper.name for helper in schedule.helpers if helper.sends_to is not None]

    def log(self, helper: str) -> Path:
        """Path of a helper's output."""
        return self._logs / f"{self._stage}{helper}.log"

    def __enter__(self) -> Conductor:
        self._await_helpers()
        return self

    def __exit__(self, *_: object) -> None:
        self.records += [Record(event.kind, event.what) for event, _ in self._pending if not event.optional]

    def blamed(
        self, error: TrialError, *, begun_s: float | None = None, goes_on: bool = False, instead: str = ""
    ) -> TrialError:
        """Copy an error with what was done to the trial; if that is why, saying so, and what to change.

        Args:
            begun_s: when the trial began, if it did.
            goes_on: whether the scheme goes on without a node that dies, so that a kill alone explains nothing.
            instead: what would go on without a node, to end a fix with.
        """
        failed_s = time.monotonic() if error.at_s is None else error.at_s
        halted = {
            what: record
            for what, (record, to_s) in list(self.halted.items())
            if (record.begun_s or 0.0) <= failed_s <= to_s
        }
        told, fix = error, error.fix
        if self.kills:
            killed = ", ".join(list(self.kills))
            is_why = error.process in self.kills or not goes_on
            fix = f"remove the kill, with which this trial ends{instead}" if is_why else fix
            told = type(error)(f"after perturb had killed {killed}: {error.problem}", fix=fix)
            told.by_perturb = is_why
        elif halted:
            if not error.signalled:
                instead = instead if all(record.stops for record in halted.values()) else ""
                others = f"; if that is not why, {fix}" if isinstance(error, WorkerError) else ""
                fix = f"let that end sooner (until), or give a longer timeout{instead}{others}"
            told = type(error)(f"while perturb had {' and '.join(halted)}: {error.problem}", fix=fix)
            told.by_perturb = not error.signalled
        if begun_s is not None:
            told.events = timeline(self.records, begun_s)
        return told

    def finish(self) -> list[int]:
        """End the helpers, sources first, while sinks still read; return the bytes that each source of background
        traffic sent, in the spec's order. Raises TrialError: one of them failed, or the lab ended."""
        for names in (self._sources, self._helpers.keys() - {*self._sources}):
            for name in names:
                self._helpers[name].signal(signal.SIGCONT)  # a frozen host's, which would not end
                self._helpers[name].signal(signal.SIGTERM)
            for name in names:
                self._helpers[name].wait(END_TIMEOUT_S)
        return [self._sent_bytes(name) for name in self._sources]

    def _sent_bytes(self, source: str) -> int:
        try:
            last = foreign.read_tail(self.log(source), LAST_BYTES, self._logs).splitlines()[-1:]
            return int(parse_json(b"".join(last))["sent_bytes"])
        except (OSError, ValueError, TypeError, KeyError):
            raise WorkerError(f"{source} did not say what it sent", fix=f"read {self.log(source)}") from None

    def _start(self, helper: Helper) -> Running:
        words = tuple(module_command(helper.module, *helper.arguments))
        return self._lab.start(helper.node, Program(words, {}, "/"), str(self.log(helper.name)))

    def _await_helpers(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        for name in self._helpers:
            while not self._is_ready(name):
                if time.monotonic() > deadline:
                    raise WorkerError(
                        f"{name} did not start within {READY_TIMEOUT_S:g} s", fix=f"read {self.log(name)}"
                    )
                time.sleep(LOOK_S)

    def _is_ready(self, helper: str) -> bool:
        """Whether a helper has begun to wait. Raises WorkerError: its log is no file."""
        try:
            with foreign.opened(self.log(helper), self._logs) as log:
                return log.read(len(READY)) == READY
        except (OSError, foreign.UnfitError) as error:
            raise WorkerError(f"{self.log(helper)}: {error}", fix="see who put something in its place") from None

    # While the trial runs.

    def look(self, feed: Feed) -> float:
        """Carry out the next event, if it is due."""
        pending = self._pending
        if not pending:
            return math.inf
        self._expect_next_move()
        if feed.begun_s is None or any(event.at.time_s is None for event, _ in pending):
            feed.look()
        planned = [(_planned_s(feed, event.at), i) for i, (event, _) in enumerate(pending)]
        known = [(moment, i) for moment, i in planned if moment is not None]
        now = time.monotonic()
        if known and (first := min(known))[0] <= now:
            event, stream = pending.pop(first[1])
            self.carry_out(event, feed, first[0])
            if (later := next(stream, None)) is not None:
                pending.append((later, stream))
            return 0.0
        looking = LOOK_S if len(known) < len(pending) else math.inf
        return min([looking, *(moment - now for moment, _ in known)])

    def _expect_next_move(self) -> None:
        """Have the next move worked out before it is due."""
        move = next((event.move for event, _ in self._pending if event.move is not None), None)
        if move is not None and move is not self._expected and self._patching is not None:
            self._patching.expect(move)
            self._expected = move

    def carry_out(self, event: Event, feed: Feed, planned_s: float | None = None) -> None:
        """Carry out an event now, and record it; what was not planned is due now."""
        now = time.monotonic()
        due_s = now if planned_s is None else planned_s
        record = Record(event.kind, event.what, due_s, now, links=event.links, stops=event.stops, kills=event.kills)
        self.records.append(record)
        self.kills |= dict.fromkeys(event.kills, record)
        if event.move is not None and self._patching is not None:
            self._patching.put(event.move, record)
            return
        try:
            if event.links:
                self._lab.adjust(event.links)
            if event.impairments:
                self._lab.impair(event.impairments)
            for one in event.signals:
                if one.helper is not None:
                    self._helpers[one.helper].signal(one.number)
                elif one.target is not None:
                    self._lab.signal(one.target, one.number)
        except TestbedError as error:
            record.error = error.problem
        record.done_s = time.monotonic()
        feed.forget(event.kills)
        if event.halts:
            self.halted[event.halts] = (record, math.inf)
        if event.resumes in self.halted:
            self.halted[event.resumes] = (self.halted[event.resumes][0], record.done_s)


def blamed_for_job(error: WorkerError, records: Sequence[Record]) -> WorkerError:
    """Copy the error of a job that failed while others went on, saying so if it is of a process that was killed on
    purpose."""
    if not any(error.process in record.kills for record in records):
        return error
    told = WorkerError(
        f"after perturb had killed {error.process}: {error.problem}", fix="remove the kill, with which this job ends"
    )
    told.process, told.at_s, told.signalled, told.by_perturb = error.process, error.at_s, error.signalled, True
    return told


def _planned_s(feed: Feed, at: Moment) -> float | None:
    """The moment (s) when an event is or was planned; None while that is not known."""
    if feed.begun_s is None:
        return None
    if at.time_s is not None:
        return feed.begun_s + at.time_s
    return feed.ended_s(at.iteration - 1) if at.iteration else feed.begun_s


def timeline(events: Sequence[Record], start_s: float) -> list[dict[str, Any]]:
    """Rows that say what was done to the trial, with times relative to its start.

    ``links`` holds the rates that it gave to links and which of them it blocked or opened, each by directed link; None
    of an event that did nothing of this kind.
    """
    found = []
    for event in events:
        times = {name: getattr(event, name) for name in ("planned_s", "free_s", "begun_s", "done_s")}
        relative = {name: None if time_s is None else round(time_s - start_s, 6) for name, time_s in times.items()}
        rest = {"takes_s": event.takes_s, "error": event.error, "links": _by_link(event.links)}
        found.append({"kind": event.kind, "what": event.what, **relative, **rest})
    return found


def _by_link(changes: Sequence[LinkChange]) -> dict[str, dict[str, Any]] | None:
    """Group the changes by directed link. Keys are text, as JSON has them."""
    found = {
        name: {str(one.directed_link): value for one in changes if (value := getattr(one, name)) is not None}
        for name in ("rate_bps", "blocked")
    }
    return found if any(found.values()) else None
