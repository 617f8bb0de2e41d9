"""Numbers that ranks print, beside those that their script tells: the account with them, and sentences about those that
are left out. They are found in logs by the regular expressions of a spec.

Whoever writes a log can make a careless expression take for ever. So a process of its own looks for the numbers, which
the kernel ends when an expression has had its time, and only the ends of long logs and the beginnings of long lines are
looked at. The trial keeps what was measured: an expression that is ended has no numbers, and the others have theirs.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from testbed.analysis.metrics import ends_s
from testbed.analysis.numbers.goal import TOLD
from testbed.base.errors import TrialError
from testbed.base.listing import shortened
from testbed.control.endings import ending
from testbed.files import foreign
from testbed.files.foreign import UnfitError
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


MOST_BYTES = 2**24
"""Bytes at the end of a log that are searched."""
MOST_TOGETHER_BYTES = 2**27
"""Bytes of all logs that are searched, which are in memory at once."""
MOST_CPU_S = 10.0
"""Processor seconds for one pattern in all logs of a trial; 64 logs of 10,000 lines take 0.2 s."""


@dataclass
class Found:
    """Numbers that patterns found in logs.

    Attributes:
        numbers: by the name of a pattern, a list for each log, in the order of logs, of its numbers in their order.
        slow: the names of patterns that took too long; they have no numbers.
    """

    numbers: dict[str, list[list[float]]] = field(default_factory=dict)
    slow: list[str] = field(default_factory=list)


def read(logs: Sequence[Path], patterns: Mapping[str, str]) -> Found:
    """
    Raises:
        TrialError: the process that looks for numbers ended by itself.
    """
    found, left = Found(), dict(patterns)
    most_bytes = min(MOST_BYTES, MOST_TOGETHER_BYTES // max(1, len(logs)))
    texts = [_text(log, most_bytes) for log in logs] if left else []
    while left:
        asked = {"patterns": list(left.values()), "texts": texts, "most_cpu_s": MOST_CPU_S}
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("number_finder.py"))],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            name = next(iter(left))
            found.numbers[name] = json.loads(line)
            del left[name]
        if done.returncode == -signal.SIGPROF:
            slow = next(iter(left))
            found.slow.append(slow)
            del left[slow]
        elif done.returncode:
            last = "".join(done.stderr.splitlines()[-1:])
            raise TrialError(
                f"the search for metrics in logs {ending(done.returncode)}: {last[:500]}",
                fix="see whether memory ran out; then run the trial again, or take fewer metrics",
            )
    return found


def _text(log: Path, most_bytes: int) -> str:
    try:
        return foreign.read_tail(log, most_bytes, log.parent).decode(errors="replace")
    except (OSError, UnfitError):
        return ""
