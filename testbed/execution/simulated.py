"""The place that plays trials in simulated time (:mod:`testbed.workloads.play`).

Kinds say what moves (:class:`testbed.workloads.kinds.parts.Simulation`). Workers compute exactly for their pace, links
send what comes first, and what a trial's schedule changes of links is changed on time. Iterations that begin alike
and that no change disturbs are played once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import MemoryLimitError, SpecError, TrialError
from testbed.base.units import size_text
from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.evidence.spot_checks import Readings
from testbed.execution import simulated_jobs
from testbed.execution.observed import Lines, Observed
from testbed.execution.simulated_alone import Alone
from testbed.execution.simulated_job import DONE, Played, lines, work_of
from testbed.execution.simulated_jobs import Jobs, Messages
from testbed.execution.simulated_timeline import LABS, ScheduleTimeline, flows_of, is_played, only_delays
from testbed.execution.so_far import SoFar, Tick
from testbed.execution.stage import check
from testbed.execution.starting import Began
from testbed.lab.base import LARGE_PACKET_BYTES
from testbed.lab.limits import Limits
from testbed.lab.measurements import Counters
from testbed.lab.programs import Exit
from testbed.machine.monitor import CpuLog
from testbed.perturb.kinds.base import Perturbation
from testbed.recovery.deaths import undisturbed
from testbed.topologies.model import Topology
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.compiled import library
from testbed.workloads.play.links import Flow, Network
from testbed.workloads.play.player import Player
from testbed.workloads.play.queues import Queues
from testbed.workloads.play.wires import Wires
from testbed.workloads.sync.rotation import MOST_HOSTS

MOST_MESSAGES = 10**8
"""Messages of an iteration: more take ten minutes or longer."""
MESSAGE_BYTES = 250
"""The most memory for each message of an iteration: ``ps`` on 256 hosts took 220."""


@dataclass(frozen=True)
class _Ran:
    """Result of a trial: lines by process, what links carried, and when jobs began and ended (s), by name; the bytes
    that flows of others sent; the circuits that moved for jobs; and, where circuits may move under a job, the bytes of
    a synchronisation."""

    lines: dict[str, Lines]
    lasted_s: Mapping[str, tuple[float, float]]
    carried_bytes: NDArray[np.float64]
    flowed_bytes: Sequence[int]
    moves: Sequence[Record] = ()
    dark_s: Mapping[str, float] = field(default_factory=dict)
    synchronised_bytes: float = 1.0


class Simulator:
    """Simulated time as a place; ``engine`` makes its networks, as for :class:`.Arena`.

    Raises:
        MissingToolError: there is no compiled solver.
    """

    def __init__(self, limits: Limits, engine: Callable[[Topology], Network] = Queues.over) -> None:
        self.limits, self._engine = limits, engine
        library()

    def require(self, trial: Trial) -> None:
        """
        Raises:
            SpecError: the trial has something that is not simulated.
        """
        check(trial, ())
        for job in trial.jobs:
            try:
                _require_job(job)
            except SpecError as error:
                whose = f"the job {job.name}: " if job.name else ""
                raise SpecError(whose + error.problem, fix=error.fix) from None
        _require_together(trial)
        if len(trial.jobs) > 1 and (messages := sum(job.played_messages for job in trial.jobs)) > MOST_MESSAGES:
            raise _too_many("all jobs together send", messages, trial.spec.lab)
        _require_network(trial)

    def run(self, trial: Trial, files: Files, congestion_control: str, tick: Tick) -> Observed:  # noqa: ARG002
        """
        Raises:
            TrialError: messages are left that cannot move, time stands still, or there is no more memory.
        """
        readings = Readings()
        schedule = trial.schedule()
        timeline = ScheduleTimeline(schedule, trial.topology, min(job.own_slot.start_s for job in trial.jobs))
        flows = list(flows_of(schedule.helpers).values())
        done = 0

        def ticks(iterations: int) -> None:
            nonlocal done
            done = iterations
            tick(done, SoFar(Feed({}), readings, {}, 0))

        try:
            ran = self._played(trial, files, timeline, flows, ticks)
        except (MemoryError, MemoryLimitError) as error:
            raise TrialError(
                f"the lab {trial.spec.lab} gets no more memory after {done} iterations",
                fix="make chunks larger, or take fewer workers",
            ) from error
        end_s = max(ended_s for _, ended_s in ran.lasted_s.values())
        return Observed(
            trial=trial,
            counters=[Counters(link, round(count), 0, 0) for link, count in enumerate(ran.carried_bytes.tolist())],
            cpu=CpuLog(),
            lab={"lab": trial.spec.lab},
            differs=None,
            readings=readings,
            events=sorted(
                [*timeline.records(end_s), *ran.moves],
                key=lambda one: math.inf if one.begun_s is None else one.begun_s,  # it may be 0
            ),
            background=list(ran.flowed_bytes),
            circuits=timeline.history(end_s, ran.synchronised_bytes),
            lines=ran.lines,
            exits=[
                Exit(name, process.node, 0, *ran.lasted_s[job.name])
                for job in trial.jobs
                for name, process in job.members.items()
            ],
            courses={job.name: undisturbed(job) for job in trial.jobs},
            began={
                job.name: Began(job.own_slot.start_s, begun_s, begun_s, 0.0)
                for job in trial.jobs
                for begun_s, _ in [ran.lasted_s[job.name]]
            },
            dark_s=ran.dark_s,
            is_played=True,
            is_simulated=True,
        )

    def _network(self, trial: Trial, topology: Topology) -> Network:
        """Make the network, with segments as TCP makes them in other labs where these are smaller than usual. Larger
        ones only save processor time there."""
        network, settings = self._engine(topology), link_settings(trial.spec)
        goodput = trial.network.goodput
        segment_bytes = settings.packet_bytes(topology) / goodput
        if segment_bytes < LARGE_PACKET_BYTES[0] and isinstance(network, Queues):
            waiting_bytes = (settings.small_queue_bytes or 0) / goodput
            network.cut(segment_bytes, waiting_bytes or 2 * segment_bytes)
        return network

    def _played(
        self,
        trial: Trial,
        files: Files,
        timeline: ScheduleTimeline,
        flows: Sequence[Flow],
        ticks: Callable[[int], None],
    ) -> _Ran:
        seed, goodput, engine = trial.spec.seed, trial.network.goodput, partial(self._network, trial)
        first = trial.jobs[0]
        trace = first.workload.traced(trial.network.folder, first.world)
        if trace is not None or first.kind.simulation.is_by_message:
            network = engine(trial.topology)
            wires = Wires(trial.topology, network, timeline, seed=seed, goodput=goodput, flows=flows)

            def completed(iterations: int) -> None:
                timeline.completed(iterations, network.now_s)
                ticks(iterations)

            if trace is None:
                if isinstance(network, Queues):
                    network.grow()
                messages = Messages(trial.jobs, wires, completed, trial.repeat)
                said, lasted_s = messages.play(), messages.lasted_s
            else:
                said = simulated_jobs.play_ranks(first, trace, wires, files, DONE, completed)
                lasted_s = {first.name: (0.0, network.now_s)}
            return _Ran(said, lasted_s, network.carried_bytes(), wires.links.end_flows())
        arena = Arena(trial.topology, seed=seed, goodput=goodput, timeline=timeline, engine=engine, flows=flows)
        if trial.is_shared:
            jobs = Jobs(trial.jobs, arena)
            played = jobs.play(ticks)
            flowed_bytes = arena.links.end_flows()
            return _Ran(*_told(played), arena.carried_bytes(), flowed_bytes, jobs.records, jobs.dark_s)
        work = work_of(first)
        alone = Alone(first, work, Player(arena, work), timeline)
        timeline.sent_bytes = lambda: float(alone.sent_bytes().sum())
        for done in alone.iterations():
            ticks(done)
        flowed_bytes = arena.links.end_flows()
        each_bytes = timeline.sent_bytes() / first.iterations
        return _Ran(*_told([alone.played()]), alone.carried_bytes(), flowed_bytes, synchronised_bytes=each_bytes)

    def close(self) -> None:
        """Do nothing: nothing was started."""


def _told(played: Sequence[Played]) -> tuple[dict[str, Lines], dict[str, tuple[float, float]]]:
    """Return the lines of processes, and when jobs began and ended (s)."""
    told = {name: own for each in played for name, own in lines(each).items()}
    return told, {each.job.name: (each.begun_s, float(each.ends_s.max())) for each in played}


def _require_job(job: Job) -> None:
    lab = job.network.spec.lab
    if job.workload.program:
        _require_traced(job)
        return
    if not job.kind.simulation.knows(job.plan):
        raise SpecError(
            f"the lab {lab} cannot play {job.scheme_text} of kind {job.kind.name}",
            fix=f"take a scheme that it plays, such as ring, ssp, gloo, pbox or mlfabric_a, or {LABS}",
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
        ("priority", job.work.priority, job.kind.simulation.priorities),
    ):
        if value not in most:
            where = f" on {job.world:,} hosts" if job.kind.simulation.plays_one_class else ""
            raise SpecError(
                f"{key}: {value} is not simulated with {job.scheme_text}{where}", fix=f"remove {key}, or {LABS}"
            )
    if job.kind.simulation.plays_one_class and job.network.perturbations:
        raise SpecError(
            f"{job.scheme_text} on {job.world:,} hosts: one class is played for all, so nothing may happen to some of "
            "the hosts or links",
            fix=f"remove perturb, or take at most {MOST_HOSTS:,} hosts",
        )
    if job.played_messages > MOST_MESSAGES:
        raise _too_many(f"{job.scheme_text} sends", job.played_messages, lab)
    if job.network.arm.checkpoint is not None:
        raise SpecError(f"the lab {lab} writes no checkpoints", fix=f"remove checkpoint, or {LABS}")


def _require_together(trial: Trial) -> None:
    """Check that jobs which share a network are all played message by message, or none of them."""
    by_message = [job for job in trial.jobs if job.kind.simulation.is_by_message]
    others = [job for job in trial.jobs if not job.kind.simulation.is_by_message]
    if by_message and others:
        lab, first, other = trial.spec.lab, by_message[0], others[0]
        raise SpecError(
            f"the lab {lab} cannot play the job {first.name} ({first.scheme_text}) beside the job {other.name} "
            f"({other.scheme_text}): {first.scheme_text} is played message by message, and {other.scheme_text} is not",
            fix=f"give all jobs the scheme {first.scheme_text}, or none of them, or {LABS}",
        )


def _too_many(sent: str, messages: int, lab: str) -> SpecError:
    return SpecError(
        f"{sent} {messages:,} messages an iteration, of which the lab {lab} plays at most {MOST_MESSAGES:,}: it may "
        f"take {size_text(messages * MESSAGE_BYTES)} of memory",
        fix="make chunks larger (workload: {chunk: 10 MB}), or take fewer workers",
    )


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
        if why := _refused(perturbation, lab):
            raise SpecError(f"perturb: {perturbation.title}: {why}", fix=f"remove it, or {LABS}")
    schedule = trial.schedule()
    flows = flows_of(schedule.helpers)
    for stream in schedule.streams:
        if (event := next(stream, None)) is not None and not is_played(event, flows):
            raise SpecError(
                f"perturb: {event.kind}: the lab {lab} changes rates and delays of links, blocks them, moves circuits, "
                "sends flows of others and slows workers and their steps down, and nothing else",
                fix=f"remove it, or {LABS}",
            )


def _refused(perturbation: Perturbation, lab: str) -> str | None:
    """Say why a perturbation is not played; None if it is, as far as it tells without its events."""
    if perturbation.kills:
        return f"nothing is killed in the lab {lab}"
    if perturbation.stops:
        return f"nothing stands still in the lab {lab}"
    if perturbation.impairment is not None and not only_delays(perturbation.impairment):
        return f"the lab {lab} has no packets that are lost, overtake others or jitter; it changes delays alone"
    if perturbation.reconfiguration:
        return f"circuits that follow unsent bytes do not move in the lab {lab}"
    return None
