"""Ranks of a program whose work is known beforehand, in simulated time: what the simulator makes of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from testbed.execution.observed import Lines
from testbed.trial.files import Files
from testbed.trial.job import Job
from testbed.workloads.kinds.ranks import Collected
from testbed.workloads.play.exchange import Moved
from testbed.workloads.play.wires import Wires
from testbed.workloads.trace.graph import Trace
from testbed.workloads.trace.simulated import Ranks


def play(
    job: Job, trace: Trace, wires: Wires, files: Files, done: dict[str, Any], ticks: Callable[[int], None]
) -> dict[str, Lines]:
    """Play a job's ranks; write their logs, and return the lines of its processes. ``done`` is the last line of
    each.

    Raises:
        TrialError: ranks wait for what never comes.
    """
    part, plan = job.scripts, job.plan
    assert part is not None  # the simulator plays no other programs

    def moves(ranks: Sequence[int], asked: Collected) -> tuple[Sequence[Moved], str]:
        return part.moved(plan, ranks, asked, job.chunk_bytes)

    played = Ranks(trace, plan.workers, moves, wires, ticks)
    played.play()
    own = dict(zip(job.workers, played.lines, strict=True))
    for name, took_s in zip(job.workers, played.iterations_s, strict=True):
        files.log(name).write_text("".join(f"iteration {each_s:.9f} s\n" for each_s in took_s))
    ranks = {name: rank for rank, name in enumerate(job.workers)}
    said = {}
    for name, node in job.processes.items():
        hello = {"kind": "hello", "rank": ranks.get(name), "node": node, "device": "none", "time": 0.0}
        said[name] = [{**hello, "congestion_control": "none"}, *own.get(name, ()), {"kind": "done", **done}]
    return said
