"""A run as it was recorded, in typed values: a run directory's experiment, its trials, and what each has measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from testbed.analysis.jobs import label_of
from testbed.analysis.numbers.goal import QUALITIES
from testbed.analysis.numbers.ratios import Work
from testbed.analysis.numbers.repeats import is_valid
from testbed.analysis.record.happened import Loss, Recovery
from testbed.analysis.record.trial import RecordedCheck, Slot, TrialRecord
from testbed.analysis.verdicts import INVALID, SIMULATED, UNWATCHED, VALID, Number
from testbed.workloads import kinds
from testbed.workloads.kinds.base import AnyKind

if TYPE_CHECKING:
    import pandas as pd

Setting: TypeAlias = tuple[int, tuple[tuple[str, str], ...]]
"""Batch, and the names and values (as JSON) of what a sweep varies."""
Place: TypeAlias = tuple[str, Setting]
"""A cell by its arm's label and its setting."""


@dataclass(frozen=True, kw_only=True)
class Trial(TrialRecord):
    """One trial, as it was recorded, and what is known of it beyond its own record.

    Attributes:
        done: whether it ran to its end.
        numbers: by name (:data:`testbed.analysis.verdicts.NUMBERS`), the verdicts of its numbers; none of a trial that
            failed.
        losses: of processes without which the others went on.
        kind: what moved in it.
        part: of several runs side by side (:mod:`testbed.analysis.report.beside`), the name of the one that it is from.
        slot: of a job that shared its network with others; they have the same ``stored``.
        stored: the run directory that it was read from, and its files' name there.
        samples: a row for each (rank, iteration); None for a trial that left none.
        repeated: whether its cell has trials of more than one repeat.
    """

    done: bool
    verdict: str | None = None
    checks: tuple[RecordedCheck, ...] = ()
    numbers: Mapping[str, Number] = field(default_factory=dict)
    recoveries: tuple[Recovery, ...] = ()
    losses: tuple[Loss, ...] = ()
    kind: AnyKind = field(default_factory=lambda: kinds.of_record({}))
    part: str = ""
    slot: Slot | None = None
    stored: tuple[Path, str] | None = None
    samples: pd.DataFrame | None = None
    repeated: bool = False

    @cached_property
    def setting(self) -> Setting:
        """Setting that a trial has in common with the trials of other arms that it is compared with."""
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
        """Staleness of each update, as :func:`testbed.analysis.metrics.staleness`; None where there are no samples, or
        no updates."""
        from testbed.analysis import metrics

        return None if self.samples is None else metrics.staleness(self.samples, self.warmup)

    @cached_property
    def queues(self) -> pd.DataFrame | None:
        """Bytes that waited at egresses (:func:`testbed.analysis.tables.trial.queues`); None where that is not known.

        Raises:
            OutputError: the table is damaged; so do the next two.
        """
        from testbed.analysis.tables import trial

        return None if self.stored is None else trial.queues(*self.stored)

    @cached_property
    def transfers(self) -> pd.DataFrame | None:
        """Its transfers as planned and as they went; None of a kind that plans none."""
        from testbed.analysis.tables import trial

        return None if self.stored is None else trial.transfers(*self.stored)

    @cached_property
    def calls(self) -> pd.DataFrame | None:
        """The collectives of a script's ranks; None of other trials, and of those that an older version ran."""
        from testbed.analysis.tables import trial

        return None if self.stored is None else trial.collectives(*self.stored)

    @property
    def job(self) -> str:
        """The name of a job that shared its network with others; empty for a trial that is no job of several."""
        return self.slot.job if self.slot else ""

    @property
    def has_iterations(self) -> bool:
        """Whether its processes told of their iterations, so that there are samples."""
        return tells_iterations(self.kind)

    @property
    def means(self) -> str:
        """The scheme on the topology, where the label does not say that already; else nothing."""
        what = f"{self.scheme} on {self.topology}"
        return "" if self.label == what else what

    @property
    def valid(self) -> bool:
        """Whether it finished and all that it reports is VALID."""
        return self.done and self.verdict == VALID

    @property
    def simulated(self) -> bool:
        """Whether all that it reports is a model's, and no check failed."""
        return self.done and self.verdict == SIMULATED

    def valid_in(self, number: str) -> bool:
        """Whether the trial finished and this number is VALID (:func:`testbed.analysis.numbers.repeats.is_valid`)."""
        return is_valid(self, number)

    @property
    def worlds(self) -> tuple[int | None, ...]:
        """Number of workers, and how many went on after each time that some had died."""
        return self.world, *(recovery.world for recovery in self.recoveries)

    @property
    def work(self) -> Work | None:
        """Work that a script did; None of other workloads."""
        return None if self.gradient_sums is None else (self.iterations, self.gradient_sums)

    def metric(self, name: str) -> float | None:
        """One of its metrics, by name, or its accuracy."""
        found: float | None = getattr(self.accuracy if name in QUALITIES else self.metrics, name)
        return found

    @property
    def attempts(self) -> int:
        """Number of times that the trial was measured."""
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
    """Arm and cells that ratios are relative to (:func:`testbed.analysis.cell.references`): the first arm's name, and
    by cell its reference, for those that have one."""

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
    """Reference of a report that calls arms and settings otherwise than the spec; without it, ratios are relative to
    the first label."""

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
    def ran(self) -> int:
        """Number of trials that ran: jobs that shared a network are of one."""
        return len({trial.stored for trial in self.trials if trial.job}) + sum(not trial.job for trial in self.trials)

    @property
    def played(self) -> tuple[str, float, float] | None:
        """The published model that was played back, empty for a trace; its scale, and the links' rate before it. None
        if nothing was."""
        work = workload_of(self.resolved)
        rate_bps = (self.resolved.get("links") or {}).get("rate_bps")
        if "scale" not in work or rate_bps is None:
            return None
        return str(work.get("model", "")), float(work.get("scale") or 1), float(rate_bps)


def tells_iterations(kind: AnyKind) -> bool:
    """Whether processes of this kind of trial tell of their iterations, so that there are samples."""
    return kind.program is None


def workload_of(resolved: dict[str, Any]) -> dict[str, Any]:
    workload = resolved.get("workload")
    return workload if isinstance(workload, dict) else {}
