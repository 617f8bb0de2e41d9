"""Autotune: decides from samples of iterations when and how masters move (PHub thesis, section 4.2.3).

A step is made every :data:`EVERY` iterations, and as soon as iterations have become longer or shorter by a fifth
(:data:`CHANGED`). Then rates are taken to have changed, and the step is a Quicktune; all other steps are Finetune's.
Only iterations under the newest plan count. After a Quicktune, iterations are compared with the first ones under its
plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from testbed.workloads.locality.masters import Finetune, Masters, Pairs, blame, quicktune, times_s

EVERY = 10
"""Iterations from one step to the next."""
CHANGED = 1.2
"""Ratio by which iterations must become longer or shorter for rates to be taken to have changed."""
IN_A_ROW = 3
"""Number of iterations in a row that must be longer, or shorter: a single one may be so for any reason."""
QUICKTUNE, FINETUNE = "quicktune", "finetune"


@dataclass(frozen=True, eq=False)
class Iteration:
    """An iteration, from the samples of all hosts.

    Attributes:
        sent_bytes, rate_bps, rtt_s: bytes that each host sent to each other one, how fast, and the round trip between
            them; NaN where that is not known.
    """

    number: int
    plan: int
    took_s: float
    sent_bytes: Pairs
    rate_bps: Pairs
    rtt_s: Pairs


@dataclass(frozen=True, eq=False)
class Step:
    """A step of Autotune.

    Attributes:
        after: number of iterations that were done before it.
        how: ``QUICKTUNE`` or ``FINETUNE``.
        took_s: the median time of the iterations from which it was decided.
        plan: the number of the new plan; None if masters stay.
        masters: the masters from now on.
        predicted_s: how long an iteration will take if the longest time of a host changes as its bytes do, at the rates
            that were measured.
    """

    after: int
    how: str
    took_s: float
    plan: int | None
    masters: Masters
    predicted_s: float


class Steps:
    """The steps of a job; ``newest`` is the number of its newest plan, which hosts may not follow yet."""

    def __init__(self, masters: Masters, class_bytes: float) -> None:
        """Begin with the masters of the first plan; ``class_bytes`` is the size of each class."""
        self.newest = 0
        self._masters, self._class_bytes = {0: masters}, class_bytes
        self._finetune = Finetune()
        self._window: list[Iteration] = []
        self._usual_s: float | None = None
        self._told_after = 0

    def add(self, seen: Iteration) -> Step | None:
        """Take the next iteration, and return the step that follows, if it is time for one."""
        if seen.plan not in self._masters:
            return None
        if seen.plan != self.newest and seen.number < self._told_after + EVERY:
            return None  # hosts will switch to the newest plan, unless they leave it out
        if self._window and seen.plan != self._window[-1].plan:
            self._window = []
        self._window.append(seen)
        last = self._window[-IN_A_ROW:]
        if len(last) < IN_A_ROW:
            return None
        if self._usual_s is None:
            self._usual_s = median(each.took_s for each in last)
        if self._has_changed(last):
            return self._step(QUICKTUNE, last)
        return self._step(FINETUNE, self._window) if (seen.number + 1) % EVERY == 0 else None

    def withdraw(self) -> None:
        """Take back the plan of the last step, which was not told."""
        del self._masters[self.newest]
        self.newest -= 1

    def _has_changed(self, last: Sequence[Iteration]) -> bool:
        ratios = [each.took_s / self._usual_s for each in last] if self._usual_s else []
        return bool(ratios) and (min(ratios) >= CHANGED or max(ratios) <= 1 / CHANGED)

    def _step(self, how: str, seen: Sequence[Iteration]) -> Step:
        old, took_s = self._masters[seen[-1].plan], median(each.took_s for each in seen)
        sent_bytes = np.nan_to_num(_medians(seen, lambda each: each.sent_bytes))
        rtt_s = np.nan_to_num(_medians(seen, lambda each: each.rtt_s))
        rate_bps = filled(_medians(seen, lambda each: each.rate_bps))
        if how == QUICKTUNE:
            new: Masters | None = quicktune(old.groups, len(old.gm), rate_bps)
            self._finetune, self._usual_s = Finetune(), None
        else:
            new = self._finetune.step(old, blame(sent_bytes.sum(axis=1), times_s(sent_bytes, rate_bps, rtt_s)))
            self._usual_s = took_s
        self._window = []
        after, plan = seen[-1].number + 1, None
        if new is not None and not np.array_equal(new.parents, old.parents):
            self.newest = plan = self.newest + 1
            self._masters[plan], self._told_after = new, after
        masters = old if plan is None else self._masters[plan]
        was_s, is_s = (
            float((8 * each.sent_bytes(self._class_bytes) / rate_bps.sum(axis=1)).max()) for each in (old, masters)
        )
        return Step(after, how, took_s, plan, masters, took_s + is_s - was_s)


def _medians(seen: Sequence[Iteration], of: Callable[[Iteration], Pairs]) -> Pairs:
    """Medians over iterations of the values that are known; NaN where none is."""
    stack = np.ma.masked_invalid(np.stack([of(each) for each in seen]))
    medians: Pairs = np.ma.median(stack, axis=0).filled(np.nan)  # type: ignore[no-untyped-call]
    return medians


def filled(rate_bps: Pairs) -> Pairs:
    """Fill in the rates that are not known: the mean of the host's known rates, of all known rates for a host without
    any, or 1 if no rate is known. From each host to itself it is 0."""
    rates, known = rate_bps.copy(), ~np.isnan(rate_bps)
    np.fill_diagonal(known, False)
    mean_of_all = rates[known].mean() if known.any() else 1.0
    for row, has in zip(rates, known, strict=True):
        row[~has] = row[has].mean() if has.any() else mean_of_all
    np.fill_diagonal(rates, 0.0)
    return rates
