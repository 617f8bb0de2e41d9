"""The record of a trial whose jobs share a network: each job's results, and the verdict of the network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from testbed.analysis.jobs import JOB
from testbed.analysis.record.blank import blank_of
from testbed.analysis.record.trial import TrialRecord
from testbed.analysis.record.work import Slot as RecordedSlot
from testbed.analysis.verdicts import INVALID, joint_verdict
from testbed.base.check import JCT, Check
from testbed.execution.starting import Began, spans
from testbed.fidelity import lower_bound
from testbed.trial.job import Job, Slot
from testbed.trial.model import Trial

OF_NETWORK = ("links", "queues", "probes", "round_trips")
"""What a job's summary has that is the same for all jobs of a trial."""
JobRecord = dict[str, Any]


def blank(job: Job) -> JobRecord:
    """The record of a job that has not got anywhere."""
    slot, nodes = slot_of(job), job.network.topology.nodes
    where = {
        JOB: job.name,
        "hosts": [nodes[host].name for host in slot.hosts],
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


def slot_of(job: Job) -> Slot:
    """Of one that shares its network."""
    assert job.slot is not None
    return job.slot


def timed(record: JobRecord, began: Mapping[str, Began]) -> JobRecord:
    """A job's record with when it began; nothing of one that never did."""
    return record | (spans(began, record[JOB]) if record[JOB] in began else {})


def begun_s(samples: pd.DataFrame, began: Began) -> float:
    """When a job's first iteration began, in seconds after the trial's beginning."""
    return round(window([samples])[0] - began.origin_s, 6)


def together(trial: Trial, jobs: Sequence[JobRecord], samples: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """What a trial's record has of its jobs, of which one is done at least: their records; the whole trial's JCT, from
    the first start of a worker to the last end; and its verdict.

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
    """From the first start of a worker to the last end."""
    some = list(tables)
    return min(float(one["start_s"].min()) for one in some), max(float(one["end_s"].max()) for one in some)


def _least_s(trial: Trial, jobs: Sequence[Job]) -> float:
    """How long the busiest link takes for the bytes of all iterations of these jobs (s)."""
    total: NDArray[np.float64] = np.sum([job.cost.link_bytes * job.iterations for job in jobs], axis=0)
    return float(trial.network.shaper.least_s(total, jobs[0].cost.link_rate_bps).max())


def _verdict(jobs: Sequence[JobRecord], bound: Check) -> dict[str, Any]:
    """All checks, each with its job's name; the whole is INVALID or UNWATCHED if a number of one job is."""
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
