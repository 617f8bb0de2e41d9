"""A run as it was recorded, in typed values: a run directory's experiment, its trials, and what each has measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from testbed.analysis.goal import QUALITIES, Quality, quality
from testbed.analysis.jobs import label_of
from testbed.analysis.ratios import Work
from testbed.analysis.repeats import is_valid
from testbed.analysis.strikes import Strikes
from testbed.analysis.verdicts import INVALID, NUMBERS, UNWATCHED, VALID, Number
from testbed.workloads import kinds
from testbed.workloads.kinds.base import AnyKind

if TYPE_CHECKING:
    import pandas as pd

Setting: TypeAlias = tuple[int, tuple[tuple[str, str], ...]]
"""Batch, and the names and values (as JSON) of what a sweep varies."""
Place: TypeAlias = tuple[str, Setting]
"""A cell by its arm's label and its setting."""


@dataclass(frozen=True)
class Metrics:
    """The numbers of one trial; None where it did not get so far."""

    jct_s: float | None = None
    compute_s: float | None = None
    sync_s: float | None = None
    straggler_wait_s: float | None = None
    gst_median_s: float | None = None
    gst_uncertainty_s: float | None = None
    """By how much it may be off, where hosts have clocks of their own."""
    gst_p95_s: float | None = None
    gst_p99_s: float | None = None
    gst_theory_s: float | None = None
    gst_ratio: float | None = None
    """GST over the least that was still to be sent when the last worker had its gradient; None where that is not known,
    as with overlap."""
    iteration_median_s: float | None = None
    iteration_p99_s: float | None = None
    throughput_sps: float | None = None
    exposed_s: float | None = None
    """Of an iteration of a script, the time that it waited for collectives, and the time that they were on their way
    while it did not; None of other kinds."""
    hidden_s: float | None = None
    setup_s: float | None = None
    """Of a script, from the start of its first process to the beginning of its first iteration, where JCT begins; None
    of other kinds, and in older records, where JCT has most of it. And the start-up of its first collective."""
    connect_s: float | None = None
    wire_bytes: float | None = None
    wire_bytes_theory: float | None = None
    algbw_bps: float | None = None
    busbw_bps: float | None = None
    staleness_median: float | None = None
    """How many updates of others an update of an asynchronous scheme missed; None of a synchronous scheme."""
    staleness_p95: float | None = None
    staleness_max: float | None = None
    gst_predicted_s: float | None = None
    """Median GST of the same scheduler on an ideal network; None where nobody played it."""
    jct_predicted_s: float | None = None
    iteration_predicted_s: float | None = None
    """What is predicted of an iteration under a strategy; None where nobody predicts it."""
    mp_wait_forward_s: float | None = None
    """For how long servers had nothing to compute for want of outputs, and, backward, of their gradients; None where
    there are no such messages."""
    mp_wait_backward_s: float | None = None
    scheduler_median_s: float | None = None
    """What a scheduler took to plan a batch; None where nobody schedules."""
    scheduler_p99_s: float | None = None
    divergence_max: float | None = None
    """How far a server's weights can have been from its replica's; None where there is no replica."""
    divergence_allowed: float | None = None
    """The bound of that, and below the same of updates: a replica has one of the two."""
    divergence_breaches: float | None = None
    """Commits beyond it, as a single update may be; None where it is one of updates."""
    replica_behind_max: float | None = None
    replica_behind_allowed: float | None = None
    replica_bytes: float | None = None
    replica_error: float | None = None
    takeover_behind: float | None = None
    """Updates that a server had applied when it was lost, and its replica had not when it took over,"""
    takeover_lost: float | None = None
    """and those of them that nobody has applied since."""
    takeover_bound: float | None = None
    """How far apart that was at most (eq. 11)."""


MOST_EXPLAINED = 1e-4
"""Of the weights' norm; weights that are further from the reference's may be any."""


@dataclass(frozen=True)
class Accuracy:
    """How good the trained weights are, and how far they and the sums are from what they should be; or, of a profile,
    how many elements of its sums were looked at, and how many were wrong."""

    test_accuracy: float | None = None
    test_loss: float | None = None
    log_likelihood: float | None = None
    """Of topics, per token of documents that were held out."""
    weights_error: float | None = None
    weights_equal: bool | None = None
    """All workers have the same."""
    training_error: float | None = None
    """How far the weights are from the reference's, as a share of what training changed."""
    rounding_error: float | None = None
    """Of records made before fixed point had a limit: what it was allowed to explain, as a share of the weights."""
    takeover_apart: float | None = None
    """How far a lost server's weights were from its replica's."""
    takeover_allowed: float | None = None
    takeover_rounded: float | None = None
    """How much of that roundings explain; None in older records."""
    reference: str | None = None
    checked_sums: int | None = None
    """How many sums of gradients were held against their terms; None in older records."""
    checked_elements: int | None = None
    wrong_elements: int | None = None
    curve: list[list[float]] | None = None
    """(iteration, quality after it), of the reference, if the weights are its own."""
    curve_of: str | None = None
    """Which quality that is; None in older records, whose curves are of accuracy."""

    @property
    def quality(self) -> Quality:
        """What tells how good the weights are."""
        return quality(self.curve_of)

    @property
    def apart(self) -> bool:
        """The weights are not the reference's: rounding led too far for that."""
        led_away = self.training_error is not None and self.curve is None
        return led_away or (self.rounding_error or 0.0) > MOST_EXPLAINED

    @property
    def own_curve(self) -> list[list[float]] | None:
        """The curve, if it is the trial's: older records have one whatever fixed point had made of the weights."""
        return self.curve if self.weights_equal and not self.apart else None


@dataclass(frozen=True)
class RecordedCheck:
    """One reason to believe a trial, or not to: ``value`` against ``limit``, both in ``unit``."""

    name: str
    ok: bool
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    detail: str = ""
    asked: bool = False
    """The trial was to be like that: told, not judged."""
    threatens: Sequence[str] = NUMBERS
    """Names of the numbers that it makes INVALID if it fails."""
    machine: bool = False
    """It is about the machine below the network, so it does not count against a number that is certified."""
    watched: bool = True
    """Whether it was made; a check that was not made has no value and no finding."""


@dataclass(frozen=True)
class LinkCount:
    """What the kernel counted at the egress of one directed link, None where the lab does not make the link and cannot
    count, and what theory says it should be."""

    link: int
    source: str
    target: str
    rate_bps: float
    bytes: int | None
    drops: int | None
    theory_bytes: float | None


@dataclass(frozen=True)
class PairCount:
    """What one server of a hybrid trial has sent another in the whole trial, without headers, and what the plan says;
    ``mp_bytes`` are outputs of operators and gradients of outputs."""

    source: str
    target: str
    bytes: int
    theory_bytes: int
    mp_bytes: int


@dataclass(frozen=True)
class Stage:
    """A stage of the critical path of a predicted iteration; times from the iteration's start."""

    what: str
    where: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Collective:
    """A kind, type and size of collective that a script asked for ``count`` times; times in seconds.

    Attributes:
        bytes: of the whole array.
        by: what moved it: the scheme, a ring, Gloo, or ``direct`` from rank to rank.
        median_s: from the last rank that asked for it to the last rank that had it.
        least_s: what its busiest link takes for its bytes; None if not known.
    """

    op: str
    dtype: str
    bytes: int
    by: str
    ranks: int
    count: int
    median_s: float
    waited_s: float | None = None
    algbw_bps: float | None = None
    busbw_bps: float | None = None
    least_s: float | None = None


@dataclass(frozen=True)
class Event:
    """Something that was done to a trial; times in seconds from its start, None where that did not come. ``takes_s`` is
    how long it was meant to take, ``free_s`` from when on it could begin, if that was later than planned."""

    kind: str
    what: str
    planned_s: float | None = None
    begun_s: float | None = None
    done_s: float | None = None
    error: str | None = None
    takes_s: float = 0.0
    free_s: float | None = None
    rates_bps: Mapping[int, float] = field(default_factory=dict)
    """By directed link, the rate that it was given."""
    blocked: Mapping[int, bool] = field(default_factory=dict)
    """By directed link, whether it was blocked or opened again."""


@dataclass(frozen=True)
class Recovery:
    """What a trial did when nodes had died: with iteration ``first`` ``world`` workers went on, ``recovered_s`` seconds
    later the next iteration was done. ``called_s`` is when it was noticed, in seconds from the trial's start."""

    without: list[str]
    first: int
    world: int
    scheme: str
    called_s: float
    recovered_s: float | None = None


@dataclass(frozen=True)
class Loss:
    """A node without whose processes the others went on by themselves: when it was hit and when they noticed, in
    seconds from the trial's start, and how long (s) after that weights changed next; None where that is not known. And
    the (rank, iteration) of updates that were lost with a server that was started again."""

    node: str
    how: str = ""
    roles: Sequence[str] = ()
    """What the processes were for; empty in older records."""
    hit_s: float | None = None
    noticed_s: float | None = None
    recovered_s: float | None = None
    lost_updates: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Checkpoints:
    """How many processes wrote checkpoints, how many each, the bytes of all, and for how long (s) the process that took
    longest wrote."""

    processes: int = 0
    count: int = 0
    bytes: int = 0
    longest_s: float = 0.0


@dataclass(frozen=True)
class Slot:
    """Where and when a job ran that shared its network with others; moments are in seconds after the trial's beginning,
    and None where it did not get so far.

    Attributes:
        after: the jobs that had its hosts before.
        started_s: when its processes began to be started.
        begun_s: when its first iteration began; None in older records, too.
        queued_s: how long it waited for hosts, and for its circuits.
        dark_s: of a job with circuits of its own, how long its hosts waited until these carried light.
    """

    job: str
    hosts: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    submitted_s: float | None = None
    started_s: float | None = None
    begun_s: float | None = None
    queued_s: float | None = None
    dark_s: float | None = None


@dataclass(frozen=True)
class Attempt:
    """A measurement of a trial that does not count, since it was INVALID only because of the machine."""

    verdict: str
    reasons: tuple[str, ...]
    started: str
    metrics: Metrics


@dataclass(frozen=True)
class Trial:
    """One trial. ``samples`` has a row for each (rank, iteration); None for a trial that left none."""

    id: str
    label: str
    topology: str
    scheme: str
    batch: int
    repeat: int
    iterations: int
    world: int
    done: bool
    error: str | None
    metrics: Metrics
    accuracy: Accuracy
    verdict: str | None
    checks: tuple[RecordedCheck, ...]
    links: tuple[LinkCount, ...]
    events: tuple[Event, ...]
    recoveries: tuple[Recovery, ...]
    started: str
    duration_s: float | None
    samples: pd.DataFrame | None
    point: dict[str, Any] = field(default_factory=dict)
    """By the names of swept fields, their values in base units; empty where nothing is swept."""
    at: str = ""
    """The point for people: ``rate=100 Mbit/s``."""
    warmup: int = 0
    """Iterations at its start that statistics of GST leave out."""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    """By name (:data:`testbed.analysis.verdicts.NUMBERS`), the verdicts of its numbers; none of a trial that failed."""
    part: str = ""
    """Of several runs side by side (:mod:`testbed.analysis.report.beside`), the name of the one that it is from."""
    kind: AnyKind = field(default_factory=lambda: kinds.of_record({}))
    """What moved in it."""
    earlier: tuple[Attempt, ...] = ()
    """The attempts before the one that all else here is of."""
    losses: tuple[Loss, ...] = ()
    """Of processes without which the others went on."""
    checkpoints: Checkpoints | None = None
    """None where none were asked for."""
    pairs: tuple[PairCount, ...] = ()
    """Of kinds that count bytes by pair of servers."""
    critical_path: tuple[Stage, ...] = ()
    """Of the predicted iteration, from its start to its end; empty where nobody predicts it."""
    collectives: tuple[Collective, ...] = ()
    """Of scripts under a scheme."""
    gradient_sums: int | None = None
    """How many sums of gradients each rank of a script got; None of other workloads."""
    left_out: tuple[str, ...] = ()
    """Sentences about numbers of a script that are not all there, or not used."""
    strikes: tuple[Strikes, ...] = ()
    """What perturbations left to chance, and how often they struck; empty in older records."""
    slot: Slot | None = None
    """Of a job that shared its network with others; they have the same ``stored``."""
    stored: tuple[Path, str] | None = None
    """The run directory that it was read from, and its files' name there."""

    @cached_property
    def setting(self) -> Setting:
        """What it has in common with the trials of other arms that it is compared with."""
        return self.batch, tuple((key, json.dumps(value, sort_keys=True)) for key, value in sorted(self.point.items()))

    @cached_property
    def gst_s(self) -> pd.Series[float] | None:
        """GST (s) of each iteration after the warm-up; None where there are no samples."""
        from testbed.analysis import metrics  # here, for it loads pandas

        return None if self.samples is None else metrics.gst_s(self.samples, self.warmup)

    @cached_property
    def waits_s(self) -> pd.DataFrame | None:
        """float64[iterations, ranks], as :func:`testbed.analysis.metrics.waits_s`; None where there are no samples."""
        from testbed.analysis import metrics

        return None if self.samples is None else metrics.waits_s(self.samples, self.warmup)

    @cached_property
    def staleness(self) -> pd.Series[int] | None:
        """Of each update, as :func:`testbed.analysis.metrics.staleness`; None where there are no samples, or no
        updates."""
        from testbed.analysis import metrics

        return None if self.samples is None else metrics.staleness(self.samples, self.warmup)

    @cached_property
    def queues(self) -> pd.DataFrame | None:
        """What waited at egresses, with the columns of :mod:`testbed.analysis.queues`; None where that is not known.

        Raises:
            OutputError: the table is damaged.
        """
        from testbed.analysis import queues

        return None if self.stored is None else queues.read(*self.stored)

    @cached_property
    def transfers(self) -> pd.DataFrame | None:
        """Its transfers as planned and as they went, with the columns of :mod:`testbed.analysis.transfers`; None of a
        kind that plans none.

        Raises:
            OutputError: the table is damaged.
        """
        from testbed.analysis import transfers

        return None if self.stored is None else transfers.read(*self.stored)

    @property
    def job(self) -> str:
        """The name of a job that shared its network with others; empty for a trial that is no job of several."""
        return self.slot.job if self.slot else ""

    @property
    def means(self) -> str:
        """The scheme on the topology, where the label does not say that already; else nothing."""
        what = f"{self.scheme} on {self.topology}"
        return "" if self.label == what else what

    @property
    def valid(self) -> bool:
        """Whether it finished and all that it reports is VALID."""
        return self.done and self.verdict == VALID

    def valid_in(self, number: str) -> bool:
        """Whether the trial finished and this number is VALID (:func:`testbed.analysis.repeats.is_valid`)."""
        return is_valid(self, number)

    @property
    def worlds(self) -> tuple[int | None, ...]:
        """How many workers there were, and how many went on after each time that some had died."""
        return self.world, *(one.world for one in self.recoveries)

    @property
    def work(self) -> Work | None:
        """What a script did."""
        return None if self.gradient_sums is None else (self.iterations, self.gradient_sums)

    def metric(self, name: str) -> float | None:
        """One of its metrics, by name, or its accuracy."""
        found: float | None = getattr(self.accuracy if name in QUALITIES else self.metrics, name)
        return found

    @property
    def attempts(self) -> int:
        """How often it was measured."""
        return len(self.earlier) + 1

    @property
    def reasons(self) -> tuple[RecordedCheck, ...]:
        """The checks that make any of its numbers INVALID, or whose absence leaves one UNWATCHED."""
        return self.reasons_for(*self.numbers)

    def reasons_for(self, *numbers: str) -> tuple[RecordedCheck, ...]:
        """The checks that make one of these numbers INVALID, or whose absence leaves it UNWATCHED."""
        known = [one for name in numbers if (one := self.numbers.get(name))]
        invalid = [one for one in known if one.verdict == INVALID]
        names = {check for number in invalid for check in number.spoilt_by}
        missing = {check for number in known if number.verdict == UNWATCHED for check in number.unwatched}
        is_old = any(not number.spoilt_by for number in invalid)  # one verdict for the whole trial, by any check
        return tuple(
            check
            for check in self.checks
            if (check.name in missing if not check.watched else not check.ok and (is_old or check.name in names))
        )


@dataclass(frozen=True)
class Reference:
    """What ratios are relative to (:func:`testbed.analysis.cell.references`): the first arm's name, and by cell its
    reference, for those that have one."""

    name: str
    of: Mapping[Place, Place]


@dataclass(frozen=True)
class Run:
    """A run directory, or several as one. ``labels`` names the arms in the spec's order; ``trials`` are by batch,
    repeat, then arm; ``planned`` is how many trials the spec asks for, None where the resolved spec does not say."""

    path: Path
    name: str
    spec: str
    resolved: dict[str, Any]
    environment: dict[str, Any]
    labels: tuple[str, ...]
    trials: tuple[Trial, ...]
    planned: int | None = None
    parts: tuple[Run, ...] = ()
    """The runs that it puts side by side, where it is not one alone."""
    reference: Reference | None = None
    """Where a report calls arms and settings otherwise than the spec; else ratios are relative to the first label."""

    @property
    def batches(self) -> tuple[int, ...]:
        """The sub-minibatch sizes (samples per worker and iteration) that trials used, ascending."""
        return tuple(dict.fromkeys(trial.batch for trial in self.trials))

    @property
    def finished(self) -> tuple[Trial, ...]:
        """The trials that ran to their end, VALID or not."""
        return tuple(trial for trial in self.trials if trial.done)

    @property
    def first(self) -> str:
        """The name of the spec's first arm, which ratios are relative to."""
        return self.reference.name if self.reference else self.labels[0]

    def reference_of(self, label: str, setting: Setting) -> Place | None:
        """The first arm's cell that a cell's ratios are relative to, there or not."""
        if self.reference:
            return self.reference.of.get((label, setting))
        return self.firsts[self._jobs.get(label, "")], setting

    @cached_property
    def firsts(self) -> Mapping[str, str]:
        """The label that ratios are relative to, by the name of a job: jobs that shared a network are compared with the
        job of the same name in the first arm that has one. By ``""`` that of all others, the first arm's."""
        found = {"": self.labels[0]}
        for label in self.labels:
            found.setdefault(self._jobs.get(label, ""), label)
        return found

    @cached_property
    def _jobs(self) -> Mapping[str, str]:
        """By label, the job's name."""
        return {trial.label: trial.job for trial in self.trials}

    def whole(self, trial: Trial) -> Trial:
        """The trial that a job shared with others, for what is of all of them, such as links and queues: called by its
        arm, with the schemes of all jobs, with their batch if they have the same, and without samples. A trial that is
        no job of several is itself."""
        if not trial.job:
            return trial
        jobs = [one for one in self.trials if one.stored == trial.stored]
        batches = {job.batch for job in jobs}
        before, _, behind = trial.label.rpartition(label_of("", trial.job))
        return replace(
            trial,
            label=before + behind,
            scheme=", ".join(dict.fromkeys(job.scheme for job in jobs)),
            batch=batches.pop() if len(batches) == 1 else 0,
            samples=None,
            slot=None,
        )

    @property
    def has_jobs(self) -> bool:
        """Whether several jobs shared a network in some trial."""
        return any(self._jobs.values())

    @property
    def played(self) -> tuple[str, float, float] | None:
        """The published model that was played back, its scale, and the links' rate before it; None if none was."""
        work = workload_of(self.resolved)
        rate_bps = (self.resolved.get("links") or {}).get("rate_bps")
        if "scale" not in work or rate_bps is None:
            return None
        return str(work.get("model")), float(work.get("scale") or 1), float(rate_bps)


def workload_of(resolved: dict[str, Any]) -> dict[str, Any]:
    workload = resolved.get("workload")
    return workload if isinstance(workload, dict) else {}
