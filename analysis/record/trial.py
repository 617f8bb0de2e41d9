"""The fields of a trial's JSON, ``trials/*.json``: the work of its jobs, its network, its judgement, and the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.analysis.record.fields import SHARE, NotNegative, Part, Text, optional, required, unread
from testbed.analysis.record.happened import Attempt, Checkpoints, Event, Failover, Found, Phase, Tuning, Waited
from testbed.analysis.record.metrics import Accuracy, Metrics, Sums
from testbed.analysis.strikes import Strikes
from testbed.analysis.verdicts import Number
from testbed.base.check import NUMBERS
from testbed.files.shape import PLAIN, Kind

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


class Probe(Part):
    """A burst that measured a link before the training."""

    name = unread(str, "node that received a burst before the training")
    port_address = unread(str, "of the port that it received it on")
    rate_bps = unread(float, "rate at which the burst arrived")
    asked_bps = unread(float, "rate that the link was given")


class RoundTrip(Part):
    """The round trip between two nodes of the idle network."""

    source = unread(str, "node that sent", key="from")
    target = unread(str, "node that answered", key="to")
    least_s = unread(float, "least round trip that the links' delays allow")
    most_s = unread(float, "longest that they explain")
    median_s = unread(float, "median that was measured on the idle network")


@dataclass(frozen=True)
class LinkCount(Part):
    """The kernel's counts at the egress of one directed link, None where the lab does not make the link and cannot
    count, and the bytes that theory expects."""

    link: int = required("number of the directed link: 2 i and 2 i + 1 are the two directions of cable i")
    source: str = required("node that sends on it", key="from")
    target: str = required("node that receives", key="to")
    rate_bps: NotNegative = required("its rate")
    bytes: int | None = required("counted by the kernel at its egress while the trial trained, headers included")
    other_bytes = unread(int, "bursts and background flows, which `bytes` does not have")
    drops: int | None = optional("dropped at its egress", "packets")
    refused = unread(int, "of these, those for which a core of the machine had no room: no queue was full", "packets")
    theory_bytes: NotNegative | None = optional("what the scheme's plan says for `bytes`")
    extra_bytes = unread(int, "what TCP may have added: acknowledgements, and what it sent again")

    @classmethod
    def current(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Drops are counted where bytes are."""
        return {**raw, "drops": None if raw.get("bytes") is None else raw.get("drops") or 0}


@dataclass(frozen=True)
class PairCount(Part):
    """The bytes that one server of a hybrid trial has sent another in the whole trial."""

    source: str = required("server that sent", key="from")
    target: str = required("server that received", key="to")
    bytes: int = required("counted by the sender in the whole trial, without headers")
    theory_bytes: int = required("what the strategy's plan says for `bytes`")
    mp_bytes: int = required("of these, outputs of operators and gradients of outputs")


class QueueReadings(Part):
    """How the queues at egresses were read; what waited there is in a table of its own."""

    readings = unread(int, "how often the queues were read", "readings", is_checked=True)
    cost_s = unread(NotNegative, "how long all readings took", is_checked=True)
    problem = unread(Text, "why the readings ended early", is_checked=True)


class LinkSettings(Part):
    """The links that the spec asks for."""

    rate_bps = unread(float, "rate of a link")
    delay_s = unread(float, "delay of a link, one way")
    jitter_s = unread(float, "jitter of the delay")
    loss = unread(float, "packets that are lost", SHARE)
    reorder = unread(float, "packets that are reordered", SHARE)
    mtu = unread(int, "largest packet", "B")
    queue_bytes = unread(int, "length of the queue at each egress")
    congestion_control = unread(str, "congestion control that the spec asks for; null for the machine's own")
    mark_at_bytes = unread(int, "length of a queue from which on it marks packets", key="ecn.mark_at_bytes")
    small_queue_bytes = unread(int, "most of a connection in its host's queue; null for the kernel's own rule")
    full_packet_bytes = unread(int, "size up to which TCP fills a large packet; null for the kernel's own rule")
    named_rate_bps = unread(float, "rate of the links of that name; null for that of all", key="*.rate_bps")
    named_delay_s = unread(float, "delay of the links of that name; null for that of all", key="*.delay_s")


@dataclass(frozen=True)
class RecordedCheck(Part):
    """One reason to believe a trial, or not to: ``value`` against ``limit``."""

    name: str = required("name of the check")
    ok: bool = required("whether it did not fail: see `watched`")
    value: float | None = optional("what was measured", "see `unit`")
    limit: float | None = optional("the most (or least) that passes", "see `unit`")
    unit: str = optional("unit of value and limit", default="")
    detail: Text = optional("the finding in words", default="")
    asked: bool = optional("whether the spec asks for it, so that it is told and not judged", default=False)
    threatens: Sequence[str] = optional("the numbers that it makes INVALID if it fails", default=NUMBERS)
    machine: bool = optional("whether it is about the machine: then a certified number stays VALID", default=False)
    is_needed = unread(
        bool,
        "whether a number that it threatens is UNWATCHED without it, unless certified",
        key="needed",
        is_checked=True,
    )
    watched: bool = optional("false if the check was not made; `detail` then says why", default=True)

    @classmethod
    def current(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Complete a record of an earlier version: there, a check that was not made has no value and did not fail."""
        return raw if "watched" in raw else {**raw, "watched": raw.get("value") is not None or not raw.get("ok")}


@dataclass(frozen=True)
class Fidelity(Part):
    """The checks and verdicts of a trial. Its numbers are read by :func:`testbed.analysis.verdicts.numbers_of`."""

    verdict: str | None = optional("`VALID` if all numbers are")
    checks: tuple[RecordedCheck, ...] = optional(default=())
    numbers = unread(Mapping[str, Number])


@dataclass(frozen=True, kw_only=True)
class TrialRecord(Part):
    """A trial as it is recorded, or one of several jobs that share its network. Fields are in the order in which a
    record has them."""

    schema = unread(int, "version of this file's format", is_whole=True)
    id: str = required("name of the trial and of its files", is_whole=True)
    identity = unread(str, "digest of all that it depends on; `--resume` keeps trials with the same", is_whole=True)
    inputs = unread(Mapping[str, str], "by file that the trial uses, a digest of its content", is_whole=True)
    label: str = required("name of its arm", is_whole=True, column=1)
    topology: str = required("the network, as an expression", is_whole=True, column=2)
    scheme: str = required("the synchronisation scheme, as an expression", column=3)
    workload = unread(
        str, "kind of workload: `train`, `profile`, `lda` or `command`", key="kind", is_checked=True, column=22
    )
    moves = unread(str, "kind of trial, such as `forest`, `library`, `command` or `script`", is_checked=True)
    model = unread(str, "model that was trained or played back", column=23)
    scale = unread(float, "by what a profile's bytes and the links' rates were divided", "ratio", column=24)
    batch: int = required("batch size of each worker in an iteration", "samples", column=4)
    repeat: int = optional("which round it ran in, from 0 on", default=0, is_whole=True, column=30)
    point: dict[str, Any] = optional(
        "by field that a sweep varies, its value: bit/s, B, s or a plain number",
        "base unit",
        default={},
        bound=PLAIN,
        is_whole=True,
    )
    at: str = optional("the same for people", default="", is_whole=True)
    iterations: int = required("number of iterations that the spec asks for; that a script did", "iterations", column=5)
    warmup: int = optional(
        "number of first iterations that are left out of medians; scripts only, which may do fewer than are asked for",
        "iterations",
        default=0,
    )
    world: int = required("number of workers that began", "workers", column=6)
    status = unread(str, "`done` or `failed`", is_checked=True, column=7, blank="failed")
    error: Text | None = optional("why it failed", blank=None)
    by_perturb = unread(bool, "whether a perturbation made it fail", blank=False)
    started: str = optional("when the last attempt began", "ISO 8601", default="")
    machine = unread(str, "machine of `--on` that ran it", is_whole=True)
    duration_s: float | None = optional("how long it took, with building and taking down the network")
    metrics: Metrics = optional(default=Metrics(), blank=None)
    accuracy: Accuracy = optional(default=Accuracy(), blank=None)
    sums = unread(Sums, bound=Accuracy, is_checked=True, blank=None)
    loss = unread(
        list[float], "training loss of the first and of the last iteration, mean over the workers", "nats", blank=None
    )
    fidelity = unread(Fidelity, is_checked=True, blank=None)
    probes = unread(list[Probe], is_whole=True, blank=[])
    round_trips = unread(list[RoundTrip], is_whole=True, blank=[])
    links: tuple[LinkCount, ...] = optional(default=(), is_whole=True, blank=[])
    pairs: tuple[PairCount, ...] = optional(default=())
    critical_path: tuple[Stage, ...] = optional(default=())
    collectives: tuple[Collective, ...] = optional(default=())
    gradient_sums: int | None = optional("how many sums of gradients each rank of a script got; scripts only")
    failed_collectives = unread(list[FailedCollectives], is_checked=True)
    logged: Mapping[str, list[list[float]]] = optional(
        "by metric of the spec and rank, the numbers that were found in its log", "as printed", default={}
    )
    left_out: tuple[Text, ...] = optional(
        "which numbers of a script, told or printed, are not all there or not used, and why", default=()
    )
    not_kept = unread(list[Text], "which files of a program's ranks are not in `outputs/`, and why", is_whole=True)
    slow_rows: Text = optional(
        "where Python made the rows of a script's sums, if C++ for it is not compiled there", default=""
    )
    queues = unread(QueueReadings, is_checked=True, is_whole=True, blank=None)
    events: tuple[Event, ...] = optional(default=(), is_whole=True, blank=[])
    strikes: tuple[Strikes, ...] = optional(default=(), is_whole=True, blank=[])
    found: tuple[Found, ...] = optional(default=(), is_whole=True)
    failover = unread(Failover, is_checked=True, blank=None)
    phases = unread(list[Phase])
    tuning: tuple[Tuning, ...] = optional(default=())
    waited = unread(Waited, is_whole=True, blank=None)
    earlier: tuple[Attempt, ...] = optional(default=(), key="attempts", is_whole=True, blank=[])
    checkpoints: Checkpoints | None = optional()
    congestion_control = unread(list[str], "congestion control that workers' connections had")
    max_rss_bytes = unread(int, "largest resident memory of a process")
    links_settings = unread(LinkSettings, is_whole=True, blank=None)
    jobs = unread(list[Slot], is_checked=True, is_whole=True)

    @classmethod
    def current(cls, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """Findings about sums stand with the accuracy."""
        return {**raw, "accuracy": {**(raw.get("accuracy") or {}), **(raw.get("sums") or {})}}
