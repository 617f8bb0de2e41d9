"""Share of intervals that cover the median where repeats go on until the interval is narrow (``repeats: {until: 3
%}``).

An interval that is looked at again and again is narrow sooner where the repeats happen to lie close together, so fewer
than 95 % of those that are narrow cover the median. No stricter rule changes that
(``docs/decisions/intervals-of-few-repeats.md``), so the share is found by playing the rule, and told.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

import numpy as np

from testbed.analysis.numbers.statistics import median

CELLS = 500
"""Cells that are played: the share is then known to 1 to 2 %."""
MOST_REPEATS = 50
"""Repeats that are played at most, which takes about a second. The share hardly changes beyond."""


def promise(cells: Collection[Sequence[float]], until: float, least: int, most: int) -> str:
    """Say how many of the intervals that are narrow enough cover the median, in a sentence without an end; empty where
    none is narrow enough.

    Args:
        cells: the repeats of each cell, such as GST (s).
        until: the width of an interval at which repeats end, as a share of the median.
        least, most: numbers of repeats.
    """
    scattered = scatter(cells)
    if scattered is None or not any(median(values).relative_width <= until for values in cells if values):
        return ""
    share = share_that_covers(until, least, most, scattered)
    known = f"repeats scatter by {scattered:.1%}, so"
    if share is None:
        return f"{known} intervals within {until:.1%} are there by luck"
    return f"{known} about {share:.0%} of the intervals within {until:.1%} cover the median"


def scatter(cells: Collection[Sequence[float]]) -> float | None:
    """The standard deviation of the logarithms of repeats, the same for all cells; None if no cell has two."""
    logs = [np.log(values) for values in cells if len(values) > 1]
    if not logs:
        return None
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in logs)
    return float(np.sqrt(squares / sum(len(one) - 1 for one in logs)))


@cache  # it takes a tenth of a second
def share_that_covers(until: float, least: int, most: int, scattered: float) -> float | None:
    """Estimate, of the cells whose intervals become as narrow as ``until`` within ``least`` to ``most`` repeats, the
    share whose intervals cover the median, if repeats scatter by ``scattered`` (a share of the median); None if hardly
    any do."""
    random = np.random.default_rng(1)
    covers = []
    for _ in range(CELLS):
        samples = np.exp(scattered * random.standard_normal(min(most, MOST_REPEATS)))
        for count in range(min(least, MOST_REPEATS), len(samples) + 1):
            found = median(samples[:count])
            if found.relative_width <= until:
                covers.append(found.low <= 1 <= found.high)
                break
    return float(np.mean(covers)) if len(covers) >= CELLS / 50 else None
