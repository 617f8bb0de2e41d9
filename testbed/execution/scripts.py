"""Ranks of a script under a scheme: the instructions that they get beforehand, and the results of what they tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pandas as pd

from testbed.base.errors import TrialError
from testbed.base.listing import shortened
from testbed.control import endings
from testbed.execution import logged, rank_lines
from testbed.execution.observed import Lines, Observed
from testbed.execution.working_files import most_said_bytes
from testbed.lab.programs import Launch
from testbed.spec.workload.base import Reading, Synchronised
from testbed.topologies.addressing import Addresses, plan
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.workloads import kinds
from testbed.workloads.job import Compute, Replay, Task, WorkerJob
from testbed.workloads.kinds.base import Told
from testbed.workloads.kinds.parts import Scripts
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.rank_job import RankJob
from testbed.workloads.trace.graph import priorities_of_receives

if TYPE_CHECKING:
    from testbed.workloads.kinds.ranks import Account, Failed, RankRows

COMMAND = "command"
"""Kind of trial that the record gives a script that shows no iterations."""
NO_TASK = Replay(0, 0, ())
"""Task of a process without a rank, which does nothing between collectives."""


def reading(trial: Trial) -> Reading:
    """Return how what ranks tell is to be read, as the spec has it."""
    found = trial.spec.workload.reading
    assert found is not None  # or arms could have no scheme
    return found


# Before


def write(trial: Trial, files: Files, congestion_control: str) -> list[Launch]:
    """Write the plan, the job of each rank, and that of each process of ours that has no rank; return how the lab is to
    launch the latter."""
    job = trial.job
    kinds.save(job.plan, files.plan())
    addresses = plan(trial.topology)
    for rank, node in enumerate(job.plan.workers):
        name = job.plan.nodes[node]
        files.job(name).write_text(_rank_job(trial, files, congestion_control, addresses, rank).text())
    found = []
    for name, node in [*job.processes.items()][job.world :]:
        path = files.job(name)
        _server_job(trial, files, congestion_control, addresses, name).save(path)
        found.append(Launch(name, node, str(path), str(files.log(name)), torch=False))
    return found


def _rank_job(trial: Trial, files: Files, congestion_control: str, addresses: Addresses, rank: int) -> RankJob:
    job, spec, read = trial.job, trial.spec, reading(trial)
    node = job.plan.workers[rank]
    name = job.plan.nodes[node]
    trace = job.workload.traced(trial.network.folder, job.world)
    return RankJob(
        node=node,
        name=name,
        rank=rank,
        world=job.world,
        kind=job.kind.name,
        plan=str(files.plan()),
        peers=tuple(job_files.peers(addresses, job, name, trial.ports)),
        addresses=tuple(
            addresses.of(node, 0) if other == node else addresses.flow(node, other)[1] for other in job.plan.workers
        ),
        chunk_bytes=job.chunk_bytes,
        congestion_control=congestion_control,
        start_timeout_s=spec.start_timeout_s,
        timeout_s=spec.timeout_s,
        samples=str(files.samples(name)),
        position=str(files.position(name)),
        check=read.check,
        pace_s=read.pace_s,
        library=_part(job).library(job.plan),
        priorities=priorities_of_receives(trace.ranks[rank]) if trace else {},
    )


def _part(job: Job) -> Scripts[Any]:
    part = job.kind.scripts
    assert part is not None  # its processes are ranks of a script
    return part


def _server_job(trial: Trial, files: Files, congestion_control: str, addresses: Addresses, name: str) -> WorkerJob:
    """Make the job of a node that only adds and passes on."""
    job, spec = trial.job, trial.spec
    node = job.processes[name]
    return WorkerJob(
        node=node,
        name=name,
        rank=None,
        world=job.world,
        forest=str(files.plan()),
        peers=tuple(job_files.peers(addresses, job, name, trial.ports)),
        training=NO_TASK,
        compute=Compute(mode="none"),
        overlap="none",
        buckets=(),
        chunk_bytes=job.chunk_bytes,
        congestion_control=congestion_control,
        start_timeout_s=spec.start_timeout_s,
        timeout_s=spec.timeout_s,
        samples=str(files.samples(name)),
    )


# Afterwards


class AsRun(Synchronised):
    """Work that ranks of a script turned out to do, in the words of work that is synchronised."""

    uses_torch: ClassVar[bool] = True
    kind: Literal["command"] = "command"
    model: str = "script"
    scale: float = 1.0

    def task(self, batch: int, seed: int, gradient: Gradient, rounding: float) -> Task:  # noqa: ARG002
        """Return a task that computes nothing: tasks are for predictions, and there are none of scripts."""
        return Replay(self.iterations, seed, ())


def lines(trial: Trial, files: Files) -> dict[str, Lines]:
    """Read what the ranks of a script under a scheme wrote, and the processes of ours beside them.

    Raises:
        TrialError: a process wrote something that no process of its kind writes.
    """
    job = trial.job
    found = {name: rank_lines.read(files.samples(name)) for name in job.workers}
    for name in [*job.processes][job.world :]:
        found[name] = endings.read_checked(files.samples(name), most_said_bytes(job), job.kind)
    return found


def told(trial: Trial, job: Job, seen: Observed, files: Files) -> tuple[Job, Told, dict[str, Any]]:
    """Return the job of a program in the words of work that is synchronised, what its ranks told of it, and what the
    record has of it besides; the job as it is, and no samples, where ranks tell of no iterations.

    Raises:
        TrialError: a rank wrote something that no rank writes, or not all of its lines, or never made a process group.
    """
    if not trial.network.arm.scheme:
        return job, Told(pd.DataFrame()), {"moves": COMMAND, **_printed(trial, job, files)}
    account, record = _account(trial, job, seen, files)
    if account.samples is None:
        told = Told(pd.DataFrame(), failed=account.failed, calls=account.calls)
        return job, told, {**record, "moves": COMMAND}
    job = _as_run(job, account, reading(trial).pace_s)
    setup_s = round(float(account.samples["start_s"].min()) - seen.lasted(job)[0], 9)  # moments are known to 1 ns
    metrics = {**account.metrics, "setup_s": setup_s}
    told = Told(account.samples, metrics=metrics, failed=account.failed, calls=account.calls)
    return job, told, {**record, "iterations": job.iterations}


def _printed(trial: Trial, job: Job, files: Files) -> dict[str, Any]:
    """Return what the record has of the numbers that ranks printed, where the spec wants some."""
    patterns = reading(trial).metrics
    if not patterns:
        return {}
    logs = logged.read([files.log(name) for name in job.workers], patterns)
    return {"logged": logs.numbers, "left_out": list(logged.not_found(logs, patterns))}


def _account(trial: Trial, job: Job, seen: Observed, files: Files) -> tuple[Account, dict[str, Any]]:
    """Have a script's kind make an account of what ranks told, with numbers from their logs; return it, and what the
    record has of both."""
    read = reading(trial)
    rows = [rank_lines.rows(seen.lines[name], rank, job.processes[name]) for rank, name in enumerate(job.workers)]
    silent = [name for name, one in zip(job.workers, rows, strict=True) if one is None]
    if silent:
        last = endings.last_line(files.log(silent[0]))
        raise TrialError(
            f"{silent[0]} made no process group, so nothing of its script went along {job.plan.scheme}"
            + (f"; its last words: {last}" if last else ""),
            fix="call torch.distributed.init_process_group() in the script, or remove scheme from the arm",
        )
    for name in job.workers:
        rank_lines.check_end(seen.lines[name], name)
    ranks = [one for one in rows if one is not None]
    found = _part(job).account(job.plan, trial.topology, ranks, read.warmup, trial.network.shaper)
    logs = logged.read([files.log(name) for name in job.workers], read.metrics)
    record = {
        "collectives": list(found.collectives),
        "logged": logs.numbers,
        "left_out": logged.left_out(found, logs, read.metrics, list(job.workers)),
        "warmup": found.warmup,
        "gradient_sums": found.sums,
        "failed_collectives": _failed(found.failed, list(job.workers)),
        **logged.accuracy(found, ranks, logs),
        **_slow_rows(ranks, list(job.workers)),
    }
    return logged.with_logged(found, logs), record


def _slow_rows(ranks: Sequence[RankRows], names: Sequence[str]) -> dict[str, Any]:
    """Say on which hosts, and for which PyTorch, nothing compiled made the rows of sums; nothing where all have it."""
    slow = {names[rows.rank]: rows.slow_rows_of for rows in ranks if rows.slow_rows_of is not None}
    if not slow:
        return {}
    where = "all hosts" if len(slow) == len(names) else shortened(list(slow), logged.MOST_NAMED)
    versions = shortened(sorted(set(slow.values())), logged.MOST_NAMED)
    return {
        "slow_rows": f"rows of sums were made in Python on {where}, because watcher.cpp is not compiled for PyTorch "
        f"{versions}: steps of a small model take about 3 % longer"
    }


def _failed(failed: Sequence[Failed], names: Sequence[str]) -> list[dict[str, Any]]:
    """Count, by rank that had some, the collectives that failed, and name the first one."""
    counts = Counter(one.rank for one in failed)
    first = {one.rank: one for one in reversed(failed)}
    return [
        {"rank": rank, "host": names[rank], "count": count, "first": first[rank].name, "error": first[rank].why}
        for rank, count in sorted(counts.items())
    ]


def _as_run(job: Job, found: Account, pace_s: float) -> Job:
    """Return the job with the iterations that it did. Sums that are asked for one by one overlap."""
    assert found.samples is not None
    assert found.cost is not None
    work = AsRun.model_validate(
        {
            "kind": "command",
            "batch": 1,
            "iterations": int(found.samples["iteration"].max()) + 1,
            "warmup": found.warmup,
            "overlap": "none" if found.buckets == 1 else "layer",
            **({"compute": {"mode": "paced", "pace": {1: f"{pace_s:.9f} s"}}} if pace_s else {}),
        }
    )
    floats = -(-found.gradient_bytes // 4)
    gradient = Gradient((floats,), (range(1),), ((0, floats),))
    return replace(job, workload=work, cost=found.cost, gradient=gradient, batch=1)
