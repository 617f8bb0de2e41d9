"""Predictions for a job whose links had other rates for a while: the same job on an ideal network with the same
changes, as they really came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.trial.job import Job
from testbed.workloads.kinds.asked import Change
from testbed.workloads.kinds.base import Told


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
