"""The record of a trial that has not got anywhere, and of one whose jobs share a network: each job's results, and the
verdict of the network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from testbed.analysis.jobs import JOB
from testbed.analysis.record.fields import blank_of
from testbed.analysis.record.trial import Slot as RecordedSlot
from testbed.analysis.record.trial import TrialRecord
from testbed.analysis.record.version import SCHEMA
from testbed.analysis.verdicts import INVALID, joint_verdict
from testbed.base.check import JCT, Check
from testbed.execution import results
from testbed.execution.observed import Observed, Outcome
from testbed.execution.starting import Began, spans
from testbed.fidelity import lower_bound
from testbed.trial.job import Job
from testbed.trial.model import Trial

OF_NETWORK = ("links", "queues", "probes", "round_trips")
"""Keys of a job's summary that are the same for all jobs of a trial."""
JobRecord = dict[str, Any]


def blank(job: Job) -> JobRecord:
    """Make the record of a job that has not got anywhere."""
    slot, nodes = job.own_slot, job.network.topology.nodes
    where = {
        JOB: job.name,
        "hosts": [nodes[host].name for host in slot.hosts],
        "served_by": [nodes[host].name for host in slot.served_by or ()],
        "after": list(slot.after),
        "planned_s": round(slot.planned_s, 6),
    }
    known = {
        "scheme": job.scheme_text,
        "kind": job.workload.kind,
        "moves": job.kind.name,
        "model": job.work.model,
        "scale": job.work.scale,
        "batch": job.batch,
        "iterations": job.iterations,
        "world": job.world,
    }
    return blank_of(RecordedSlot, where) | blank_of(TrialRecord, known, of_job=True)


def joined(trial: Trial, outcomes: Mapping[str, Outcome], seen: Observed) -> Outcome:
    """Make the outcome of a trial from those of its jobs, by their names. If a job is alone, it is that job's; of
    several, one has to be done, or the trial has failed as its first job has."""
    if not trial.is_shared:
        (only,) = outcomes.values()
        return only
    found = [_of_job(job, outcomes[job.name], seen) for job in trial.jobs]
    done = {name: one for name, one in outcomes.items() if one.error is None}
    if not done:
        return Outcome({}, lab=seen.lab, error=next(iter(outcomes.values())).error)
    *_, last = done.values()
    samples = {name: one.samples for name, one in done.items() if one.samples is not None}
    record = {key: last.record[key] for key in (*OF_NETWORK, "events")} | together(trial, found, samples)
    waited = results.queues_table(seen.queues, *window(samples.values()))
    return Outcome(record, lab=seen.lab, queues=waited, jobs=samples)


def _of_job(job: Job, outcome: Outcome, seen: Observed) -> JobRecord:
    """Make the record of a job: when it began, as far as it did, and its results."""
    record, began = blank(job), seen.began.get(job.name)
    if began is not None:
        record |= spans(began)
        if outcome.samples is not None:
            record["begun_s"] = begun_s(outcome.samples, began)
    if job.name in seen.dark_s:
        record["dark_s"] = round(seen.dark_s[job.name], 6)
    record |= outcome.record
    if outcome.error:
        record |= {"error": str(outcome.error), "by_perturb": outcome.error.by_perturb}
    else:
        record["status"] = "done"
    return {key: value for key, value in record.items() if key not in OF_NETWORK}


def begun_s(samples: pd.DataFrame, began: Began) -> float:
    """Return when a job's first iteration began, in seconds after the trial's beginning."""
    return round(window([samples])[0] - began.origin_s, 6)


def together(trial: Trial, jobs: Sequence[JobRecord], samples: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Return what a trial's record has of its jobs, of which one is done at least: their records; the whole trial's
    JCT, from the first start of a worker to the last end; and its verdict.

    A job's bytes have to pass every link besides those of the other jobs, so no JCT can be less than the time that a
    link takes for the bytes of all jobs.
    """
    start_s, end_s = window(samples.values())
    jct_s = end_s - start_s
    done = {job.name: job for job in trial.jobs if job.name in samples}
    least_s = _least_s(trial, list(done.values()))
    bound = Check(
        lower_bound.ABOUT.name,
        jct_s / least_s if least_s else None,
        1 - lower_bound.FASTER_TOGETHER,
        "of theory",
        jct_s >= (1 - lower_bound.FASTER_TOGETHER) * least_s,
        f"JCT of all jobs together is {jct_s / least_s:.3f} of what the busiest link takes for all their bytes"
        if least_s
        else "nothing is certain to take any time",
    )
    return {
        "metrics": {"jct_s": jct_s, "jct_bytes_s": least_s},
        "fidelity": _verdict([job for job in jobs if job["status"] == "done"], bound),
        "jobs": list(jobs),
    }


def window(tables: Iterable[pd.DataFrame]) -> tuple[float, float]:
    """Return when (s) the first worker started, and when the last one ended."""
    some = list(tables)
    return min(float(one["start_s"].min()) for one in some), max(float(one["end_s"].max()) for one in some)


def _least_s(trial: Trial, jobs: Sequence[Job]) -> float:
    """Return how long the busiest link takes for the bytes of all iterations of these jobs (s)."""
    total: NDArray[np.float64] = np.sum([job.cost.link_bytes * job.iterations for job in jobs], axis=0)
    return float(trial.network.shaper.least_s(total, jobs[0].cost.link_rate_bps).max())


def _verdict(jobs: Sequence[JobRecord], bound: Check) -> dict[str, Any]:
    """Join the verdicts of jobs: all checks, each with its job's name; the whole is INVALID or UNWATCHED if a number of
    one job is."""
    checks = [
        {**check, "detail": f"{job[JOB]}: {check['detail']}"} for job in jobs for check in job["fidelity"]["checks"]
    ]
    numbers = [number for job in jobs for number in job["fidelity"]["numbers"].values()]
    spoilt_by = {name: None for number in numbers for name in number["spoilt_by"]} | (
        {} if bound.ok else {bound.name: None}
    )
    verdict = INVALID if spoilt_by else joint_verdict(number["verdict"] for number in numbers)
    whole = {
        "verdict": verdict,
        "error": None,
        "bound_s": None,
        "certified": False,
        "spoilt_by": [*spoilt_by],
        "excused": [*dict.fromkeys(name for number in numbers for name in number["excused"])],
        "unwatched": [*dict.fromkeys(name for number in numbers for name in number["unwatched"])],
    }
    return {"verdict": verdict, "numbers": {JCT: whole}, "checks": [*checks, asdict(bound)]}


def blank_trial(trial: Trial) -> dict[str, Any]:
    """Make the record of a trial that has not got anywhere."""
    job = trial.jobs[0]
    work = job.known_work
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
        "model": work.model if work else None,
        "scale": work.scale if work else None,
        "batch": trial.batch,
        "repeat": trial.repeat,
        "point": dict(trial.point),
        "at": trial.at,
        "iterations": trial.iterations,
        "world": sum(one.world for one in trial.jobs),
        "links_settings": trial.spec.links.model_dump(),
    }
    return blank_of(TrialRecord, known)
