"""Sketches of gradients: what one costs, and which pairs of errors that cancel it misses, beside signs alone.

    python benchmarks/sketch.py [ROUNDS]    # 25 rounds; half a minute

LeNet-5's gradient (3,274,634 floats) on one core, arms interleaved, medians. A pair is an error +e in one element of a
sum and -e in another one, chosen at random; half of the pairs lie in one row. It counts as missed if less than a tenth
of e is left in the root mean square over lines: the limit that rounding needs is then passed by errors that are ten
times as large. Exit code 1 if the sketch misses more than one pair in 256, or takes more than 1.15 times as long as
four lines of signs.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from testbed.base.columns import columns
from testbed.workloads.learning import sketch

FLOATS = 3_274_634
PAIRS = 10**6
LEFT = 0.1
MOST_MISSED, MOST_TIME = 1 / 256, 1.15
Factors = NDArray[np.float64]
ARMS = ("4 lines of signs (before)", "8 lines of signs", "the sketch")


def signs(lines: int) -> tuple[Factors, Factors]:
    """Signs of columns and of rows."""
    random = np.random.default_rng(1)
    rows = FLOATS // sketch.ROW
    return random.choice((-1.0, 1.0), (sketch.ROW, lines)), random.choice((-1.0, 1.0), (rows, lines))


def ours() -> tuple[Factors, Factors]:
    """Factors of columns and of rows."""
    random = np.random.default_rng(1)
    return sketch.factors(random, sketch.ROW), sketch.factors(random, FLOATS // sketch.ROW)


def sketched_by_signs(gradient: NDArray[np.float32], lines: int) -> Callable[[], object]:
    """The same matrix product with signs."""
    of_columns, of_rows = signs(lines)
    columns_, rows_ = torch.from_numpy(of_columns.astype(np.float32)), torch.from_numpy(of_rows)
    full = torch.from_numpy(gradient[: len(of_rows) * sketch.ROW]).view(len(of_rows), sketch.ROW)

    def run() -> object:
        rows = (full @ columns_).double()
        return (rows_ * rows).sum(0), float((rows * rows).sum())

    return run


def missed(of_columns: Factors, of_rows: Factors) -> float:
    """The share of pairs of which less than :data:`LEFT` is left."""
    random = np.random.default_rng(2)
    first, second = random.integers(0, len(of_rows), (2, PAIRS))
    second = np.where(random.random(PAIRS) < 0.5, first, second)
    here, there = random.integers(0, sketch.ROW, (2, PAIRS))
    left = np.sqrt(np.mean((of_rows[first] * of_columns[here] - of_rows[second] * of_columns[there]) ** 2, axis=1))
    apart = (first != second) | (here != there)
    return float((left[apart] < LEFT).mean())


def main(rounds: int) -> int:
    """Print the table; 0 if both limits hold."""
    torch.set_num_threads(1)
    gradient = np.random.default_rng(0).standard_normal(FLOATS).astype(np.float32)
    whole = sketch.Sketch(gradient, [(0, FLOATS)])
    runs = [sketched_by_signs(gradient, 4), sketched_by_signs(gradient, 8), whole.whole]
    taken_s: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, times_s in zip(runs, taken_s, strict=True):
            began_s = time.thread_time()
            run()
            times_s.append(time.thread_time() - began_s)
    medians_s = [statistics.median(times_s) for times_s in taken_s]
    shares = [missed(*signs(4)), missed(*signs(8)), missed(*ours())]
    rows = [
        [name, f"{1e3 * median_s:.2f} ms", f"{median_s / medians_s[0]:.2f}", f"{share:.5f}"]
        for name, median_s, share in zip(ARMS, medians_s, shares, strict=True)
    ]
    print(columns(("", "time", "of before", "pairs missed"), rows))
    return int(shares[2] > MOST_MISSED or medians_s[2] > MOST_TIME * medians_s[0])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 25))
