"""Jobs that share a network, as an experiment plans them: where each runs, when, and how long at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.base.columns import Layout
from testbed.base.listing import shortened
from testbed.base.units import size_text, time_text
from testbed.trial.job import Job

HEADER = ("job", "scheme", "hosts", "batch", "gradient", "submitted", "begins", "after", "least GST", "least JCT")
SHOWN = 4
"""Hosts that a table names."""


def predicted_jobs(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """The predictions of a trial's jobs, for programs: ``planned_s`` is when a job begins if every job takes as long as
    predicted, ``start_s`` when it is submitted, both after the trial's beginning."""
    return [_predicted(job) for job in jobs]


def _predicted(job: Job) -> dict[str, Any]:
    slot, nodes = job.own_slot, job.network.topology.nodes
    return {
        "job": job.name,
        "scheme": slot.scheme,
        "model": job.work.model,
        "batch": job.batch,
        "iterations": job.iterations,
        "world": job.world,
        "hosts": [nodes[host].name for host in slot.hosts],
        "served_by": [nodes[host].name for host in slot.served_by or ()],
        "start_s": slot.start_s,
        "planned_s": slot.planned_s,
        "after": list(slot.after),
        "gradient_bytes": job.gradient_bytes,
        "gst_theory_s": job.gst_theory_s,
        "jct_theory_s": job.jct_theory_s,
        "wire_bytes_per_iteration": job.cost.wire_bytes,
    }


def jobs_lines(trial: Mapping[str, Any], lay_out: Layout) -> list[str]:
    """The jobs of a trial for people."""
    rows = [_row(job) for job in trial["jobs"]]
    return [f"jobs of {trial['trial']}", lay_out(HEADER, rows, spare=("gradient", "batch", "submitted")), ""]


def _row(job: Mapping[str, Any]) -> list[str]:
    least_s = job["jct_theory_s"]
    return [
        job["job"],
        f"service {job['scheme']}" if job["served_by"] else job["scheme"],
        shortened(job["hosts"], SHOWN),
        str(job["batch"]),
        size_text(job["gradient_bytes"]),
        time_text(job["start_s"]),
        time_text(job["planned_s"], measured=True),
        ", ".join(job["after"]) or "-",
        time_text(job["gst_theory_s"], measured=True),
        "-" if least_s is None else time_text(least_s, measured=True),
    ]
