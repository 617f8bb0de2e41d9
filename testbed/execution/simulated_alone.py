"""A job that has a network for itself, in simulated time. Iterations that begin alike and that no change disturbs are
played once."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.execution.simulated_job import Played, forward_s, late_s, prepared_s
from testbed.execution.simulated_timeline import ScheduleTimeline
from testbed.trial.job import Job
from testbed.workloads.play.player import Player
from testbed.workloads.play.synchronisation import Synchronisation
from testbed.workloads.sync.chunks import FLOAT_BYTES

ALIKE, MOST_ALIKE = 1e-6, 1e-5
"""Shares of an iteration's time by which workers' beginnings may differ in iterations that are played once: the first
one always, as engines agree to this; up to the second one as far as :data:`FLOATS` explain it."""
FLOATS = 16
"""Floats in whose time on the slowest link beginnings may differ. A chunk has a whole number of floats, so some have
one more than others, and each iteration shifts workers by a few: with ``overlap: layer`` by 4 in a ring of 64 workers,
and by 10 in one of 432. Gradients of full size have the same floats at higher rates."""
MOST_ALIKE_OF_ROUNDS = 3e-4
"""Share of an iteration's time by which beginnings may differ over parallel circuits, as far as a float in each round
explains it. There a class need not wait for others behind it, so one with a float more is later by a float in each
round: 862 in a ring of 432 workers. Which circuit it takes next depends on that, and the same beginnings hardly come
again. The smallest error that is known of simulated GST is larger."""
LONGEST_CYCLE = 4
"""Most iterations after which the same may come again. Three times alike means that it goes on so: all messages of an
iteration have come before anybody begins the one after the next, so nothing older is left that could make a difference
later."""
ALIKE_TURNS = 0.01
"""Share of the smallest chunk by which what parallel connections have got to send may differ in iterations that are
played once. Chunks of unequal bytes make it grow from iteration to iteration, by a float or two."""


@dataclass(frozen=True)
class _Stretch:
    """Iterations that were played together: when workers began the first one (float64[workers]), their ends after that
    time and when they had all sums (float64[iterations, workers] each), the bytes of links and of pairs of nodes, and,
    where there are steps, when gradients were ready and how workers waited (:attr:`.Player.notes`), or, where forward
    passes begin early, when they began and ended (:attr:`.Player.passes_s`). ``turns`` are those of parallel
    connections before and after (:attr:`.Player.turns`)."""

    start_s: NDArray[np.float64]
    ends_s: NDArray[np.float64]
    sums_s: NDArray[np.float64]
    link_bytes: NDArray[np.float64]
    sent_bytes: NDArray[np.float64]
    notes: NDArray[np.float64]
    passes_s: NDArray[np.float64]
    turns: tuple[NDArray[np.float64], NDArray[np.float64]]


class Alone:
    """The iterations of a job that has the network for itself."""

    def __init__(self, job: Job, work: Synchronisation, player: Player, timeline: ScheduleTimeline) -> None:
        self._job, self.work, self.player, self._timeline = job, work, player, timeline
        self._ready_s, self._late_s, self._forward_s = prepared_s(job, work), late_s(job, work), forward_s(job)
        floats, self._most_alike = FLOATS, MOST_ALIKE
        if player.is_parallel:
            floats, self._most_alike = FLOATS + job.cost.rounds, MOST_ALIKE_OF_ROUNDS
        self._floats_s = floats * 8 * FLOAT_BYTES / (job.network.goodput * job.network.slowest_bps)
        self._known: dict[tuple[bytes, bytes, bytes, int], list[_Stretch]] = defaultdict(list)
        self._repeated_bytes = np.zeros_like(player.carried_bytes())
        self._repeated_sent = np.zeros_like(player.sent_bytes())
        self.ends_s: list[NDArray[np.float64]] = []
        """By iteration, each worker's end."""
        self.sums_s: list[NDArray[np.float64]] = []
        """By iteration, when each worker had all sums."""
        self.notes: list[NDArray[np.float64]] = []
        """By iteration, where there are steps: float64[workers, 4], as of :attr:`.Player.notes`."""
        self.passes_s: list[NDArray[np.float64]] = []
        """By iteration, where forward passes begin early: float64[workers, 2], as of :attr:`.Player.passes_s`."""

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return what each directed link carried, in iterations that were played once as often as there were any."""
        carried: NDArray[np.float64] = self.player.carried_bytes() + self._repeated_bytes
        return carried

    def sent_bytes(self) -> NDArray[np.float64]:
        """Return the bytes that have come to their receivers, by pair of nodes, counted as by :meth:`carried_bytes`."""
        sent: NDArray[np.float64] = self.player.sent_bytes() + self._repeated_sent
        return sent

    def played(self) -> Played:
        """Return what its workers did."""
        moments_s = np.array(self.ends_s), np.array(self.sums_s)
        noted = np.array(self.notes), np.array(self.passes_s)
        return Played(self._job, self.work, 0.0, *moments_s, *noted, self.sent_bytes())

    def iterations(self) -> Iterator[int]:
        """Play all; yield the number of those that are done, now and then."""
        start_s = np.zeros(self._job.world)
        while (done := len(self.ends_s)) < self._job.iterations:
            now_s = self.player.arena.now_s
            alike = self._known[self._ready_s[done].tobytes(), *self._timeline.links()]
            known = next((each for each in alike if self._is_repeated(each, start_s, done)), None)
            if known is not None:
                self.player.arena.rest(float(known.ends_s.max()))
                self._repeated_bytes += known.link_bytes
                self._repeated_sent += known.sent_bytes
                self.player.turns = known.turns[1]
                played = known
            else:
                changes, is_quiet = self._timeline.happened, self.player.arena.links.is_quiet
                played = self._played(done, start_s)
                if is_quiet and len(played.ends_s) == 1 and changes == self._timeline.happened:
                    alike.append(played)
            self.ends_s += [now_s + ends_s for ends_s in played.ends_s]
            self.sums_s += [now_s + sums_s for sums_s in played.sums_s]
            self.notes += [notes + np.array([now_s, 0, 0, 0]) for notes in played.notes]
            self.passes_s += [now_s + passes_s for passes_s in played.passes_s]
            self._timeline.completed(len(self.ends_s), self.player.arena.now_s)
            start_s = played.ends_s[-1] - played.ends_s[-1].max()
            yield len(self.ends_s)

    def _is_repeated(self, known: _Stretch, start_s: NDArray[np.float64], done: int) -> bool:
        """Whether the next iteration goes as one that is known: it begins alike, with the same turns of
        parallel connections, nothing changes, and no worker has a bucket of the one after it before it ends."""
        ends_s, last_s = known.ends_s[0], float(known.ends_s[0].max())
        if np.abs(start_s - known.start_s).max() > self._alike_s(last_s):
            return False
        most_bits = 8 * ALIKE_TURNS * self.work.chunk_bytes.min(initial=np.inf)
        if np.abs(self.player.turns - known.turns[0]).max(initial=0.0) > most_bits:
            return False
        if not self._is_calm(self.player.arena.now_s + last_s, done + 1):
            return False
        is_last = done + 1 == self._job.iterations
        return is_last or float((ends_s + self._soonest_s(done + 1)).min()) >= last_s

    def _is_calm(self, until_s: float, iterations: int) -> bool:
        """Whether nothing disturbs the job up to this moment and until rank 0 has done so many iterations."""
        is_calm = self._timeline.is_calm(until_s, iterations) and self.player.arena.links.is_quiet
        return is_calm and not self.work.late.steps

    def _alike_s(self, took_s: float) -> float:
        """Return by how much (s) moments may differ in iterations that take so long and are alike."""
        return min(max(self._floats_s, ALIKE * took_s), self._most_alike * took_s)

    def _soonest_s(self, iteration: int) -> NDArray[np.float64]:
        """When each worker can have a bucket, or end a step, after it has begun an iteration: float64[workers]."""
        times_s = self._ready_s[iteration]
        soonest_s: NDArray[np.float64]
        soonest_s = self.work.steps.soonest_s(times_s) if len(self.work.steps) else times_s.min(axis=1)
        return soonest_s

    def _played(self, done: int, start_s: NDArray[np.float64]) -> _Stretch:
        """Play iterations until one ends before anybody can begin the next, or, if from some iteration on the same
        comes again and again, only so many as it takes to see that. Where forward passes begin early, all are played
        together, or only so many."""
        job, begun_s, turns = self._job, self.player.arena.now_s, self.player.turns
        before, sent = self.player.carried_bytes(), self.player.sent_bytes()
        ends_s: dict[int, list[float]] = defaultdict(list)
        first, asked = job.plan.workers[0], job.iterations - done
        ended, cycle = Counter[int](), range(0)
        together = self.work.alike is not None  # of one class it is not known when a worker has the others' sums
        ready_s = self._ready_s[done : done + 1] if together else self._ready_s[done:]
        late_s = self._late_s[done : done + len(ready_s)]
        for now_s, node in self.player.told(ready_s, start_s, late_s, self._forward_s):
            ends_s[node].append(now_s - begun_s)
            if node == first:
                self._timeline.completed(done + len(ends_s[first]), now_s)
            ended[count := len(ends_s[node])] += 1
            if not cycle and ended[count] == job.world and (cycle := self._cycle(ends_s, count, done)):
                begun = 1 + max(map(len, ends_s.values()))
                self.player.end_after(begun + (asked - begun) % len(cycle))
        if together:
            ((end_s,),) = ends_s.values()
            by_worker = np.full((1, job.world), end_s)
        else:
            by_worker = np.array([ends_s[node] for node in job.plan.workers]).T
        sums_s = self.player.sums_s[: len(by_worker)] - begun_s if self.work.late.steps else by_worker
        notes = self.player.notes[: len(by_worker)] - np.array([begun_s, 0, 0, 0])
        passes_s = self.player.passes_s[: len(by_worker)] - begun_s
        carried, sent = self.player.carried_bytes() - before, self.player.sent_bytes() - sent
        if cycle and (more := asked - len(by_worker)):
            each_s = float((by_worker[cycle[-1]] - by_worker[cycle[0] - 1]).mean())
            later_s = np.array([each_s * times for times in range(1 + more // len(cycle))])
            self.player.arena.rest(float(later_s[-1]))
            share = more / len(by_worker)  # every iteration has the same messages, each on the same way
            self._repeated_bytes += share * carried
            self._repeated_sent += share * sent
            sums_s = by_worker = _repeated(by_worker, cycle, later_s[:, None])
            if len(passes_s):
                passes_s = _repeated(passes_s, cycle, later_s[:, None, None])
            if len(notes):
                notes = _repeated(notes, cycle, later_s[:, None, None] * np.array([1.0, 0.0, 0.0, 0.0]))
        return _Stretch(start_s, by_worker, sums_s, carried, sent, notes, passes_s, (turns, self.player.turns))

    def _cycle(self, ends_s: Mapping[int, Sequence[float]], count: int, done: int) -> range:
        """Return the latest iterations that will come again and again, if all workers have ended ``count`` after the
        first ``done``; none if the same has not yet come three times, or something changes later."""
        next_s = self._ready_s[done + count - 1 : done + count + 1]
        is_calm = self._is_calm(sys.float_info.max, self._job.iterations)
        if self.player.is_parallel or not is_calm or (next_s[0] != next_s[-1]).any():
            return range(0)
        for length in range(1, min(LONGEST_CYCLE, (count - 1) // 3) + 1):
            since = count - 3 * length
            took_s = np.diff([ends_s[node][since - 1 : count] for node in self._job.plan.workers])
            whole_s, off_s = took_s[:, -length:].sum(axis=1), np.abs(took_s[:, length:] - took_s[:, :-length])
            if max(np.ptp(whole_s), off_s.max()) > self._alike_s(float(whole_s.max())):
                continue
            ready_s = self._ready_s[done + since :]
            return range(count - length, count) if (ready_s == ready_s[0]).all() else range(0)
        return range(0)


def _repeated(rows: NDArray[np.float64], cycle: range, later: NDArray[np.float64]) -> NDArray[np.float64]:
    """Repeat rows of a cycle, each time with what is to be added to them; those after it get what its last repetition
    gets."""
    again = (rows[cycle.start : cycle.stop] + each for each in later)
    return np.concatenate([rows[: cycle.start], *again, rows[cycle.stop :] + later[-1]])
