"""The record of a trial that has not got anywhere."""

from __future__ import annotations

from typing import Any

from testbed.analysis.record.fields import blank_of
from testbed.analysis.record.trial import TrialRecord
from testbed.analysis.record.version import SCHEMA
from testbed.trial.model import Trial


def blank(trial: Trial) -> dict[str, Any]:
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
