"""The account of a job that was observed: its samples, as its processes tell of them together, its metrics and its
fidelity, and whether its sums and weights are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from testbed import fidelity
from testbed.analysis.metrics import median_of_means, rounds
from testbed.base.errors import SpecError, TrialError, WorkerError
from testbed.base.process_names import in_job, of_job
from testbed.control.conductor import timeline
from testbed.evidence import sum_check
from testbed.evidence.bounds import bounds as bounds_of
from testbed.evidence.links import link_records
from testbed.evidence.referee import Referee
from testbed.execution import correctness, link_load, results, scripts, several
from testbed.execution.observed import Lines, Observed, Outcome
from testbed.perturb.circuits import reconfigured_cost
from testbed.recovery.deaths import Course, switches, undisturbed
from testbed.recovery.deaths import record as record_of_deaths
from testbed.trial import phases
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.workloads.kinds.asked import Change
from testbed.workloads.kinds.base import Told


def account(trial: Trial, job: Job, seen: Observed, referee: Referee, files: Files) -> Outcome:
    """Make a job's outcome: its record, samples and tables. For a job that failed, they hold what is known, and why it
    failed."""
    outcome = Outcome({}, lab=seen.lab)
    try:
        if job.name in seen.failed:
            raise seen.failed[job.name]
        with told_by_processes():
            _account(trial, job, seen, referee, files, outcome)
    except TrialError as error:
        outcome.error = error
    return outcome


def _account(trial: Trial, job: Job, seen: Observed, referee: Referee, files: Files, outcome: Outcome) -> None:
    more: dict[str, Any] = {}
    is_ours = job.workload.program is None  # else nobody can repeat what its processes did
    if is_ours:
        told = attributed(job, seen)
    else:
        job, told, more = scripts.told(trial, job, seen, files)
        trial = replace(trial, jobs=(job,))
        # How many iterations a program does is known only now.
        seen = replace(seen, courses={**seen.courses, job.name: undisturbed(job, seen.courses[job.name].losses)})
    outcome.samples = None if told.samples.empty else told.samples
    is_checked = is_ours and not seen.is_played
    if is_checked and job.work.is_trained:
        correctness.check_loss(told.samples, job.losing)
    outcome.record |= summary(trial, job, seen, told) | more
    start_s, end_s = window(job, seen, told)
    outcome.queues = results.queues_table(seen.queues, start_s, end_s)
    outcome.transfers = results.transfers_table(told.transfers, start_s)
    if told.calls is not None:
        moments = ("asked_s", "came_s", "done_s")
        outcome.collectives = told.calls.assign(**{name: told.calls[name] - start_s for name in moments})
    if is_checked:
        check(job, seen, told, referee, files, outcome.record)


@contextmanager
def told_by_processes() -> Iterator[None]:
    """Raise errors about lines that do not go together as a failure of the trial. Workers' lines of the right form may
    still contradict each other. The spec is not at fault, which was checked before: the next trial may be right.

    Raises:
        TrialError: lines do not go together.
    """
    try:
        yield
    except (ArithmeticError, LookupError, SpecError, TypeError, ValueError) as error:
        said, *_ = str(error).splitlines() or [""]
        raise TrialError(
            f"what the workers wrote does not go together ({type(error).__name__}: {said[:200]})",
            fix="see whether a worker writes something else than its samples; then run the trial again",
        ) from error


def attributed(job: Job, seen: Observed) -> Told:
    """Return the samples that counted, as the job's processes tell of them together.

    Raises:
        WorkerError: a sample is missing, or processes contradict each other, or one has told what another has to tell.
    """
    table, course = results.table(seen.of("iteration", job)), seen.courses[job.name]
    if job.kind.sums_together:
        table = phases.attribute(table, course.phases, course.dead, course.behind)
    last, journals = seen.of("done", job), journal(job, seen.of("journal", job))
    said = [{**line, "name": in_job(job.name, line["name"])} for line in (*last, *journals)]
    return job.kind.told(job.plan, table, said, job.iterations)


def journal(job: Job, lines: Lines) -> Lines:
    """Return these lines of journals, of which only processes that keep a journal may have written some.

    Raises:
        WorkerError: another process has written some.
    """
    own = {of_job(job.name, process) for process in job.kind.reports.journals(job.plan)}
    others = sorted({line["name"] for line in lines} - own)
    if others:
        raise WorkerError(
            f"{others[0]} has written a journal, which is for {' or '.join(sorted(own)) or 'no process'} to write",
            fix="see who else writes into its file of samples",
        )
    return lines


def summary(trial: Trial, job: Job, seen: Observed, told: Told) -> dict[str, Any]:
    """Return metrics, loss and fidelity of a job that has ended well, and the trial's links. If its processes tell
    nothing of iterations, its JCT is the only metric: from the first start of a worker to the last end."""
    start_s, end_s = window(job, seen, told)
    told_of = not told.samples.empty
    courses = dict(seen.courses)
    if told_of:
        courses[job.name] = as_run(courses[job.name], seen, told)
        if not courses[job.name].deaths:
            job = phases.on_average(courses[job.name].phases)
    course, probes, done = courses[job.name], seen.of("probe"), seen.of("done", job) if told_of else []
    ours = [link_load.probed_bytes(trial, probes), link_load.background_bytes(trial, seen.background)]
    others = {link: sum(one.get(link, 0.0) for one in ours) for link in {*ours[0], *ours[1]}}
    # The most that jobs which failed can have put on any link; how many they did put there is not known.
    failed = [each for each in trial.jobs if each.name in seen.failed]
    broken_off_bytes = sum(float(each.cost.link_bytes.max()) * each.iterations for each in failed)
    events = timeline(seen.events, start_s)
    found = fidelity.Seen(
        trial=trial,
        job=job,
        told=told,
        window=(start_s, end_s),
        rates=[*map(results.burst, [*seen.before, *probes]), *seen.idle.rates],
        expected_rates=len(trial.topology.bursts) + len(seen.idle.rates),
        round_trips=seen.idle.round_trips,
        links=link_records(
            trial,
            [one.phases for name, one in courses.items() if name not in seen.failed],
            seen.counters,
            others,
            link_load.extra_bytes(trial, seen.of("done") if told_of else [], probes, seen.circuits),
        ),
        cpu=seen.cpu,
        processes=seen.processes,
        done=done,
        aggregators={line["name"] for line in seen.of("hello", job) if line["rank"] is None} if told_of else (),
        differs=seen.readings.differs(start_s, seen.differs),
        in_mid_run=seen.readings.within(start_s, end_s),
        events=events,
        course=course,
        bounds=bounds_of(job, told.samples, course.phases, events) if told_of and job.kind.sums_together else None,
        spoilt_bytes=told.spoilt_bytes + broken_off_bytes,
        clocks_s=seen.lab.get("clock_uncertainty_s") or 0.0,
        is_simulated=seen.is_simulated,
        machines=seen.lab.get("underlay") or (),
    )
    of_samples = _of_samples(found, seen) if told_of else {"metrics": {"jct_s": end_s - start_s}}
    return {
        **of_samples,
        "links": link_load.recorded(job, found.links),
        "queues": results.queues_record(seen.queues),
        "events": events,
        "probes": found.rates,
        "round_trips": found.round_trips,
        "fidelity": fidelity.judge(found),
    }


def window(job: Job, seen: Observed, told: Told) -> tuple[float, float]:
    """Return when (s) a job's first iteration began and its last one ended; where no process tells of iterations, when
    its first worker was started and the last one ended."""
    if told.samples.empty:
        return seen.lasted(job)
    return several.window([told.samples])


def _of_samples(found: fidelity.Seen, seen: Observed) -> dict[str, Any]:
    """Return the record's entries about a job whose processes tell of iterations."""
    job, told, course, events, done = found.job, found.told, found.course, found.events, found.done
    is_broken = bool(not course.is_whole or seen.background or len(seen.circuits) > 1 or len(course.phases) > 1)
    is_disturbed = is_broken or any(event.get("links") for event in events)
    path = () if is_disturbed else job.critical_path
    # What a process that died had sent is not known.
    sent = sent_bytes([line["wire_bytes"] for line in done]) if course.is_whole else None
    loss = rounds(told.samples).groupby("iteration")["loss"].mean()
    return {
        "metrics": results.measure(job, told.samples, course.phases, found.bounds, sent)
        | {name: median_of_means(told.samples, name, job.work.warmup) for name in told.medians}
        | {"gst_uncertainty_s": seen.lab.get("clock_uncertainty_s"), **told.metrics}
        | dict({} if is_broken else predicted(job, events, told)),
        "loss": None if told.samples["loss"].isna().all() else [float(loss.iloc[0]), float(loss.iloc[-1])],
        **({"pairs": results.pairs(job, told.pairs)} if told.pairs else {}),
        **({"critical_path": list(map(asdict, path))} if path else {}),
        "failover": record_of_deaths(course, told.samples, told.lost_updates),
        **({"tuning": list(seen.tuning[job.name])} if job.name in seen.tuning else {}),
        **({"phases": switched} if (switched := switches(course, told.samples)) else {}),
        "congestion_control": sorted({line["congestion_control"] for line in seen.of("hello", job)}),
        "checkpoints": _checkpoints(done) if job.checkpoints else None,
        "max_rss_bytes": max(line["max_rss_bytes"] for line in done),
    }


def check(job: Job, seen: Observed, told: Told, referee: Referee, files: Files, record: dict[str, Any]) -> None:
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


def _checkpoints(done: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count the processes that wrote checkpoints, and the checkpoints of the one that wrote most; add up the bytes of
    all, and find the longest time (s)."""
    wrote = [line for line in done if "checkpoints" in line]
    return {
        "processes": sum(line["checkpoints"] > 0 for line in wrote),
        "count": max((line["checkpoints"] for line in wrote), default=0),
        "bytes": sum(line["checkpoint_bytes"] for line in wrote),
        "longest_s": max((line["checkpoint_s"] for line in wrote), default=0.0),
    }


def as_run(course: Course, seen: Observed, told: Told) -> Course:
    """Return the course with the costs that its synchronisations met: those of circuits that moved meanwhile are phases
    of their own, and some costs are known only afterwards."""
    job, history = course.phases[0].job, seen.circuits
    cost = job.kind.cost_as_run(job.plan, job.network.topology, job.gradient_bytes, told)
    if cost is None and len(history) > 1 and history[0].carried is not None:
        cost = reconfigured_cost(job.plan, history, job.iterations, job.gradient_bytes)
    if cost is not None:
        return replace(course, phases=(replace(course.phases[0], job=replace(job, cost=cost)), *course.phases[1:]))
    if len(history) == 1:
        return course
    by: pd.DataFrame = told.samples.groupby("iteration").agg({"ready_s": "min", "sum_s": "max"})
    windows = dict(zip(by.index, by.itertuples(index=False, name=None), strict=True))
    counted_bytes = _bytes_of_one_job(seen) if len(course.phases) == 1 else None
    split = [each for phase in course.phases for each in phases.over_circuits(phase, history, windows, counted_bytes)]
    return replace(course, phases=tuple(split))


def _bytes_of_one_job(seen: Observed) -> tuple[float, float] | None:
    """Add up what links had carried before the first iteration, when NICs were measured, and in all; None where they
    also carried something else than one job."""
    if len(seen.trial.jobs) > 1 or seen.background or not seen.counters:
        return None
    before = link_load.probed_bytes(seen.trial, seen.of("probe"))
    return sum(before.values()), float(sum(count.bytes for count in seen.counters))


def sent_bytes(counts: Sequence[int | None]) -> int | None:
    """Add up the bytes that all processes handed to TCP; None where a library does not say."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def predicted(job: Job, events: Sequence[Mapping[str, Any]], told: Told) -> Mapping[str, float]:
    """Return predicted numbers by names of metrics; none if links were blocked, or nobody knows how they changed.

    Args:
        events: events of the trial's record, see :func:`testbed.control.conductor.timeline`.
    """
    changes = rate_changes(events)
    return {} if changes is None else job.predicted(changes, told.norms)


def rate_changes(events: Sequence[Mapping[str, Any]]) -> list[Change] | None:
    """List the changes of rates, each at the moment it was done; None if a link was blocked, or a change has failed or
    was not done in the end."""
    begun = [event for event in events if event.get("links") and event["begun_s"] is not None]
    if any(event["links"]["blocked"] or event["error"] or event["done_s"] is None for event in begun):
        return None
    ordered = sorted(begun, key=lambda event: float(event["done_s"]))
    return [
        Change(event["done_s"], {int(link): float(rate) for link, rate in event["links"]["rate_bps"].items()})
        for event in ordered
    ]
