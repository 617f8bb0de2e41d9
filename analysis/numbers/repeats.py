"""The repeats of a cell, and which of them each of its numbers is from: for the closing table of a run and the report.

A number is from the trials in which it is VALID, or, where there are none, from all that finished.

There is one exception. A certificate looks at the outcome: on a disturbed machine it lets short times pass and refuses
long ones. So if the cell has trials in which the number was refused, its median is from those trials alone that need no
certificate, if there are any. ``docs/decisions/measured-again.md`` has the figures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Protocol, TypeVar

from testbed.analysis.numbers import ratios
from testbed.analysis.verdicts import (
    GST_P95,
    INVALID,
    NUMBERS,
    VALID,
    Number,
    in_short,
    joint_verdict,
    largest,
    verdict_of,
)

GST, JCT, THROUGHPUT, ITERATIONS, WAITING = NUMBERS
NUMBER_OF = {
    **dict.fromkeys(("gst_median_s", "gst_theory_s", "gst_ratio", "gst_uncertainty_s"), GST),
    **dict.fromkeys(("algbw_bps", "busbw_bps"), GST),
    **{"throughput_sps": THROUGHPUT, "iteration_median_s": ITERATIONS, "straggler_wait_s": WAITING},
    **dict.fromkeys(("gst_p95_s", "gst_p99_s"), GST_P95),
}
"""Verdict by which each metric is judged: that of a number, or a derived one
(:func:`testbed.analysis.verdicts.verdict_of`). Metrics that are not listed cover the whole job, so JCT's verdict judges
them."""
NOT_JUDGED = "not judged"
_COMPARED = {ratios.GST: "gst_median_s", ratios.JCT: "jct_s", ratios.THROUGHPUT: "throughput_sps"}


class Repeat(Protocol):
    """One trial of a cell."""

    @property
    def repeat(self) -> int: ...
    @property
    def done(self) -> bool:
        """Whether it ran to its end, VALID or not."""

    @property
    def numbers(self) -> Mapping[str, Number]:
        """The verdicts of its numbers, by name."""

    @property
    def worlds(self) -> tuple[int | None, ...]:
        """Number of workers, and how many went on after each time that some had died."""

    @property
    def work(self) -> ratios.Work | None:
        """Work that a script did; None of other workloads, and in records of earlier versions."""

    def metric(self, name: str) -> float | None:
        """Return one of the trial's metrics; None if it has none of that name."""


T = TypeVar("T", bound=Repeat)


def is_valid(trial: Repeat, number: str) -> bool:
    """Whether the trial finished and this number is VALID; False if it does not report the number."""
    found = verdict_of(trial.numbers, number)
    return trial.done and found is not None and found.verdict == VALID


def finished(trials: Sequence[T]) -> tuple[T, ...]:
    return tuple(trial for trial in trials if trial.done)


def counted(trials: Sequence[T], number: str) -> tuple[T, ...]:
    """The trials that a number is from."""
    done = finished(trials)
    valid = tuple(trial for trial in done if is_valid(trial, number))
    if len(valid) < len(done):
        calm = tuple(trial for trial in valid if (judged := verdict_of(trial.numbers, number)) and not judged.excused)
        return calm or valid or done
    return valid


def error(trials: Sequence[Repeat], number: str) -> float | None:
    """Return the largest share by which any of these trials can be off; None where that is not known."""
    judged = [trial.numbers.get(number) for trial in counted(trials, number)]
    return largest([one.error if one else None for one in judged])


def values(trials: Sequence[Repeat], metric: str) -> list[float]:
    """A metric of each trial that its number is from, and that has it."""
    found = (trial.metric(metric) for trial in counted(trials, NUMBER_OF.get(metric, JCT)))
    return [value for value in found if value is not None]


def middle(trials: Sequence[Repeat], metric: str) -> float | None:
    """The median of these; None where there are none."""
    found = values(trials, metric)
    return float(median(found)) if found else None


def verdict(trials: Sequence[Repeat], of: Collection[str] = NUMBERS) -> str:
    """Return the verdict of these numbers, as :func:`testbed.analysis.verdicts.in_short`, or ``not judged``."""
    done = finished(trials)
    if done and not any(trial.numbers for trial in done):
        return NOT_JUDGED
    judged = [trial.numbers if trial.done else {} for trial in trials]
    return in_short([{name: one for name, one in each.items() if name in of} for each in judged])


def doubt(trials: Sequence[Repeat], number: str) -> str:
    """Why no finished trial is VALID in a number, as one word: ``INVALID``, or ``UNWATCHED`` if none is INVALID; empty
    if one is VALID in it."""
    if any(is_valid(trial, number) for trial in trials):
        return ""
    judged = (verdict_of(trial.numbers, number) for trial in finished(trials))
    found = {one.verdict for one in judged if one}
    return joint_verdict(found) if found else INVALID


def compared(trials: Sequence[Repeat]) -> tuple[ratios.Numbers, ...]:
    """Return the numbers that ratios of this cell and others are of."""
    of = {name: counted(trials, name) for name in _COMPARED}
    found = []
    for trial in finished(trials):
        values = {
            name: (is_valid(trial, name) and any(trial is other for other in of[name]), value)
            for name, metric in _COMPARED.items()
            if (value := trial.metric(metric)) is not None
        }
        found.append(ratios.Numbers(trial.repeat, trial.worlds, values, trial.work))
    return tuple(found)
