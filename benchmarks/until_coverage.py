"""How often intervals cover the median where rounds go on until they are narrow (``repeats: {until: 3 %}``).

    python benchmarks/until_coverage.py

Repeats are drawn from distributions whose median is known. Each rule says when a cell has reached the target. For each
rule and scatter: the share of cells that reach it, the repeats they take in the mean, and the share of intervals that
cover the median, of the cells that reach the target and of all. The choice is in
``docs/decisions/intervals-of-few-repeats.md``.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from testbed.analysis.numbers.statistics import Values, median
from testbed.base.columns import columns
from testbed.spec.model import Until

CELLS = 2000
SCATTERS = (0.01, 0.03, 0.06, 0.10)
WANTED = Until(until=0.03, least=3, most=20)
HEADS = ("repeats", "scatter", "rule", "reach it", "repeats taken", "of these cover", "of all cover")


def drawn(kind: str, scatter: float) -> tuple[Values, float]:
    """float64[cells, most] repeats, and their median."""
    random = np.random.default_rng(1)
    if kind == "normal":
        return 1 + scatter * random.standard_normal((CELLS, WANTED.most)), 1.0
    unit = scatter / np.sqrt(2)
    return 1 + unit * random.gamma(2, 1, (CELLS, WANTED.most)), 1 + unit * float(stats.gamma.median(2))


def rows(kind: str, scatter: float) -> list[tuple[str, ...]]:
    """A row for each rule."""
    samples, truth = drawn(kind, scatter)
    counts = range(WANTED.least, WANTED.most + 1)
    intervals = [[median(cell[:count]) for count in counts] for cell in samples]
    narrow = np.array([[one.relative_width <= WANTED.until for one in cell] for cell in intervals])
    covers = np.array([[one.low <= truth <= one.high for one in cell] for cell in intervals])
    scatters = np.array([np.log(samples[:, :count]).std(axis=1, ddof=1) for count in counts]).T
    # The scatter is that large at most, with 95 % confidence; a median then needs so many repeats.
    upper = scatters * np.sqrt([(count - 1) / stats.chi2.ppf(0.05, count - 1) for count in counts])
    thrice = narrow.copy()
    thrice[:, 2:] &= narrow[:, 1:-1] & narrow[:, :-2]
    thrice[:, :2] = False
    enough = narrow & (1.96 * 1.2533 * upper / np.sqrt(list(counts)) <= WANTED.until)
    found: list[tuple[str, ...]] = []
    for name, stops in (("narrow once", narrow), ("narrow three times", thrice), ("scatter surely small", enough)):
        reached = stops.any(axis=1)
        last = np.where(reached, stops.argmax(axis=1), len(counts) - 1)
        good = covers[np.arange(CELLS), last]
        of_these = f"{good[reached].mean():.1%}" if reached.any() else "-"
        mean = f"{WANTED.least + last.mean():.1f}"
        found.append((kind, f"{scatter:.0%}", name, f"{reached.mean():.1%}", mean, of_these, f"{good.mean():.1%}"))
    return found


def main() -> int:
    """Print the table."""
    print(columns(HEADS, [row for kind in ("normal", "skewed") for one in SCATTERS for row in rows(kind, one)], left=3))
    return 0


if __name__ == "__main__":
    sys.exit(main())
