"""The place that plays trials in simulated time (:mod:`testbed.workloads.play`).

Kinds say what moves (:class:`testbed.workloads.kinds.parts.Simulation`). Workers compute exactly for their pace, links
send what comes first, and what a trial's schedule changes of links is changed on time. Iterations that begin alike
and that no change disturbs are played once.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import MemoryLimitError, SpecError, TrialError
from testbed.base.units import size_text
from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.evidence.spot_checks import Readings
from testbed.execution import simulated_ranks
from testbed.execution.observed import Lines, Observed
from testbed.execution.so_far import SoFar, Tick
from testbed.execution.stage import check
from testbed.execution.starting import Began
from testbed.lab.base import LinkChange
from testbed.lab.limits import Limits
from testbed.lab.measurements import Counters
from testbed.lab.programs import Exit
from testbed.machine.monitor import CpuLog
from testbed.perturb.circuits import State
from testbed.perturb.events import Event
from testbed.perturb.kinds.base import STEPS, Perturbation
from testbed.perturb.schedule import Schedule
from testbed.recovery.deaths import undisturbed
from testbed.topologies.model import Topology
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.workloads.job import Replay
from testbed.workloads.learning.replay import FORWARD
from testbed.workloads.play.compiled import library
from testbed.workloads.play.player import Network, Player, RateChange
from testbed.workloads.play.queues import Queues
from testbed.workloads.play.synchronisation import Synchronisation
from testbed.workloads.play.wires import Wires

ALIKE = 1e-6
"""Share of an iteration's time by which workers' beginnings may differ in iterations that are played once: chunks of
unequal bytes shift them a little from iteration to iteration, in a ring of 432 workers 54 times. Engines agree to this,
too."""
LONGEST_CYCLE = 4
"""Most iterations after which the same may come again. Three times alike means that it goes on so: all messages of an
iteration have come before anybody begins the one after the next, so nothing older is left that could make a difference
later."""
ALIKE_TURNS = 0.01
"""Share of the smallest chunk by which what parallel connections have got to send may differ in iterations that are
played once. Chunks of unequal bytes make it grow from iteration to iteration, by a float or two."""
LABS = "take a lab with processes"
MOST_MESSAGES = 10**8
"""Messages of an iteration: more take ten minutes or longer."""
MESSAGE_BYTES = 250
"""The most memory for each message of an iteration: ``ps`` on 256 hosts took 220."""
DONE = {
    **dict.fromkeys(("cpu_s", "late_s", "stalled_s", "halted_s", "watched_s"), 0.0),
    **dict.fromkeys(("sent_segments", "resent_segments", "needless_segments", "wire_bytes"), None),
    **{"max_rss_bytes": 0, "sent": None},
}
"""Fields of a process's last line."""


class Simulator:
    """Simulated time as a place; ``engine`` makes its networks, as for :class:`.Player`.

    Raises:
        MissingToolError: there is no compiled solver.
    """

    def __init__(self, limits: Limits, engine: Callable[[NDArray[np.float64]], Network] = Queues) -> None:
        self.limits, self._engine = limits, engine
        library()

    def require(self, trial: Trial) -> None:
        """
        Raises:
            SpecError: the trial has something that is not simulated.
        """
        check(trial, ())
        if len(trial.jobs) > 1:
            raise SpecError(f"the lab {trial.spec.lab} plays one job at a time", fix=f"take one job, or {LABS}")
        _require_job(trial.job)
        _require_network(trial)

    def run(self, trial: Trial, files: Files, congestion_control: str, tick: Tick) -> Observed:  # noqa: ARG002
        """
        Raises:
            TrialError: messages are left that cannot move, time stands still, or there is no more memory.
        """
        job, readings = trial.job, Readings()
        timeline = _Timeline(trial.schedule(), trial.topology)
        done = 0

        def ticks(iterations: int) -> None:
            nonlocal done
            done = iterations
            tick(done, SoFar(Feed({}), readings, {}, 0))

        try:
            trace = job.workload.traced(trial.network.folder, job.world)
            if trace is None:
                lines, carried_bytes, end_s = self._synchronised(trial, timeline, ticks)
            else:
                network = self._engine(np.array(trial.topology.rates_bps))
                wires = Wires(trial.topology, network, timeline, seed=trial.spec.seed, goodput=trial.network.goodput)
                lines = simulated_ranks.play(job, trace, wires, files, DONE, ticks)
                carried_bytes, end_s = network.carried_bytes(), network.now_s
        except (MemoryError, MemoryLimitError) as error:
            raise TrialError(
                f"the lab {trial.spec.lab} gets no more memory after {done} iterations",
                fix="make chunks larger, or take fewer workers",
            ) from error
        return Observed(
            trial=trial,
            counters=[Counters(link, round(count), 0, 0) for link, count in enumerate(carried_bytes.tolist())],
            cpu=CpuLog(),
            lab={"lab": trial.spec.lab},
            differs=None,
            readings=readings,
            events=timeline.records(end_s),
            background=[],
            circuits=[State(trial.topology)],
            lines=lines,
            exits=[Exit(name, process.node, 0, 0.0, end_s) for name, process in trial.members.items()],
            courses={job.name: undisturbed(job)},
            began={job.name: Began(0.0, 0.0, 0.0, 0.0)},
            is_played=True,
            is_simulated=True,
        )

    def _synchronised(
        self, trial: Trial, timeline: _Timeline, ticks: Callable[[int], None]
    ) -> tuple[dict[str, Lines], NDArray[np.float64], float]:
        """Play a job whose workers only synchronise; return lines by process, what links carried, and the end (s)."""
        job = trial.job
        work = job.kind.simulation.synchronisation(job.plan, (job.gradient, job.chunk_bytes))
        player = Player(
            trial.topology,
            work,
            seed=trial.spec.seed,
            goodput=trial.network.goodput,
            timeline=timeline,
            engine=self._engine,
        )
        play = _Play(job, work, player, timeline)
        for done in play.iterations():
            ticks(done)
        return _lines(job, play), play.carried_bytes(), player.now_s

    def close(self) -> None:
        """Do nothing: nothing was started."""


def _require_job(job: Job) -> None:
    lab = job.network.spec.lab
    if job.workload.program:
        _require_traced(job)
        return
    if not job.kind.simulation.knows(job.plan):
        raise SpecError(
            f"the lab {lab} cannot play {job.scheme_text} of kind {job.kind.name}",
            fix=f"take a synchronous scheme that testbed's engine runs, such as ring or ps, or gloo, or {LABS}",
        )
    if job.work.is_trained:
        raise SpecError(
            f"nothing is trained in the lab {lab}", fix=f"play a profile (kind: profile) of the model, or {LABS}"
        )
    if not job.knows_pace:
        raise SpecError(
            f"compute: real in the lab {lab}: nothing is computed here",
            fix="give a pace: compute: {mode: paced, pace: {32: 100 ms}}, or compute: none",
        )
    for key, value, most in (
        ("overlap", job.work.overlap, job.kind.simulation.overlaps),
        ("priority", job.work.priority, "none"),
    ):
        if value not in most:
            raise SpecError(f"{key}: {value} is not simulated", fix=f"remove {key}, or {LABS}")
    if (messages := job.kind.simulation.messages(job.plan, (job.gradient, job.chunk_bytes))) > MOST_MESSAGES:
        raise SpecError(
            f"{job.scheme_text} sends {messages:,} messages an iteration, of which the lab {lab} plays at most "
            f"{MOST_MESSAGES:,}: it may take {size_text(messages * MESSAGE_BYTES)} of memory",
            fix="make chunks larger (workload: {chunk: 10 MB}), or take fewer workers",
        )
    if job.network.arm.checkpoint is not None:
        raise SpecError(f"the lab {lab} writes no checkpoints", fix=f"remove checkpoint, or {LABS}")


def _require_traced(job: Job) -> None:
    """Check that a program's ranks do what is known beforehand, along a scheme of ours."""
    lab = job.network.spec.lab
    if job.workload.traced(job.network.folder, job.world) is None:
        raise SpecError(f"the lab {lab} runs no programs", fix=f"play a profile or a trace, or {LABS}")
    if job.scripts is None:
        raise SpecError(
            f"the lab {lab} cannot play {job.scheme_text or 'an arm without a scheme'}: others move its bytes",
            fix=f"take a synchronous scheme that testbed's engine runs, such as ring or ps, or {LABS}",
        )


def _require_network(trial: Trial) -> None:
    lab, settings = trial.spec.lab, link_settings(trial.spec)
    asked = {"loss": settings.loss, "jitter": settings.jitter_s, "reorder": settings.reorder}
    asked |= {"queue": settings.drops, "ecn": settings.mark_at_bytes is not None}
    for key in (key for key, value in asked.items() if value):
        raise SpecError(f"links.{key}: the lab {lab} has no packets", fix=f"remove {key}, or {LABS}")
    for perturbation in trial.network.perturbations:
        if not _is_simulated(perturbation, trial):
            raise SpecError(
                f"perturb: {perturbation.title}: the lab {lab} changes only rates of links, blocks them, and slows "
                "workers down",
                fix=f"remove it, or {LABS}",
            )
    for stream in trial.schedule().streams:
        if (event := next(stream, None)) is not None and not _changes_rates_only(event):
            raise SpecError(
                f"perturb: {event.kind}: the lab {lab} changes only rates of links, and blocks them",
                fix=f"remove it, or {LABS}",
            )


def _is_simulated(one: Perturbation, trial: Trial) -> bool:
    """Whether a perturbation needs nothing but links whose rates change, and workers that compute for longer."""
    needs = (one.stops, one.kills, one.impairment, one.reconfiguration, one.moves_circuits, one.while_probed)
    return not (any(needs) or STEPS in one.effects or one.step_sigma_s(trial.topology))


def _changes_rates_only(event: Event) -> bool:
    others = (event.impairments, event.signals, event.move, event.kills, event.stops)
    return not any(others) and all(change.queue_bytes is None for change in event.links)


class _Timeline:
    """The trial's schedule as a :class:`testbed.workloads.play.player.Timeline`."""

    def __init__(self, schedule: Schedule, topology: Topology) -> None:
        self._now_s, self._completed = 0.0, 0
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
        if not _changes_rates_only(event):
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
        return event.at.time_s or 0.0

    def _changed(self, change: LinkChange, at_s: float) -> RateChange:
        link = change.directed_link
        if change.rate_bps is not None:
            self._rate_bps[link] = change.rate_bps
        if change.blocked is not None:
            self._blocked[link] = change.blocked
        return RateChange(at_s, link, 0.0 if self._blocked[link] else float(self._rate_bps[link]))


@dataclass(frozen=True)
class _Played:
    """Iterations that were played together: when workers began the first one, and their ends after that time
    (float64[workers], float64[iterations, workers]), the bytes of links and of pairs of nodes, and, where there are
    steps, when gradients were ready and how workers waited (:attr:`.Player.notes`). ``turns`` are those of parallel
    connections before and after (:attr:`.Player.turns`)."""

    start_s: NDArray[np.float64]
    ends_s: NDArray[np.float64]
    link_bytes: NDArray[np.float64]
    sent_bytes: NDArray[np.float64]
    notes: NDArray[np.float64]
    turns: tuple[NDArray[np.float64], NDArray[np.float64]]


class _Play:
    """The iterations of a job."""

    def __init__(self, job: Job, work: Synchronisation, player: Player, timeline: _Timeline) -> None:
        self._job, self.work, self.player, self._timeline = job, work, player, timeline
        self._ready_s = _times_s(job, work) if len(work.steps) else due_s(job)
        self._known: dict[tuple[bytes, ...], list[_Played]] = defaultdict(list)
        self._repeated_bytes = np.zeros_like(player.carried_bytes())
        self._repeated_sent = np.zeros_like(player.sent_bytes())
        self.ends_s: list[NDArray[np.float64]] = []
        """By iteration, each worker's end."""
        self.notes: list[NDArray[np.float64]] = []
        """By iteration, where there are steps: float64[workers, 4], as of :attr:`.Player.notes`."""

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return what each directed link carried, in iterations that were played once as often as there were any."""
        carried: NDArray[np.float64] = self.player.carried_bytes() + self._repeated_bytes
        return carried

    def sent_bytes(self) -> dict[int, dict[int, int]]:
        """Return the bytes without headers, by sender and receiver."""
        sent: dict[int, dict[int, int]] = defaultdict(dict)
        count = (self.player.sent_bytes() + self._repeated_sent).round().astype(int)
        for (src, dst), nbytes in zip(self.work.pairs.tolist(), count.tolist(), strict=True):
            sent[src][dst] = nbytes
        return sent

    def iterations(self) -> Iterator[int]:
        """Play all; yield the number of those that are done, now and then."""
        start_s = np.zeros(self._job.world)
        while (done := len(self.ends_s)) < self._job.iterations:
            now_s = self.player.now_s
            alike = self._known[self._ready_s[done].tobytes(), self._timeline.rates()]
            known = next((each for each in alike if self._is_repeated(each, start_s, done)), None)
            if known is not None:
                self.player.rest(float(known.ends_s.max()))
                self._repeated_bytes += known.link_bytes
                self._repeated_sent += known.sent_bytes
                self.player.turns = known.turns[1]
                played = known
            else:
                changes = self._timeline.happened
                played = self._played(done, start_s)
                if len(played.ends_s) == 1 and changes == self._timeline.happened:
                    alike.append(played)
            self.ends_s += [now_s + ends_s for ends_s in played.ends_s]
            self.notes += [notes + np.array([now_s, 0, 0, 0]) for notes in played.notes]
            self._timeline.completed(len(self.ends_s), self.player.now_s)
            start_s = played.ends_s[-1] - played.ends_s[-1].max()
            yield len(self.ends_s)

    def _is_repeated(self, known: _Played, start_s: NDArray[np.float64], done: int) -> bool:
        """Whether the next iteration goes as one that is known: it begins alike, with the same turns of
        parallel connections, nothing changes, and no worker has a bucket of the one after it before it ends."""
        ends_s, last_s = known.ends_s[0], float(known.ends_s[0].max())
        if np.abs(start_s - known.start_s).max() > ALIKE * last_s:
            return False
        most_bits = 8 * ALIKE_TURNS * self.work.chunk_bytes.min(initial=np.inf)
        if np.abs(self.player.turns - known.turns[0]).max(initial=0.0) > most_bits:
            return False
        if not self._timeline.is_calm(self.player.now_s + last_s, done + 1):
            return False
        is_last = done + 1 == self._job.iterations
        return is_last or float((ends_s + self._soonest_s(done + 1)).min()) >= last_s

    def _soonest_s(self, iteration: int) -> NDArray[np.float64]:
        """When each worker can have a bucket, or end a step, after it has begun an iteration: float64[workers]."""
        times_s = self._ready_s[iteration]
        soonest_s: NDArray[np.float64]
        soonest_s = self.work.steps.soonest_s(times_s) if len(self.work.steps) else times_s.min(axis=1)
        return soonest_s

    def _played(self, done: int, start_s: NDArray[np.float64]) -> _Played:
        """Play iterations until one ends before anybody can begin the next, or, if from some iteration on the same
        comes again and again, only so many as it takes to see that."""
        job, begun_s, turns = self._job, self.player.now_s, self.player.turns
        before, sent = self.player.carried_bytes(), self.player.sent_bytes()
        ends_s: dict[int, list[float]] = defaultdict(list)
        first, asked = job.plan.workers[0], job.iterations - done
        ended, cycle = Counter[int](), range(0)
        for now_s, node in self.player.told(self._ready_s[done:], start_s):
            ends_s[node].append(now_s - begun_s)
            if node == first:
                self._timeline.completed(done + len(ends_s[first]), now_s)
            ended[count := len(ends_s[node])] += 1
            if not cycle and ended[count] == job.world and (cycle := self._cycle(ends_s, count, done)):
                begun = 1 + max(map(len, ends_s.values()))
                self.player.end_after(begun + (asked - begun) % len(cycle))
        by_worker = np.array([ends_s[node] for node in job.plan.workers]).T
        notes = self.player.notes[: len(by_worker)] - np.array([begun_s, 0, 0, 0])
        carried, sent = self.player.carried_bytes() - before, self.player.sent_bytes() - sent
        if cycle and (more := asked - len(by_worker)):
            each_s = float((by_worker[cycle[-1]] - by_worker[cycle[0] - 1]).mean())
            later_s = np.array([each_s * times for times in range(1 + more // len(cycle))])
            self.player.rest(float(later_s[-1]))
            share = more / len(by_worker)  # every iteration has the same messages, each on the same way
            self._repeated_bytes += share * carried
            self._repeated_sent += share * sent
            by_worker = _repeated(by_worker, cycle, later_s[:, None])
            if len(notes):
                notes = _repeated(notes, cycle, later_s[:, None, None] * np.array([1.0, 0.0, 0.0, 0.0]))
        return _Played(start_s, by_worker, carried, sent, notes, (turns, self.player.turns))

    def _cycle(self, ends_s: Mapping[int, Sequence[float]], count: int, done: int) -> range:
        """Return the latest iterations that will come again and again, if all workers have ended ``count`` after the
        first ``done``; none if the same has not yet come three times, or something changes later."""
        next_s = self._ready_s[done + count - 1 : done + count + 1]
        is_calm = self._timeline.is_calm(sys.float_info.max, self._job.iterations)
        if self.player.is_parallel or not is_calm or (next_s[0] != next_s[-1]).any():
            return range(0)
        for length in range(1, min(LONGEST_CYCLE, (count - 1) // 3) + 1):
            since = count - 3 * length
            took_s = np.diff([ends_s[node][since - 1 : count] for node in self._job.plan.workers])
            whole_s, off_s = took_s[:, -length:].sum(axis=1), np.abs(took_s[:, length:] - took_s[:, :-length])
            if max(np.ptp(whole_s), off_s.max()) > ALIKE * whole_s.max():
                continue
            ready_s = self._ready_s[done + since :]
            return range(count - length, count) if (ready_s == ready_s[0]).all() else range(0)
        return range(0)


def _repeated(rows: NDArray[np.float64], cycle: range, later: NDArray[np.float64]) -> NDArray[np.float64]:
    """Repeat rows of a cycle, each time with what is to be added to them; those after it get what its last repetition
    gets."""
    again = (rows[cycle.start : cycle.stop] + each for each in later)
    return np.concatenate([rows[: cycle.start], *again, rows[cycle.stop :] + later[-1]])


def due_s(job: Job) -> NDArray[np.float64]:
    """Return when each bucket is complete after its worker has begun the iteration, float64[iterations, workers,
    buckets], as :class:`testbed.workloads.learning.replay.Player` has it."""
    if job.work.overlap == "none":
        return job.pace_s.T[:, :, None]
    task, slow = cast("Replay", job.training), job.stragglers  # of no other work layers leave early
    shares, pace_s = np.array(task.shares), job.compute.pace_s
    factor, extra_s = (1.0, 0.0) if slow is None else (slow.factor.T[:, :, None], slow.extra_s.T[:, :, None])
    each_s = factor * (1 - FORWARD) * pace_s * shares + extra_s * shares
    due = factor * FORWARD * pace_s + np.cumsum(each_s, axis=-1)
    return np.broadcast_to(due, (job.iterations, job.world, len(shares)))


def _times_s(job: Job, work: Synchronisation) -> NDArray[np.float64]:
    """Return how long steps take, float64[iterations, ...] (:meth:`.Steps.times_s`)."""
    slow, shape = job.stragglers, (job.world, job.iterations)
    factor, extra_s = (np.ones(shape), np.zeros(shape)) if slow is None else (slow.factor, slow.extra_s)
    return work.steps.times_s(job.compute.pace_s, factor, extra_s)


def _lines(job: Job, play: _Play) -> dict[str, Lines]:
    """Return, by process, the lines that it would have written."""
    ranks = {name: rank for rank, name in enumerate(job.workers)}
    ends_s, sent_bytes = np.array(play.ends_s), play.sent_bytes()
    start_s = np.vstack([np.zeros(job.world), ends_s[:-1]])
    compute_s = job.pace_s.T if play.notes else due_s(job)[:, :, -1]
    ready_s = np.array(play.notes)[:, :, 0] if play.notes else start_s + compute_s
    columns = (start_s, ready_s, ends_s, ends_s, compute_s)
    said: dict[str, Lines] = {}
    for name, node in job.processes.items():
        rank = ranks.get(name)
        hello = {"rank": rank, "node": node, "device": "none", "congestion_control": "none"}
        own: Lines = []
        if rank is not None:
            rows = zip(*(each[:, rank].tolist() for each in columns), strict=True)
            own = [
                {
                    **{"kind": "iteration", "i": i, "rank": rank, "node": node, "loss": None},
                    **dict(zip(("start", "ready", "sum", "end", "compute_s"), row, strict=True)),
                    **{"overrun_s": 0.0, "wait_s": 0.0, "cpu_s": 0.0},
                }
                for i, row in enumerate(rows)
            ]
            for line, notes in zip(own, play.notes, strict=False):
                line.update(job.kind.simulation.iteration(tuple(notes[rank, 1:].tolist())))
        done = {**DONE, **job.kind.simulation.done(sent_bytes.get(node, {}))}
        said[name] = [{"kind": "hello", **hello}, *own, {"kind": "done", **done}]
    return said
