"""One trial in one lab: build the network, start the workers, wait, gather what was seen into the trial's record."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from testbed import fidelity
from testbed.analysis.metrics import median_of_means, rounds
from testbed.analysis.record.blank import blank_of
from testbed.analysis.record.trial import TrialRecord
from testbed.analysis.record.version import SCHEMA
from testbed.base.errors import DiskFullError, SpecError, TrialError, WorkerError
from testbed.base.process_names import in_job, of_job
from testbed.control import endings
from testbed.control.conductor import Record, timeline
from testbed.control.controller import Controller
from testbed.control.feed import Feed
from testbed.evidence import calibration, sum_check
from testbed.evidence.bounds import bounds as bounds_of
from testbed.evidence.calibration import Calibrated
from testbed.evidence.links import link_records
from testbed.evidence.referee import Referee
from testbed.evidence.spot_checks import Readings
from testbed.execution import (
    bursts,
    correctness,
    link_load,
    observing,
    programs,
    queues,
    results,
    scripts,
    several,
    supervise,
    transfers,
)
from testbed.execution.predicting import predicted
from testbed.execution.room import blame_full_disk, check_room, most_said_bytes, needed_bytes
from testbed.execution.so_far import SoFar
from testbed.execution.starting import Began, Starting
from testbed.execution.switching import Switching
from testbed.execution.working_files import working_files
from testbed.files.writing import named_errors
from testbed.lab.base import Lab
from testbed.lab.measurements import Counters, Queues
from testbed.machine.monitor import CpuLog
from testbed.machine.processes import ProcessLog
from testbed.perturb.circuits import History, moved_cost, reconfigured_cost
from testbed.recovery import phases
from testbed.recovery.deaths import Course, undisturbed
from testbed.recovery.deaths import record as record_of_deaths
from testbed.recovery.failover import Coordinator
from testbed.recovery.losses import Bystander
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.inputs import check_unchanged
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.workloads.kinds.base import Told

Lines = list[dict[str, Any]]
COMMAND = "command"
"""The kind of trial as which a script is told that shows no iterations."""
Tick = Callable[[int, SoFar], object]
"""Is told how many iterations the first worker has done, and may ask what else is known by now."""


@dataclass
class Observed:
    """What one trial left behind: each process's lines, the kernel's counts, the CPUs' log, the lab as read back
    with how many workers trained on which device, what the idle network did before, how the kernel's settings
    differed from what was asked for after, and what was read of them meanwhile, what was done to it on purpose, the
    bytes that each of its background flows sent, who died in each job (by the job's name), the circuits that it
    met, and what waited at egresses (None where the lab cannot tell), and whether processes stood still. Where jobs
    share the network: the lines of the bursts before, when each job began, for how long its hosts waited for its
    circuits, and why those failed that did."""

    lines: dict[str, Lines]
    counters: list[Counters]
    cpu: CpuLog
    lab: dict[str, Any]
    idle: Calibrated
    differs: str | None
    readings: Readings
    events: list[Record]
    background: list[int]
    courses: Mapping[str, Course]
    circuits: History
    queues: Queues | None
    processes: ProcessLog = field(default_factory=ProcessLog)
    before: Lines = field(default_factory=list)
    began: Mapping[str, Began] = field(default_factory=dict)
    dark_s: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, WorkerError] = field(default_factory=dict)

    def of(self, kind: str, job: Job | None = None) -> Lines:
        """The lines of one kind, each with its process's ``name``; of a job's processes, or of all."""
        return [
            {**line, "name": name}
            for name, lines in self.lines.items()
            if job is None or name in job.processes
            for line in lines
            if line["kind"] == kind
        ]


@dataclass(frozen=True)
class Outcome:
    """A finished trial: its record (the trial's JSON), its samples, the lab as read back, what waited at its egresses,
    and its transfers, if its kind plans them; of jobs that share a network, the samples of each, by its name."""

    record: dict[str, Any]
    samples: pd.DataFrame | None
    lab: dict[str, Any]
    queues: pd.DataFrame | None = None
    transfers: pd.DataFrame | None = None
    jobs: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def execute(trial: Trial, lab: Lab, referee: Referee, run_dir: Path, congestion_control: str, tick: Tick) -> Outcome:
    """Run a trial, and ``tick`` while it runs; one that fails has an Outcome too, with ``status`` failed and why,
    and its lab is closed.

    Raises:
        PrivilegeError, DiskFullError, OutputError: what would fail every other trial as well.
        ChangedError: a file that the trial reads was changed since it was planned, or while it ran.
    """
    check_unchanged(trial)
    started, began_s = datetime.now(UTC), time.monotonic()
    record = blank(trial) | {"started": started.isoformat(timespec="seconds")}
    samples, described, waited, carried = None, {}, None, None
    of_jobs: dict[str, pd.DataFrame] = {}
    check_room(run_dir, needed_bytes(trial))
    with working_files(run_dir, trial) as files:
        lab.share(files.work, [trial.network.folder] if trial.spec.workload.program else [])
        try:
            if trial.is_shared:
                seen = observe(trial, lab, files, congestion_control, tick)
                described = seen.lab
                with _told_by_workers():
                    found, of_jobs = _of_jobs(trial, seen, referee, files)
                record |= found
                waited = queues.table(seen.queues, *several.window(of_jobs.values()))
            elif trial.job.is_synchronised:
                seen = observe(trial, lab, files, congestion_control, tick)
                described = seen.lab
                with _told_by_workers():
                    told = attributed(trial.job, seen)
                    samples = told.samples
                    if trial.job.work.is_trained:
                        correctness.check_loss(told.samples, trial.job.losing)
                    record |= summary(trial, trial.job, seen, told)
                    start_s, end_s = float(samples["start_s"].min()), float(samples["end_s"].max())
                    waited = queues.table(seen.queues, start_s, end_s)
                    carried = transfers.table(told.transfers, start_s)
                    _check(trial.job, seen, told, referee, files, record)
            else:
                ran = programs.observe(trial, lab, files, congestion_control)
                described = ran.observed.lab
                with _told_by_workers():
                    found, samples = _of_program(trial, ran, files)
                record |= found
                window = programs.window(ran) if samples is None else several.window([samples])
                waited = queues.table(ran.observed.queues, *window)
            record["status"] = "done"
            record["strikes"] = list(map(asdict, trial.strikes(record["metrics"]["jct_s"])))
        except DiskFullError:
            raise
        except TrialError as error:
            lab.close()
            blame_full_disk(trial, run_dir)
            record |= {"error": str(error), "events": list(error.events), "by_perturb": error.by_perturb}
    check_unchanged(trial)
    record["duration_s"] = round(time.monotonic() - began_s, 3)
    return Outcome(record, samples, described, waited, carried, of_jobs)


def _of_program(trial: Trial, ran: programs.Ran, files: Files) -> tuple[dict[str, Any], pd.DataFrame | None]:
    """The results of a trial whose ranks are a program's, and its samples, if they told of iterations."""
    account = scripts.account(trial, files)
    if account is None or account.found.samples is None:
        told = {} if account is None else account.record
        failed = None if account is None else account.found.failed
        return {**programs.summary(trial, ran, failed), **told, "moves": COMMAND}, None
    done = account.as_run
    around = ran.observed
    seen = Observed(
        lines=account.lines,
        counters=around.counters,
        cpu=around.cpu,
        lab=around.lab,
        idle=ran.idle,
        differs=around.differs,
        readings=around.readings,
        events=around.events,
        background=around.sent,
        courses={done.job.name: undisturbed(done.job)},
        circuits=around.history,
        queues=around.queues,
        processes=around.processes,
        before=ran.probes,
    )
    record = summary(done, done.job, seen, Told(account.found.samples, failed=account.found.failed))
    setup_s = float(account.found.samples["start_s"].min()) - programs.window(ran)[0]
    metrics = {**record["metrics"], **account.found.metrics, "setup_s": setup_s}
    return {**record, **account.record, "metrics": metrics, "iterations": done.iterations}, account.found.samples


def _of_jobs(
    trial: Trial, seen: Observed, referee: Referee, files: Files
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """The results of jobs that share a network, and the samples of those that are done.

    Raises:
        TrialError: none is done.
    """
    found: list[dict[str, Any]] = []
    samples: dict[str, pd.DataFrame] = {}
    network: dict[str, Any] = {}
    errors: list[TrialError] = []
    for job in trial.jobs:
        record = several.timed(several.blank(job), seen.began)
        if job.name in seen.dark_s:
            record["dark_s"] = round(seen.dark_s[job.name], 6)
        try:
            if job.name in seen.failed:
                raise seen.failed[job.name]
            told = attributed(job, seen)
            record["begun_s"] = several.begun_s(told.samples, seen.began[job.name])
            if job.work.is_trained:
                correctness.check_loss(told.samples, job.losing)
            record |= summary(trial, job, seen, told)
            _check(job, seen, told, referee, files, record)
            network = {key: record[key] for key in (*several.OF_NETWORK, "events")}
            samples[job.name] = told.samples
            record |= {"status": "done"}
        except TrialError as error:
            record |= {"error": str(error)}
            errors.append(error)
        found.append({key: value for key, value in record.items() if key not in several.OF_NETWORK})
    if not samples:
        raise errors[0]
    return network | several.together(trial, found, samples), samples


@contextmanager
def _told_by_workers() -> Iterator[None]:
    """Lines of workers that have the right form may still not go together. The spec is not at fault, which was checked
    before: the next trial may be right.

    Raises:
        TrialError: they do not.
    """
    try:
        yield
    except (ArithmeticError, LookupError, SpecError, TypeError, ValueError) as error:
        said, *_ = str(error).splitlines() or [""]
        raise TrialError(
            f"what the workers wrote does not go together ({type(error).__name__}: {said[:200]})",
            fix="see whether a worker writes something else than its samples; then run the trial again",
        ) from error


def _check(job: Job, seen: Observed, told: Told, referee: Referee, files: Files, record: dict[str, Any]) -> None:
    """Add to the record whether a job's sums and weights are right.

    Raises:
        TrialError: sums or weights are wrong.
    """
    course, done = seen.courses[job.name], seen.of("done", job)
    if not job.work.is_trained:
        record["sums"] = correctness.sums(job, done)
        correctness.check_sums(done, job.floats)
        return
    if job.kind.sums_together and job.work.is_sketched:
        looked_at = correctness.added(job, course, done)
        record["sums"] = correctness.storable(looked_at.record())
        sum_check.check(looked_at, correctness.expected_sums(job, course))
    found = correctness.accuracy(job, course, done, told, referee, files)
    record["accuracy"] = correctness.storable(found)
    correctness.check_weights(found)


def blank(trial: Trial) -> dict[str, Any]:
    """The record of a trial that has not got anywhere."""
    job = trial.jobs[0]
    known = {
        "schema": SCHEMA,
        "id": trial.id,
        "identity": trial.identity,
        "inputs": dict(trial.inputs),
        "label": trial.label,
        "topology": trial.network.topology_text,
        "scheme": ", ".join(dict.fromkeys(one.scheme_text for one in trial.jobs)),
        "kind": job.workload.kind,
        "moves": job.kind.name,
        "model": job.work.model if job.is_synchronised else None,
        "scale": job.work.scale if job.is_synchronised else None,
        "batch": trial.batch,
        "repeat": trial.repeat,
        "point": dict(trial.point),
        "at": trial.at,
        "iterations": trial.iterations,
        "world": sum(one.world for one in trial.jobs),
        "links_settings": trial.spec.links.model_dump(),
    }
    return blank_of(TrialRecord, known)


def observe(trial: Trial, lab: Lab, files: Files, congestion_control: str, tick: Tick) -> Observed:
    """Build, run and take down; a lab in which that failed is for the caller to close.

    Raises:
        TrialError: the lab is not as asked, a worker died, or nothing happened for too long.
    """
    settings = link_settings(trial.spec, congestion_control)
    pairs, moves = job_files.host_pairs(trial), job_files.moves_for_jobs(trial)
    lab.up(trial.topology, settings, job_files.joined(trial.topology, pairs) if moves else pairs)
    with named_errors(files.work):
        agent = lab.agent() if any(job.software.needs_agent(job.plan) for job in trial.jobs) else ()
        launches = job_files.write(trial, files, congestion_control, agent)
    idle = calibration.measure(trial.topology, lab, settings)
    names = [launch.process for launch in launches]
    switching = Switching(lab, trial.topology, pairs) if moves else None
    starting = Starting(trial.jobs, launches, lab, files, switching) if trial.is_shared else None
    before = bursts.measured(trial, lab, files, bursts.probers(trial, files, congestion_control)) if starting else []
    coordinators = {job.name: Coordinator(job, files, lab, congestion_control) for job in trial.jobs if job.goes_on}
    bystanders = {job.name: Bystander(job, files, lab) for job in trial.jobs if job.survives}

    first = trial.jobs[0]
    workers = {name: files.samples(name) for name in first.workers} if first.kind.sums_together else {}

    def train(feed: Feed, readings: Readings) -> None:
        so_far = SoFar(feed, readings, workers, first.work.warmup)
        progress = supervise.Progress(lambda done: tick(done, so_far))
        controllers: list[Controller] = [progress, *coordinators.values(), *bystanders.values()]
        if starting:
            starting.postpone(feed)
            controllers.append(starting)
        else:
            lab.launch(launches)
        supervise.wait(lab, feed, files, trial.spec.timeout_s, trial.spec.start_timeout_s, controllers)

    try:
        _, around = observing.observe(trial, lab, files, train, {name: files.samples(name) for name in names})
    finally:
        if switching:
            switching.close()
    courses = {job.name: undisturbed(job) for job in trial.jobs}
    courses |= {name: one.course for name, one in coordinators.items()}
    courses |= {name: one.course(around.events) for name, one in bystanders.items()}
    seen = Observed(
        lines={
            process: endings.read_checked(files.samples(process), most_said_bytes(job), job.kind)
            for job in trial.jobs
            for process in job.processes
        },
        counters=around.counters,
        cpu=around.cpu,
        lab=around.lab,
        idle=idle,
        differs=around.differs,
        readings=around.readings,
        events=[*around.events, *(switching.records if switching else ())],
        background=around.sent,
        courses=courses,
        circuits=around.history,
        queues=around.queues,
        processes=around.processes,
        before=before,
        began=starting.began if starting else {},
        dark_s=switching.dark_s if switching else {},
        failed=starting.failed if starting else {},
    )
    for name in ("device", "mover"):
        seen.lab[f"{name}s"] = Counter(line[name] for line in seen.of("hello") if line.get(name))
    lab.down()
    return seen


def attributed(job: Job, seen: Observed) -> Told:
    """The samples that counted, as the job's processes tell of them together.

    Raises:
        WorkerError: one is missing, or processes contradict each other, or one has told what another one has to tell.
    """
    table, course = results.table(seen.of("iteration", job)), seen.courses[job.name]
    if job.kind.sums_together:
        table = phases.attribute(table, course.phases, course.dead, course.behind)
    last, journals = seen.of("done", job), journal(job, seen.of("journal", job))
    said = [{**line, "name": in_job(job.name, line["name"])} for line in (*last, *journals)]
    return job.kind.told(job.plan, table, said, job.iterations)


def journal(job: Job, lines: Lines) -> Lines:
    """These lines of journals, of processes that keep one.

    Raises:
        WorkerError: another one has written some.
    """
    own = {of_job(job.name, process) for process in job.reports.journals(job.plan)}
    others = sorted({line["name"] for line in lines} - own)
    if others:
        raise WorkerError(
            f"{others[0]} has written a journal, which is for {' or '.join(sorted(own)) or 'no process'} to write",
            fix="see who else writes into its file of samples",
        )
    return lines


def summary(trial: Trial, job: Job, seen: Observed, told: Told) -> dict[str, Any]:
    """Metrics, loss and fidelity of a job whose workers all ended well, and the trial's links."""
    samples = told.samples
    job, courses = as_run(job, seen.circuits, told), dict(seen.courses)
    if not courses[job.name].deaths:
        courses[job.name] = undisturbed(job, courses[job.name].losses)  # with the cost of what it met
    probes = seen.of("probe")
    ours = [link_load.probed_bytes(trial, probes), link_load.background_bytes(trial, seen.background)]
    others = {link: sum(one.get(link, 0.0) for one in ours) for link in {*ours[0], *ours[1]}}
    course, start_s, end_s = courses[job.name], float(samples["start_s"].min()), float(samples["end_s"].max())
    events = timeline(seen.events, start_s)
    bounds = bounds_of(job, samples, course.phases, events) if job.kind.sums_together else None
    extra = link_load.extra_bytes(trial, seen.of("done"), probes, seen.circuits)
    loss = rounds(samples).groupby("iteration")["loss"].mean()
    found = fidelity.Seen(
        trial=trial,
        job=job,
        samples=samples,
        window=(start_s, end_s),
        rates=[*map(results.burst, [*seen.before, *probes]), *seen.idle.rates],
        expected_rates=len(trial.topology.bursts) + len(seen.idle.rates),
        round_trips=seen.idle.round_trips,
        links=link_records(
            trial,
            [one.phases for name, one in courses.items() if name not in seen.failed],
            seen.counters,
            others,
            extra,
        ),
        cpu=seen.cpu,
        processes=seen.processes,
        done=seen.of("done", job),
        aggregators={line["name"] for line in seen.of("hello", job) if line["rank"] is None},
        differs=seen.readings.differs(start_s, seen.differs),
        in_mid_run=seen.readings.within(start_s, end_s),
        events=events,
        course=course,
        bounds=bounds,
        spoilt_bytes=told.spoilt_bytes + _broken_off_bytes(trial, seen),
        clocks_s=seen.lab.get("clock_uncertainty_s") or 0.0,
        failed=told.failed,
    )
    is_broken = bool(not course.is_whole or course.losses or seen.background or len(seen.circuits) > 1)
    is_disturbed = is_broken or any(event.get("links") for event in events)
    path = () if is_disturbed else job.critical_path
    # What a process that died had sent is not known.
    sent = sent_bytes([line["wire_bytes"] for line in seen.of("done", job)]) if course.is_whole else None
    return {
        "metrics": results.measure(job, samples, course.phases, bounds, sent)
        | {name: median_of_means(samples, name, job.work.warmup) for name in told.medians}
        | {"gst_uncertainty_s": seen.lab.get("clock_uncertainty_s"), **told.metrics}
        | dict({} if is_broken else predicted(job, events, told)),
        "loss": None if samples["loss"].isna().all() else [float(loss.iloc[0]), float(loss.iloc[-1])],
        "links": found.links,
        **({"pairs": results.pairs(job, told.pairs)} if told.pairs else {}),
        **({"critical_path": list(map(asdict, path))} if path else {}),
        "queues": queues.record(seen.queues),
        "events": events,
        "probes": found.rates,
        "round_trips": found.round_trips,
        "fidelity": fidelity.judge(found),
        "failover": record_of_deaths(course, samples, told.lost_updates),
        "congestion_control": sorted({line["congestion_control"] for line in seen.of("hello", job)}),
        "checkpoints": _checkpoints(seen.of("done", job)) if job.checkpoints else None,
        "max_rss_bytes": max(line["max_rss_bytes"] for line in seen.of("done", job)),
    }


def _broken_off_bytes(trial: Trial, seen: Observed) -> float:
    """The most that jobs which failed can have put on any link; what they did put there is not known."""
    return sum(float(job.cost.link_bytes.max()) * job.iterations for job in trial.jobs if job.name in seen.failed)


def _checkpoints(done: Lines) -> dict[str, Any]:
    """How many each process wrote, and what they came to together."""
    wrote = [line for line in done if "checkpoints" in line]
    return {
        "processes": sum(line["checkpoints"] > 0 for line in wrote),
        "count": max((line["checkpoints"] for line in wrote), default=0),
        "bytes": sum(line["checkpoint_bytes"] for line in wrote),
        "longest_s": max((line["checkpoint_s"] for line in wrote), default=0.0),
    }


def as_run(job: Job, history: History, told: Told) -> Job:
    """The job with the cost of what its synchronisations met, if circuits moved meanwhile, or if that is known only
    afterwards."""
    found = job.kind.cost_as_run(job.plan, job.network.topology, job.gradient_bytes, told)
    if found is None and len(history) > 1 and history[0].carried is not None:
        found = reconfigured_cost(job.plan, history, job.iterations, job.gradient_bytes)
    elif found is None and len(history) > 1:
        by = told.samples.groupby("iteration")
        windows = list(zip(by["ready_s"].min(), by["sum_s"].max(), strict=True))
        found = moved_cost(job.plan, history, windows, job.gradient_bytes)
    return job if found is None else replace(job, cost=found)


def sent_bytes(counts: Sequence[int | None]) -> int | None:
    """What all processes together handed to TCP; None where a library does not say."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
