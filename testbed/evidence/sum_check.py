"""Check, by sketches (:mod:`testbed.workloads.learning.sketch`), that each sum of a trial that trained is that of its
workers' gradients.

What rounding may explain is computed for each trial, from the number of terms and how they were added:

- **Floats**: each of N - 1 additions rounds by at most u = 2^-24 of what it comes to, independently of the others and
  in every element, so the norm of a sum's error is about u sqrt(N) times the norms of its terms in all, at most. Right
  sums come to 1 to 6 u, the rounding of the sketches included. Where each partial sum is 0.05 % too small it is
  4,000 u and more; where one term of N is, about 8,000 / N u.
- **Integers**: what :func:`testbed.workloads.sync.fixed_point.sum_error` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.base.errors import TrialError
from testbed.trial.phases import Phase

ROUNDINGS = 16.0
"""Limit of the error in roundings, times u sqrt(N): 4 to 20 times what was seen over schemes, libraries and models with
2 to 16 workers."""
_U = 2.0**-24
_Sketches = Mapping[str, Mapping[int, Sequence[float]]]


@dataclass(frozen=True)
class Checked:
    """The sum that was furthest off, as a share of the norms of its terms; and how many sums were looked at."""

    count: int = 0
    iteration: int = 0
    error: float = 0.0
    allowed: float = 0.0

    def record(self) -> dict[str, Any]:
        """Part of the trial's JSON."""
        return {"checked_sums": self.count, "sums_error": self.error, "sums_allowed": self.allowed}


def checked(done: Sequence[Mapping[str, Any]], phases: Sequence[Phase], floats: int, chunk_bytes: int) -> Checked:
    """Check every sum of which all terms are known: workers that died, or lost a neighbour meanwhile, tell of none.

    ``done`` are the processes' last lines with their names. Where several tell of sums, each tells of parts of its own.
    """
    own = {line["name"]: dict(line["own"]) for line in done if "own" in line}
    sums = _sums(done)
    worst, count = Checked(), 0
    for phase in phases:
        forest = phase.job.plan
        names = phase.job.workers
        for iteration in range(phase.first, phase.stop):
            terms = [own[name][iteration] for name in names if iteration in own.get(name, ())]
            if iteration not in sums or len(terms) < len(names):
                continue
            count += 1
            norms = float(np.array(terms)[:, 0].sum())
            explained = phase.job.kind.arithmetic.sum_error(forest, norms, floats, chunk_bytes)
            error, allowed = compared(terms, sums[iteration], explained)
            if count == 1 or not error / allowed <= worst.error / worst.allowed:
                worst = Checked(0, iteration, error, allowed)
    return Checked(count, worst.iteration, worst.error, worst.allowed)


def _sums(done: Sequence[Mapping[str, Any]]) -> dict[int, Sequence[float]]:
    """Sketch of the whole sum of each iteration, where all that tell of sums tell of it; its norm is not known."""
    tellers = [dict(line["summed"]) for line in done if line.get("summed")]
    known = set[int].intersection(*({*one} for one in tellers)) if tellers else set[int]()
    return {iteration: np.sum([one[iteration] for one in tellers], axis=0).tolist() for iteration in sorted(known)}


def compared(terms: Sequence[Sequence[float]], total: Sequence[float], explained: float = 0.0) -> tuple[float, float]:
    """Error of a sum's sketch against those of its terms, and what it may be, as shares of the norms of the terms;
    ``explained`` is what the numbers' format explains besides the rounding of floats."""
    table, world = np.array(terms), len(terms)
    norms = float(table[:, 0].sum())
    allowed = ROUNDINGS * _U * np.sqrt(world) + explained
    off = float(np.sqrt(np.mean((table[:, 1:].sum(axis=0) - total[1:]) ** 2)))
    return off / norms if norms else off, float(allowed)


def check(found: Checked, expected: int) -> None:
    """Check the sums that were looked at, which should be ``expected`` in number.

    Raises:
        TrialError: a sum is further off than rounding explains, or fewer were looked at.
    """
    if not found.error <= found.allowed:  # also true for NaN
        raise TrialError(
            f"the sum of iteration {found.iteration} is off from the workers' gradients by {found.error:.2g} of their "
            f"norms; rounding explains {found.allowed:.2g}",
            fix="the scheme did not add every worker's whole gradient once; read its code",
        )
    if found.count < expected:
        raise TrialError(
            f"only {found.count} of {expected} sums could be checked: workers told of no more",
            fix="see the workers' logs; then run again with --resume",
        )
