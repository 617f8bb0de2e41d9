"""The fields of a trial's JSON, ``trials/*.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.analysis.record.accuracy import Accuracy, Sums
from testbed.analysis.record.fields import Part, Text, optional, required, unread
from testbed.analysis.record.happened import Attempt, Checkpoints, Event, Failover, Found, Phase, Tuning, Waited
from testbed.analysis.record.judged import Fidelity
from testbed.analysis.record.metrics import Metrics
from testbed.analysis.record.network import LinkCount, LinkSettings, PairCount, Probe, QueueReadings, RoundTrip
from testbed.analysis.record.work import Collective, FailedCollectives, Slot, Stage
from testbed.analysis.strikes import Strikes
from testbed.files.shape import PLAIN


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
