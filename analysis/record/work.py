"""The work of a job: the collectives of a script, the path that decides a strategy's iteration, and its place among the
jobs that share a network."""

from __future__ import annotations

import re
from dataclasses import dataclass

from testbed.analysis.record.fields import NotNegative, Part, Text, optional, required, unread
from testbed.files.shape import Kind

_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""A part of the names of files."""
_NAME = Kind("name of a job", lambda value: isinstance(value, str) and _JOB_NAME.fullmatch(value) is not None)


@dataclass(frozen=True)
class Stage(Part):
    """A stage of the critical path of a predicted iteration; times from the iteration's start."""

    what: Text = required("pass, transfer or AllReduce of an operator, and how many more there follow it")
    where: Text = required("server, or directed link by its ends")
    start_s: NotNegative = required("begin in the predicted iteration")
    end_s: NotNegative = required("end in the predicted iteration")


@dataclass(frozen=True)
class Collective(Part):
    """A kind, type and size of collective that a script asked for."""

    op: str = required("kind of collective that a script asked for, such as `allreduce`")
    dtype: str = required("type of its numbers")
    bytes: int = required("size of the whole array")
    by: str = required("what moved it: `scheme`, `ring` where the scheme cannot, `gloo`, or `direct` from rank to rank")
    ranks: int = required("number of ranks in its group", "ranks")
    count: int = required("how many of them there were")
    median_s: NotNegative = required("median time from the last rank that asked for it to the last rank that had it")
    waited_s: NotNegative | None = optional(
        "mean time that it held a rank: the call itself, and the wait; null if that is not seen"
    )
    algbw_bps: NotNegative | None = optional("size over median time; null without bytes")
    busbw_bps: NotNegative | None = optional("the same times the factor that nccl-tests has for its kind")
    least_s: NotNegative | None = optional("time that its busiest link takes for its bytes; null if not known")


class FailedCollectives(Part):
    """Collectives that failed on a rank of a script."""

    rank = unread(int, "rank of a script of which collectives failed", is_checked=True)
    host = unread(str, "its host", is_checked=True)
    count = unread(int, "how many of its collectives failed", is_checked=True)
    first = unread(str, "the first of them, such as `allreduce 12 of group 0`", is_checked=True)
    error = unread(Text, "its error, which the script may have caught", is_checked=True)


@dataclass(frozen=True)
class Slot(Part):
    """Where and when a job ran that shared its network with others; None where it did not get so far."""

    job: str = required(
        "name of a job that shares the network with others; its other fields, such as `jobs[].metrics.jct_s`, are "
        "those of a trial that has the job alone",
        bound=_NAME,
        column=1,
    )
    hosts: tuple[str, ...] = optional("its hosts", default=())
    after: tuple[str, ...] = optional("the jobs that had these hosts before", default=())
    planned_s = unread(NotNegative, "when it was to begin by prediction, from the trial's beginning", is_checked=True)
    submitted_s: NotNegative | None = optional("when it was submitted, from the trial's beginning", column=2)
    started_s: NotNegative | None = optional(
        "when its processes began to be started, from the trial's beginning", column=3
    )
    begun_s: NotNegative | None = optional("when its first iteration began, from the trial's beginning")
    queued_s: NotNegative | None = optional(
        "how long it waited for hosts and for its circuits: from `submitted_s` until it had both; not for the start of "
        "other jobs' processes, which may come before `started_s`",
        column=4,
    )
    dark_s: NotNegative | None = optional(
        "of a job with circuits of its own, from when its hosts were free until its circuits carried light", column=5
    )
    served_by: tuple[str, ...] = optional("the hosts of the service that it shared with other jobs", default=())
