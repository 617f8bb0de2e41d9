"""Perturbations of a trial that is played in simulated time: when they come, and what they change."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np

from testbed.base.errors import TrialError
from testbed.control.conductor import Record
from testbed.lab.base import Impairment, LinkChange
from testbed.perturb.circuits import State
from testbed.perturb.events import START_SIGNAL, Event, Helper, Move
from testbed.perturb.schedule import Schedule
from testbed.topologies.model import Topology
from testbed.workloads.play.changes import Change, DarkChange, DelayChange, FlowChange, PathChange, RateChange
from testbed.workloads.play.links import Flow

LABS = "take a lab with processes"


def only_delays(impairment: Impairment) -> bool:
    """Whether a link with this impairment delays all that it carries by the same time, and does nothing else."""
    return impairment == Impairment(impairment.delay_s)


def flows_of(helpers: Sequence[Helper]) -> dict[str, Flow]:
    """Return the flows that helpers send, by the helper's name, in the order of :attr:`.Trial.background`."""
    return {
        helper.name: Flow(helper.node, helper.sends_to, helper.connections, helper.rate_bps)
        for helper in helpers
        if helper.sends_to is not None
    }


def is_played(event: Event, flows: Collection[str]) -> bool:
    """Whether an event does nothing but what is played here; ``flows`` are the names of helpers that send."""
    if event.kills or event.stops or any(signal.helper not in flows for signal in event.signals):
        return False
    return all(change.queue_bytes is None for change in event.links) and all(
        map(only_delays, event.impairments.values())
    )


class ScheduleTimeline:
    """A trial's schedule as a :class:`testbed.workloads.play.changes.Timeline`.

    Circuits move one move after the other, as :class:`testbed.control.patching.Patching` has it. While they are dark,
    connections whose way passes a circuit that goes take their new way; the others do so after that.

    Attributes:
        happened: number of times until now at which something changed.
        sent_bytes: function that returns what all nodes have sent until now; set where circuits may move.
    """

    def __init__(self, schedule: Schedule, topology: Topology, begun_s: float = 0.0) -> None:
        """``begun_s`` is when the first iteration begins, from which moments count."""
        self._now_s, self._completed, self._begun_s = 0.0, 0, begun_s
        self._pending = [(event, stream) for stream in schedule.streams if (event := next(stream, None))]
        self._flows = {name: number for number, name in enumerate(flows_of(schedule.helpers))}
        self._records: list[Record] = []
        self._rate_bps = np.array(topology.rates_bps)
        self._blocked = np.zeros(len(self._rate_bps), bool)
        self._delay_s = np.repeat([link.delay_s for link in topology.links], 2)
        self._history = [State(topology)]
        self._topology, self._free_s = topology, 0.0
        """The network after all moves that are known, and when the last of them is done."""
        self._steps: list[tuple[float, int, Callable[[], Iterable[Change]]]] = []
        self._order = count()
        self._rerouted = 0
        """Number of times until now at which connections may have taken another way."""
        self.happened = 0
        self.sent_bytes: Callable[[], float] = lambda: 0.0

    def next_s(self) -> float:
        steps_s = [at_s for at_s, *_ in self._steps[:1]]
        return min((*steps_s, *(self._due_s(event) for event, _ in self._pending)), default=math.inf)

    def take(self) -> Iterable[Change]:
        self.happened += 1
        at = min(range(len(self._pending)), key=lambda at: self._due_s(self._pending[at][0]), default=None)
        if self._steps and (at is None or self._steps[0][0] <= self._due_s(self._pending[at][0])):
            self._rerouted += 1
            return heapq.heappop(self._steps)[-1]()
        assert at is not None
        event, stream = self._pending.pop(at)
        due_s = self._due_s(event)
        if not is_played(event, self._flows):
            raise TrialError(f"{event.what}: this is not simulated", fix=f"remove it, or {LABS}")
        record = Record(event.kind, event.what, due_s, due_s, due_s, links=event.links)
        self._records.append(record)
        if (later := next(stream, None)) is not None:
            self._pending.append((later, stream))
        if event.move is not None:
            self._line_up(event.move, record)
        return self._changed(event, due_s)

    def completed(self, iterations: int, now_s: float) -> None:
        """Note that rank 0 has done so many iterations."""
        self._completed, self._now_s = iterations, now_s

    def is_calm(self, until_s: float, iterations: int) -> bool:
        """Whether nothing changes up to this moment and until rank 0 has done so many iterations."""
        asked = [event.at.iteration for event, _ in self._pending if event.at.iteration is not None]
        return until_s < self.next_s() and iterations < min(asked, default=iterations + 1)

    def links(self) -> tuple[bytes, bytes, int]:
        """Return rates and delays of all links now, and how often ways over them have changed, to compare."""
        rates_bps = np.where(self._blocked, 0.0, self._rate_bps)
        return rates_bps.tobytes(), self._delay_s.tobytes(), self._rerouted

    def records(self, end_s: float) -> list[Record]:
        """Return what happened until the end, and what should have happened. A move that had not ended then was not
        carried out."""
        missed = [Record(event.kind, event.what) for event, _ in self._pending if not event.optional]
        due = [record for record in self._records if (record.planned_s or 0.0) <= end_s]
        return [*(_until(record, end_s) for record in due), *missed]

    def history(self, end_s: float, synchronised_bytes: float) -> list[State]:
        """Return which circuits carried light until the end, and when; a synchronisation has so many bytes."""
        first, *moved = (state for state in self._history if state.dark_s <= end_s)
        return [first, *(state._replace(sent=(state.sent or 0.0) / synchronised_bytes) for state in moved)]

    def _due_s(self, event: Event) -> float:
        if event.at.iteration is not None:
            return self._now_s if event.at.iteration <= self._completed else math.inf
        return self._begun_s + (event.at.time_s or 0.0)

    def _changed(self, event: Event, at_s: float) -> Iterator[Change]:
        for link_change in event.links:
            yield self._rate_changed(link_change, at_s)
        for link, impairment in event.impairments.items():
            self._delay_s[link] = impairment.delay_s
            yield DelayChange(at_s, link, impairment.delay_s)
        for signal in event.signals:
            yield FlowChange(at_s, self._flows[signal.helper or ""], signal.number == START_SIGNAL)

    def _rate_changed(self, change: LinkChange, at_s: float) -> RateChange:
        link = change.directed_link
        if change.rate_bps is not None:
            self._rate_bps[link] = change.rate_bps
        if change.blocked is not None:
            self._blocked[link] = change.blocked
        return RateChange(at_s, link, 0.0 if self._blocked[link] else float(self._rate_bps[link]))

    # Circuits

    def _line_up(self, move: Move, record: Record) -> None:
        """Plan a move after those before it."""
        before, due_s, free_s = self._topology, record.planned_s or 0.0, self._free_s
        record.takes_s = move.dark_s(before)
        record.free_s = free_s if free_s > due_s else None
        record.begun_s = begun_s = max(due_s, free_s)
        record.done_s = self._free_s = begun_s + record.takes_s
        self._topology = after = move.moved(before)
        if move.look_ahead:
            return
        gone, new = (
            frozenset(link for link, out in this.circuits.items() if other.circuits.get(link) != out)
            for this, other in ((before, after), (after, before))
        )
        state = State(after, begun_s, record.done_s)
        self._put(begun_s, partial(self._part, state, gone, gone | new))
        self._put(record.done_s, partial(self._join, state, gone, gone | new))

    def _put(self, at_s: float, step: Callable[[], Iterable[Change]]) -> None:
        heapq.heappush(self._steps, (at_s, next(self._order), step))

    def _part(self, state: State, gone: frozenset[int], moving: frozenset[int]) -> Iterable[Change]:
        self._history.append(state._replace(sent=self.sent_bytes()))
        dark = [DarkChange(state.dark_s, link, is_dark=True) for link in sorted(moving)]
        return [*dark, PathChange(state.dark_s, state.topology, gone)]

    def _join(self, state: State, gone: frozenset[int], moving: frozenset[int]) -> Iterable[Change]:
        if not gone:  # until now, everything went on over circuits that stay
            self._history[-1] = self._history[-1]._replace(sent=self.sent_bytes())
        lit = [DarkChange(state.lit_s, link, is_dark=False) for link in sorted(moving)]
        return [*lit, PathChange(state.lit_s, state.topology)]


def _until(record: Record, end_s: float) -> Record:
    """Copy a record without what comes after the end."""
    begun_s, done_s = (at_s if at_s is not None and at_s <= end_s else None for at_s in (record.begun_s, record.done_s))
    return replace(record, begun_s=begun_s, done_s=done_s)
