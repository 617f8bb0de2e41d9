"""Changes of links while a trial is played in simulated time."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from testbed.base.errors import TrialError
from testbed.control.conductor import Record
from testbed.lab.base import LinkChange
from testbed.perturb.events import Event
from testbed.perturb.schedule import Schedule
from testbed.topologies.model import Topology
from testbed.workloads.play.arena import RateChange

LABS = "take a lab with processes"


def changes_rates_only(event: Event) -> bool:
    """Whether an event changes rates of links, or blocks them, and nothing else."""
    others = (event.impairments, event.signals, event.move, event.kills, event.stops)
    return not any(others) and all(change.queue_bytes is None for change in event.links)


class ScheduleTimeline:
    """A trial's schedule as a :class:`testbed.workloads.play.arena.Timeline`."""

    def __init__(self, schedule: Schedule, topology: Topology, begun_s: float = 0.0) -> None:
        """``begun_s`` is when the first iteration begins, from which moments count."""
        self._now_s, self._completed, self._begun_s = 0.0, 0, begun_s
        self._pending = [(event, stream) for stream in schedule.streams if (event := next(stream, None))]
        self._records: list[Record] = []
        self._rate_bps = np.array(topology.rates_bps)
        self._blocked = np.zeros(len(self._rate_bps), bool)

    @property
    def happened(self) -> int:
        """Number of events until now."""
        return len(self._records)

    def next_s(self) -> float:
        return min((self._due_s(event) for event, _ in self._pending), default=math.inf)

    def take(self) -> Iterator[RateChange]:
        at = min(range(len(self._pending)), key=lambda at: self._due_s(self._pending[at][0]))
        event, stream = self._pending.pop(at)
        due_s = self._due_s(event)
        if not changes_rates_only(event):
            raise TrialError(f"{event.what}: this is not simulated", fix=f"remove it, or {LABS}")
        self._records.append(Record(event.kind, event.what, due_s, due_s, due_s, links=event.links))
        if (later := next(stream, None)) is not None:
            self._pending.append((later, stream))
        return (self._changed(change, due_s) for change in event.links)

    def completed(self, iterations: int, now_s: float) -> None:
        """Note that rank 0 has done so many iterations."""
        self._completed, self._now_s = iterations, now_s

    def is_calm(self, until_s: float, iterations: int) -> bool:
        """Whether nothing changes up to this moment and until rank 0 has done so many iterations."""
        asked = [event.at.iteration for event, _ in self._pending if event.at.iteration is not None]
        return until_s < self.next_s() and iterations < min(asked, default=iterations + 1)

    def rates(self) -> bytes:
        """Return the rates of all links now, to compare."""
        return np.where(self._blocked, 0.0, self._rate_bps).tobytes()

    def records(self, end_s: float) -> list[Record]:
        """Return what happened until the end, and what should have happened."""
        missed = [Record(event.kind, event.what) for event, _ in self._pending if not event.optional]
        return [*(record for record in self._records if (record.begun_s or 0.0) <= end_s), *missed]

    def _due_s(self, event: Event) -> float:
        if event.at.iteration is not None:
            return self._now_s if event.at.iteration <= self._completed else math.inf
        return self._begun_s + (event.at.time_s or 0.0)

    def _changed(self, change: LinkChange, at_s: float) -> RateChange:
        link = change.directed_link
        if change.rate_bps is not None:
            self._rate_bps[link] = change.rate_bps
        if change.blocked is not None:
            self._blocked[link] = change.blocked
        return RateChange(at_s, link, 0.0 if self._blocked[link] else float(self._rate_bps[link]))
