"""Numbers that ranks print, beside those that their script tells: the account with them, and sentences about those that
are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from testbed.base.listing import shortened
from testbed.execution.log_numbers import MOST_CPU_S, Found
from testbed.workloads.kinds.ranks import Account

if TYPE_CHECKING:
    import pandas as pd

LOSS, THROUGHPUT = "loss", "samples_per_s"
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


def left_out(told: Account, logs: Found, patterns: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return a sentence about each metric for which a spec or a script gives numbers, but not all of them; ``told`` is
    what the script told by itself, and ``names`` are those of the ranks' hosts."""
    return [*not_found(logs, patterns), *_losses(told, logs, names)]


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


def _known(samples: pd.DataFrame, world: int) -> list[int]:
    """Count, by rank, the iterations in which its script told a loss that is a number."""
    counts = samples["loss"].notna().groupby(samples["rank"]).sum()
    return [int(counts.get(rank, 0)) for rank in range(world)]
