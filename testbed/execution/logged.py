"""Numbers that ranks print, beside those that their script tells: the account with them, and sentences about those that
are left out."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from testbed.analysis.metrics import ends_s
from testbed.analysis.numbers.goal import TOLD
from testbed.base.listing import shortened
from testbed.execution.log_numbers import MOST_CPU_S, Found
from testbed.workloads.kinds.ranks import Account, RankRows

if TYPE_CHECKING:
    import pandas as pd

LOSS, THROUGHPUT, ACCURACY = "loss", "samples_per_s", "accuracy"
"""Names of metrics that go into the account of a script."""
MOST_NAMED = 3
"""Ranks that a sentence names at most."""


def with_logged(found: Account, logs: Found) -> Account:
    """Add to the account what ranks printed: the losses of a rank that told none and printed one for each iteration;
    and where the script told no throughput, the median of the samples per second that ranks printed."""
    if found.samples is None:
        return found
    samples, metrics = found.samples.copy(), dict(found.metrics)
    for rank, losses in enumerate(logs.numbers.get(LOSS, ())):
        rows = samples["rank"] == rank
        if samples.loc[rows, "loss"].isna().all() and len(losses) == rows.sum():
            samples.loc[rows, "loss"] = losses  # in the order of iterations, as the rows are
    rates = [rate for one in logs.numbers.get(THROUGHPUT, ()) for rate in one]
    if metrics.get("throughput_sps") is None and rates:
        metrics["throughput_sps"] = median(rates)
    return replace(found, samples=samples, metrics=metrics)


def accuracy(found: Account, ranks: Sequence[RankRows], logs: Found) -> dict[str, Any]:
    """Return what the record has of the accuracy that ranks told or printed, the mean over those that did; nothing if
    none did, or if it belongs to no iteration. Of printed ones as many are needed as divide the iterations, such as one
    for each of some epochs: they are taken to be at equal distances."""
    if found.samples is None:
        return {}
    points: dict[int, list[float]] = defaultdict(list)
    for rank, rows in enumerate(ranks):
        own_ends_s = found.samples.loc[found.samples["rank"] == rank, "end_s"].tolist()
        own = {
            # Without marks an iteration ends with its last sum, and the script logs after that.
            min(max(0, bisect_left(own_ends_s, one.at_s) - (not rows.marks_s)), len(own_ends_s) - 1): one.values[
                ACCURACY
            ]
            for one in rows.logged
            if ACCURACY in one.values
        }
        printed = logs.numbers.get(ACCURACY, [[]] * len(ranks))[rank]
        if not own and printed and len(own_ends_s) % len(printed) == 0:
            every = len(own_ends_s) // len(printed)
            own = {every * (number + 1) - 1: value for number, value in enumerate(printed)}
        for iteration, value in own.items():
            points[iteration].append(value)
    curve = [[iteration, fmean(values)] for iteration, values in sorted(points.items())]
    if not curve:
        return {}
    at_s = ends_s(found.samples).reindex(sorted(points))
    return {ACCURACY: {TOLD.metric: curve[-1][1], "curve": curve, "curve_of": TOLD.metric, "curve_s": at_s.tolist()}}


def left_out(told: Account, logs: Found, patterns: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return a sentence about each metric for which a spec or a script gives numbers, but not all of them; ``told`` is
    what the script told by itself, and ``names`` are those of the ranks' hosts."""
    return [*not_found(logs, patterns), *_losses(told, logs, names), *_accuracies(told, logs, names)]


def not_found(logs: Found, patterns: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence about each metric of which logs have no number."""
    for name, pattern in patterns.items():
        if name in logs.slow:
            yield (
                f"metrics.{name}: {pattern!r} took more than {MOST_CPU_S:g} s of processor time on the logs, so it has "
                "no numbers; make it simpler, without repetitions inside of repetitions, such as 'loss ([0-9.]+)'"
            )
        elif not any(logs.numbers[name]):
            yield f"metrics.{name}: {pattern!r} finds no number in any log"


def _losses(told: Account, logs: Found, names: Sequence[str]) -> Iterator[str]:
    printed = [len(losses) for losses in logs.numbers.get(LOSS, [[]] * len(names))]
    if told.samples is None:
        if any(printed):
            yield "losses were printed, and belong to no iteration, because the script's sums show none"
        return
    count = int(told.samples["iteration"].max()) + 1
    known = _known(told.samples, len(names))
    unfit = [rank for rank in range(len(names)) if not known[rank] and printed[rank] not in (0, count)]
    if unfit:
        which = shortened([f"{names[rank]} printed {printed[rank]:,}" for rank in unfit], MOST_NAMED)
        yield (
            f"losses of {len(unfit)} of {len(names)} ranks are left out, because a rank must print one in each of the "
            f"{count:,} iterations: {which}"
        )
    partly = [rank for rank in range(len(names)) if 0 < known[rank] < count]
    if partly:
        which = shortened([f"{names[rank]} in {known[rank]:,}" for rank in partly], MOST_NAMED)
        yield f"some ranks told a loss that is a number in fewer than the {count:,} iterations: {which}"


def _accuracies(told: Account, logs: Found, names: Sequence[str]) -> Iterator[str]:
    if told.samples is None:
        return
    count = int(told.samples["iteration"].max()) + 1
    for name, printed in zip(names, logs.numbers.get(ACCURACY, ()), strict=False):
        if printed and count % len(printed):
            yield (
                f"{name} printed {len(printed):,} accuracies, which do not divide its {count:,} iterations, so nothing "
                "says when they were; call testbed.log(accuracy=...)"
            )
            return


def _known(samples: pd.DataFrame, world: int) -> list[int]:
    """Count, by rank, the iterations in which its script told a loss that is a number."""
    counts = samples["loss"].notna().groupby(samples["rank"]).sum()
    return [int(counts.get(rank, 0)) for rank in range(world)]
