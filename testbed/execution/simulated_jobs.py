"""Jobs in simulated time that share a network, whose kind decides about each message itself, or that are ranks of a
program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from testbed.control.conductor import Record
from testbed.execution.observed import Lines
from testbed.execution.simulated_job import DONE, Played, forward_s, hello, late_s, prepared_s, work_of
from testbed.perturb.registry import ASKED_IN_BAND
from testbed.topologies.patch_panel import repatched
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.trial.job_files import compute_of
from testbed.workloads.kinds.parts import Iterations, TellLines
from testbed.workloads.kinds.ranks import Collected
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.exchange import Moved
from testbed.workloads.play.player import Player
from testbed.workloads.play.synchronisation import Synchronisation
from testbed.workloads.play.wires import Wires
from testbed.workloads.trace.graph import Trace
from testbed.workloads.trace.simulated import Ranks


class Jobs:
    """Jobs of a trial. Each begins when it is submitted, the jobs that had its hosts have ended, and its circuits carry
    light.

    Attributes:
        records: the moves of circuits, as :class:`.switching.Switching` has them.
        dark_s: by job with circuits, seconds from when its hosts were free until its circuits carried light.
    """

    def __init__(self, jobs: Sequence[Job], arena: Arena) -> None:
        self._arena, self._topology = arena, arena.topology
        self._waiting, self._begun = list(jobs), dict[str, _Run]()
        self._patched_s: dict[str, float] = {}
        self._players: list[Player] = []
        self._runs: dict[Player, _Run] = {}
        self.records: list[Record] = []
        self.dark_s: dict[str, float] = {}

    def play(self, ticks: Callable[[int], None]) -> list[Played]:
        """Play all; call ``ticks`` with the most iterations that a worker has done, now and then.

        Raises:
            TrialError: as :meth:`.Arena.told`.
        """
        done = 0
        self._begin()
        for now_s, player, node in self._arena.told(self._players):
            run = self._runs[player]
            if (count := run.note(node, now_s)) > done:
                ticks(done := count)
            if run.is_over:
                self._begin()
        return [run.played() for run in self._begun.values()]

    def _begin(self) -> None:
        """Begin the jobs whose hosts are free; patch circuits ahead, once the jobs that have the hosts now have
        begun."""
        over = {name for name, run in self._begun.items() if run.is_over}
        for job in [job for job in self._waiting if over.issuperset(job.own_slot.after)]:
            self._waiting.remove(job)
            free_s = max(self._arena.now_s, job.own_slot.start_s)
            lit_s = self._lit_s(job, free_s)
            run = _Run(job, Player(self._arena, work := work_of(job), self._topology), work)
            run.begin(lit_s)
            self._players.append(run.player)
            self._begun[job.name] = self._runs[run.player] = run
        panels = self._topology.panels
        for job in self._waiting if panels and panels.looks_ahead else ():
            if self._begun.keys() >= {*job.own_slot.after}:
                assert panels is not None
                self._patched_s.setdefault(job.name, self._arena.now_s + panels.reconfiguration_s)

    def _lit_s(self, job: Job, free_s: float) -> float:
        """Give a job whose hosts are free its circuits, if it has some; return when they carry light."""
        panels, circuits = self._topology.panels, job.own_slot.circuits
        if panels is None or circuits is None:
            return free_s
        self._topology = repatched(self._topology, panels.among(job.own_slot.hosts, circuits))
        dark_s = 0.0 if panels.looks_ahead else panels.reconfiguration_s
        due_s = free_s
        if panels.looks_ahead:  # of the first jobs, patching begins with the trial
            due_s = max(free_s, self._patched_s.get(job.name, panels.reconfiguration_s))
        what = f"circuits of the job {job.name}"
        self.records.append(Record(ASKED_IN_BAND, what, due_s, due_s, due_s + dark_s, takes_s=dark_s))
        self.dark_s[job.name] = due_s + dark_s - free_s
        return due_s + dark_s


class _Run:
    """A job that begins and comes to its end."""

    def __init__(self, job: Job, player: Player, work: Synchronisation) -> None:
        self.job, self.player, self._work = job, player, work
        self._begun_s = 0.0
        self._rank = {node: rank for rank, node in enumerate(job.plan.workers)}
        self._done = np.zeros(job.world, int)
        self._ends_s = np.zeros((job.iterations, job.world))

    @property
    def is_over(self) -> bool:
        """Whether all workers have ended."""
        return bool((self._done == self.job.iterations).all())

    def begin(self, begun_s: float) -> None:
        """Begin at a moment (s), now or later."""
        self._begun_s = begun_s
        after_s = begun_s - self.player.arena.now_s
        start_s = np.full(self.job.world, after_s)
        told = prepared_s(self.job, self._work), start_s, late_s(self.job, self._work), forward_s(self.job)
        self.player.begin(*told)

    def note(self, node: int, now_s: float) -> int:
        """Note that a worker has done an iteration; return how many it has done."""
        rank = self._rank[node]
        self._ends_s[self._done[rank], rank] = now_s
        self._done[rank] += 1
        return int(self._done[rank])

    def played(self) -> Played:
        """Return what its workers did."""
        sent_bytes = self.player.sent_bytes()
        sums_s = self.player.sums_s if self._work.late.steps else self._ends_s
        noted = self.player.notes, self.player.passes_s
        return Played(self.job, self._work, self._begun_s, self._ends_s, sums_s, *noted, sent_bytes)


class Messages:
    """Jobs on wires. Each begins when it is submitted and the jobs that had its hosts have ended.

    Attributes:
        lasted_s: by job, when it began and when its last worker ended (s).
    """

    def __init__(self, jobs: Sequence[Job], wires: Wires, done: Callable[[int], None], lot: int = 0) -> None:
        """Set up; ``done`` is called with how many iterations the foremost job has done, when it has done one more.
        ``lot`` is the number of the draw where workers begin by lot."""
        self._waiting, self._wires, self._done = list(jobs), wires, done
        self._lots = {job.name: [lot, number] for number, job in enumerate(jobs)}
        self._said: dict[str, tuple[Job, float, TellLines]] = {}
        self._most = 0
        """Number of iterations of the foremost job."""
        self._over = set[str]()
        """Names of jobs that have ended."""
        self.lasted_s: Mapping[str, tuple[float, float]] = {}

    def play(self) -> dict[str, Lines]:
        """Play all, and return the lines of each process.

        Raises:
            TrialError: something waits for what never comes.
        """
        self._begin_free()
        self._wires.run()
        lines, lasted_s = dict[str, Lines](), {}
        for job, begun_s, said in self._said.values():
            own = _lines(job, said())
            lines |= own
            lasted_s[job.name] = begun_s, max(line["end"] for name in job.workers for line in own[name][1:-1])
        self.lasted_s = lasted_s
        return lines

    def _begin_free(self) -> None:
        """Begin jobs whose hosts are free, when they are submitted."""
        for job in [job for job in self._waiting if self._over.issuperset(job.own_slot.after)]:
            self._waiting.remove(job)
            self._wires.at(max(self._wires.now_s, job.own_slot.start_s), partial(self._begin, job))

    def _begin(self, job: Job) -> None:
        computes = [compute_of(job, rank) for rank in range(job.world)]
        told = partial(self._told, job)
        asked = Iterations(job.floats, job.iterations, computes, told, job.training.seed, self._late_s(job))
        self._said[job.name] = job, self._wires.now_s, job.kind.simulation.begin(job.plan, asked, self._wires)

    def _late_s(self, job: Job) -> Callable[[int, int], float]:
        """Return a function that draws how late a worker begins an iteration, by its rank and the iteration's number:
        after the first worker has begun, and later after it has its weights."""
        lot = np.random.default_rng([job.training.seed, *self._lots[job.name]])
        first_s = lot.uniform(0.0, job.kind.simulation.begins_within_s, job.world)
        first_s -= first_s.min()
        mean_s = job.kind.simulation.late_s

        def late_s(rank: int, number: int) -> float:
            return float(lot.exponential(mean_s) if number else first_s[rank])

        return late_s

    def _told(self, job: Job, iterations: int) -> None:
        if iterations > self._most:
            self._most = iterations
            self._done(iterations)
        if iterations == job.iterations:
            self._over.add(job.name)
            self._begin_free()


def _lines(job: Job, said: Mapping[str, Sequence[Mapping[str, object]]]) -> dict[str, Lines]:
    ranks = {name: rank for rank, name in enumerate(job.workers)}
    lines: dict[str, Lines] = {}
    for (name, node), process in zip(job.processes.items(), job.kind.processes(job.plan), strict=True):
        *iterations, last = said[process.name]
        lines[name] = [hello(ranks.get(name), node), *map(dict, iterations), {"kind": "done", **DONE, **last}]
    return lines


def play_ranks(
    job: Job, trace: Trace, wires: Wires, files: Files, done: dict[str, Any], ticks: Callable[[int], None]
) -> dict[str, Lines]:
    """Play a job's ranks; write their logs, and return the lines of its processes. ``done`` is the last line of
    each.

    Raises:
        TrialError: ranks wait for what never comes.
    """
    part, plan = job.scripts, job.plan
    assert part is not None  # the simulator plays no other programs

    def moves(ranks: Sequence[int], asked: Collected) -> tuple[Sequence[Moved], str]:
        return part.moved(plan, ranks, asked, job.chunk_bytes)

    played = Ranks(trace, plan.workers, moves, wires, ticks)
    played.play()
    own = dict(zip(job.workers, played.lines, strict=True))
    for name, took_s in zip(job.workers, played.iterations_s, strict=True):
        files.log(name).write_text("".join(f"iteration {each_s:.9f} s\n" for each_s in took_s))
    ranks = {name: rank for rank, name in enumerate(job.workers)}
    said = {}
    for name, node in job.processes.items():
        hello = {"kind": "hello", "rank": ranks.get(name), "node": node, "device": "none", "time": 0.0}
        said[name] = [{**hello, "congestion_control": "none"}, *own.get(name, ()), {"kind": "done", **done}]
    return said
