"""Checks of a script's collectives: those that failed, sums that were compared with Gloo's, and numbers that are not
finite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from testbed.base.check import About, Check
from testbed.base.listing import shortened
from testbed.workloads.kinds.evidence import Told
from testbed.workloads.kinds.ranks import Failed

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
COLLECTIVES = About(
    "collectives",
    sees="collectives of a script that failed on a rank, also if the script caught the error, such as a timeout; from "
    "what each rank's backend tells",
    misses="mistakes that PyTorch finds before it asks the backend, and messages of Gloo's that nobody waits for",
)
ABOUTS = (COLLECTIVES, SUMS, FINITE)
MOST_NAMED = 3
"""Limit on the ranks that a sentence names."""
ROUNDED = 1.0
"""Largest allowed difference, as a multiple of what rounding explains for the type and the number of ranks."""


def checks(told: Told) -> Iterator[Check]:
    """Make the checks that the samples and ranks allow."""
    if told.failed is not None:
        yield _failed(told.failed)
    if told.samples.empty:
        return
    compared = told.samples["sum_error"].dropna()
    if not compared.empty:
        yield _compared(compared)
    odd = told.samples[told.samples["nonfinite"] > 0]
    if not odd.empty:
        first = odd.sort_values(["iteration", "rank"]).iloc[0]
        detail = (
            f"{int(odd['nonfinite'].sum())} arrays had numbers that are not finite, first on rank {int(first['rank'])} "
            f"in iteration {int(first['iteration'])}"
        )
        yield Check(FINITE.name, float(odd["nonfinite"].sum()), 0.0, "arrays", False, detail)


def _failed(failed: Sequence[Failed]) -> Check:
    by_rank: dict[int, list[Failed]] = defaultdict(list)
    for one in failed:
        by_rank[one.rank].append(one)
    told = [
        f"rank {rank}: {len(own)}, the first was {own[0].name} ({own[0].why})" for rank, own in sorted(by_rank.items())
    ]
    detail = f"{len(failed)} failed; {shortened(told, MOST_NAMED)}" if told else "none failed on any rank"
    return Check(COLLECTIVES.name, float(len(failed)), 0.0, "collectives", not failed, detail)


def _compared(errors: pd.Series[float]) -> Check:
    worst = float(errors.max())
    detail = f"{len(errors)} were compared; the furthest is off by {worst:.2g} of what rounding allows"
    return Check(SUMS.name, worst, ROUNDED, "of rounding", worst <= ROUNDED, detail)
