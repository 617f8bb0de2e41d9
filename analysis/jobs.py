"""The records of a trial's jobs. A trial whose jobs share a network has one record; each job has its results there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

JOBS, JOB = "jobs", "job"
"""A record's key for its jobs, and a job's key for its name."""
Record = Mapping[str, Any]


def singly(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Each job as the record of a trial that has it alone, with the job's name in its id and its label; a trial without
    such jobs as it is."""
    found = []
    for record in records:
        shared = {key: value for key, value in record.items() if key != JOBS}
        for job in record.get(JOBS) or ():
            named = {"id": id_of(record["id"], job[JOB]), "label": label_of(record["label"], job[JOB])}
            found.append({**shared, **job, **named})
        if not record.get(JOBS):  # none, or the trial failed before any of them ended
            found.append(dict(record))
    return found


def id_of(trial: str, job: str) -> str:
    """Name a job's table of samples."""
    return f"{trial}+{job}"


def label_of(arm: str, job: str) -> str:
    """Label a job among the arms of other trials."""
    return f"{arm}: {job}"
