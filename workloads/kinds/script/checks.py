"""Checks of a script's sums: those that were held against Gloo's, and numbers that are not finite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from testbed.base.check import About, Check
from workloads.kinds.evidence import Evidence

if TYPE_CHECKING:
    import pandas as pd  # not needed to plan a trial

SUMS = About(
    "sums beside Gloo's",
    sees="a sum of a script that differs from Gloo's sum of the same arrays by more than rounding, on every rank; of "
    "every n-th sum, with `check: n`",
    misses="sums that were not compared",
)
FINITE = About(
    "finite numbers",
    sees="arrays with numbers that are not finite, which a script gave to a sum, or got from one of finite numbers of "
    "type float16",
    misses="sums that Gloo makes, sums of other types that are too large for their type, and whether the script means "
    "it to be so",
)
ABOUTS = (SUMS, FINITE)
ROUNDED = 1.0
"""What the difference may be, of what rounding explains for the type and the number of ranks."""


def checks(seen: Evidence) -> Iterator[Check]:
    """Those that its samples allow."""
    compared = seen.samples["sum_error"].dropna()
    if not compared.empty:
        yield _compared(compared)
    odd = seen.samples[seen.samples["nonfinite"] > 0]
    if not odd.empty:
        first = odd.sort_values(["iteration", "rank"]).iloc[0]
        detail = (
            f"{int(odd['nonfinite'].sum())} arrays had numbers that are not finite, first on rank {int(first['rank'])} "
            f"in iteration {int(first['iteration'])}"
        )
        yield Check(FINITE.name, float(odd["nonfinite"].sum()), 0.0, "arrays", False, detail)


def _compared(errors: pd.Series[float]) -> Check:
    worst = float(errors.max())
    detail = f"{len(errors)} were compared; the furthest is off by {worst:.2g} of what rounding allows"
    return Check(SUMS.name, worst, ROUNDED, "of rounding", worst <= ROUNDED, detail)
