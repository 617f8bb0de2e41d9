"""Conditions that trials meet besides their network and scheme, and what of them should make their owner think, before
they run: doubts about links and machine, and what is expected of jobs that share a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from testbed.base.columns import Layout
from testbed.base.listing import shortened
from testbed.base.units import rate_text, size_text, time_text
from testbed.experiment.provenance import congestion_control
from testbed.machine.cgroups import limits
from testbed.perturb.kinds.base import Perturbation
from testbed.perturb.moments import Moment
from testbed.topologies.model import Topology
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.workloads.sync.cost import Shaper

MOST_AT_ONCE = 0.1
"""The share of a link's bytes that may pass before its rate counts. At a quarter, a GST was 0.79 to 0.90 of bytes over
rate (:func:`testbed.trial.network.shaper`); at a tenth it can be wrong by a tenth, and repeats scatter by less."""
PASSING_ON_S = 0.0005
"""About how much longer than its bound a synchronisation takes, however few its bytes: processes are woken, and pass
chunks on. On two hosts and two cores, 0.3 to 0.9 ms at 300 Mbit/s and 1 Gbit/s (``benchmarks/two_hosts.py``)."""
_WHOLE_BYTES = 2**40
"""A chunk so large that no part of a gradient is cut."""
SHOWN = 3
"""Trials that a line names."""
_TEXTS: dict[str, Callable[[Any], str]] = {"_s": time_text, "_bps": rate_text, "_bytes": size_text}
"""Functions that write a field's value, by the end of its name."""


def met(trial: Trial) -> dict[str, Any]:
    """Return what a trial meets, in base units; of programs that synchronise by themselves, what is known. In
    simulated time there is no kernel, but memory for each message."""
    links, job = trial.spec.links, trial.jobs[0]
    work = job.known_work
    always = {
        "warmup": work.warmup if work else None,
        "perturbations": [perturbation_text(one) for one in trial.network.perturbations],
    }
    chunk = {"chunk_bytes": job.chunk_bytes if work else None}
    if trial.spec.place.plays:
        from testbed.execution.simulated import MESSAGE_BYTES  # what plays the trial is loaded only if it does

        messages = sum(each.played_messages for each in trial.jobs)
        return always | chunk | {"messages": messages, "memory_bytes": messages * MESSAGE_BYTES}
    kernel = {
        "queue_bytes": links.queue_bytes,
        "congestion_control": links.congestion_control or congestion_control(trial.spec),
        "mtu": links.mtu,
    }
    return always | kernel | chunk


def perturbation_text(one: Perturbation) -> str:
    """``kill: nodes h4, at iteration 5``: its name, the keys that the spec gives, and when it begins and ends."""
    fields = type(one).model_fields
    given = [
        name
        for name in fields
        if name not in ("name", "kind") and (name in one.model_fields_set or isinstance(getattr(one, name), Moment))
    ]
    kind = [one.kind] if one.name else []  # type: ignore[attr-defined]  # every kind has the key
    words = [f"{fields[name].alias or name} {_text(name, getattr(one, name))}" for name in given]
    return f"{one.title}: {', '.join([*kind, *words])}"


def _text(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(_text(name, item) for item in value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {item}' for key, item in value.items())}}}"
    write = next((write for end, write in _TEXTS.items() if name.endswith(end)), str)
    return write(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def warnings(trials: Sequence[Trial]) -> list[str]:
    """List what makes numbers of these trials mean less than they seem to, each in a sentence with what to change."""
    firsts = [trial for trial in trials if not trial.repeat]
    cores = limits().cores
    crowded = [trial for trial in firsts if _computing(trial) > cores]
    paced = "give their time with compute: {mode: paced, ...}"
    fix = (
        "take fewer hosts, or machines of your own" if any(trial.spec.workload.program for trial in crowded) else paced
    )
    measured = [] if trials[0].spec.place.plays else firsts
    found: dict[str, list[Trial]] = {
        f"more than {MOST_AT_ONCE:.0%} of the bytes pass links at once, before their rates count, because the gradient "
        "is small for the rate; take a larger model, a smaller scale or a lower rate": [*filter(_is_small, measured)],
        f"more workers compute in real time than there are cores here ({cores:g}), so they slow each other down; "
        f"{fix}": crowded,
        "one iteration is left after the warm-up, and a median of one says nothing of scatter; give more iterations":
            [*filter(_has_one_iteration, measured)],
        "parts of the gradient have fewer chunks than parallel circuits join two hosts, so that some circuits may "
        "idle; give a smaller chunk": [one for one in firsts if one.topology.panels and _has_few_chunks(one)],
        "parts of the gradient have fewer chunks than a server has NICs, so that some NICs may idle; give a smaller "
        "chunk": [one for one in firsts if not one.topology.panels and _has_few_chunks(one)],
    }  # fmt: skip
    if said := trials[0].spec.without_repeats:
        found[said] = firsts
    for trial in measured:
        if size_bytes := _certified_from_bytes(trial):
            said = (
                f"GST is too short to be certified within {trial.spec.certify:.1%}; that can be expected from a "
                f"gradient of {size_text(size_bytes)} on, which takes a larger model, a smaller scale or a lower rate"
            )
            found.setdefault(said, []).append(trial)
    named = {sentence: [trial.id for trial in of] for sentence, of in found.items()}
    return [
        f"{'all trials' if len(ids) == len(firsts) else shortened(ids, SHOWN)}: {sentence}"
        for sentence, ids in named.items()
        if ids
    ]


def is_hardly_certified(trial: Trial) -> bool:
    """Whether GST of some job takes too little time for its error to be as small as the spec's ``certify``."""
    return _certified_from_bytes(trial) is not None


def _certified_from_bytes(trial: Trial) -> float | None:
    """The gradient from which on GST of all jobs can be expected to be certified; None if those of all jobs are larger.

    What is not known for certain is how large the last packet is that passes a link before its time, and how long
    processes take.
    """
    known = [job for job in trial.synchronised if job.knows_bytes and job.work.overlap == "none"]
    at_rate, found = Shaper(trial.network.goodput), 0.0
    for job in known if trial.spec.certify else ():
        busiest, whole_s = job.cost.busiest(), job.cost.bound_s(at_rate)
        if not busiest or not whole_s:
            continue
        rate_bps = float(job.cost.link_rate_bps[busiest].min())
        at_once_s = float(job.shaper.early_bytes(np.array(rate_bps))) * 8 / rate_bps
        unsure_s = PASSING_ON_S + job.shaper.packet_bytes * 8 / rate_bps
        least_s = at_once_s + unsure_s / trial.spec.certify
        if whole_s < least_s:
            found = max(found, job.gradient_bytes * least_s / whole_s)
    return found or None


def _is_small(trial: Trial) -> bool:
    """Whether the burst that a link lets pass weighs much in the least GST of a job."""
    at_rate = Shaper(trial.network.goodput)
    known = [job for job in trial.synchronised if job.knows_bytes]
    return any(job.gst_theory_s < (1 - MOST_AT_ONCE) * job.cost.bound_s(at_rate) for job in known)


def _has_few_chunks(trial: Trial) -> bool:
    """Whether parts of a job's gradient have fewer chunks in the mean than there are parallel circuits, or NICs of a
    server: a chunk takes one of them, and in a ring a node sends one part at a time."""
    topology = trial.topology
    if not topology.is_parallel:
        return False
    return any(_leaves_circuits_idle(job, topology) for job in trial.synchronised)


def _leaves_circuits_idle(job: Job, topology: Topology) -> bool:
    if (connections := job.kind.connections) is None or connections.are_chosen or not connections.are_parallel:
        return False
    circuits = max(len(topology.connections(*pair)) for pair in job.kind.pairs(job.plan))
    as_few = job.kind.chunks(job.plan, job.gradient, _WHOLE_BYTES)
    return job.kind.chunks(job.plan, job.gradient, job.chunk_bytes) < circuits * as_few


def _computing(trial: Trial) -> int:
    """Count the processes that compute at once on this machine."""
    program = trial.spec.workload.program
    if not trial.spec.place.is_here or (program and not program.computes):
        return 0
    return sum(job.world for job in trial.jobs if not job.knows_pace)


def _has_one_iteration(trial: Trial) -> bool:
    return any(job.iterations - job.work.warmup == 1 for job in trial.synchronised)


JOBS_HEADER = (
    "job",
    "scheme",
    "hosts",
    "batch",
    "gradient",
    "submitted",
    "begins",
    "after",
    "least GST",
    "least JCT",
)
SHOWN_HOSTS = 4
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
    return [f"jobs of {trial['trial']}", lay_out(JOBS_HEADER, rows, spare=("gradient", "batch", "submitted")), ""]


def _row(job: Mapping[str, Any]) -> list[str]:
    least_s = job["jct_theory_s"]
    return [
        job["job"],
        f"service {job['scheme']}" if job["served_by"] else job["scheme"],
        shortened(job["hosts"], SHOWN_HOSTS),
        str(job["batch"]),
        size_text(job["gradient_bytes"]),
        time_text(job["start_s"]),
        time_text(job["planned_s"], measured=True),
        ", ".join(job["after"]) or "-",
        time_text(job["gst_theory_s"], measured=True),
        "-" if least_s is None else time_text(least_s, measured=True),
    ]
