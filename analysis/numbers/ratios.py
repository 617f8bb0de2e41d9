"""The ratio of two cells' numbers, defined once for the closing table, the report and ``testbed compare``.

Trials of one run with the same repeat ran one after the other. So the ratio of two cells of a run is the median of the
ratios of such pairs (:func:`testbed.analysis.cell.pairs`): what slows the machine for a while slows both. Trials of two
runs are no pairs; the ratio of their cells is that of the medians.

**Speed.** Each worker takes as many samples an iteration as the batch says. Cells with different numbers of workers
train different numbers of samples in the same iterations, so their times cannot be compared. Their samples per second
can. Between cells with the same number of workers JCT is compared, and the ratio of samples per second is the same.

**Work.** Scripts decide by themselves how many iterations they do, and may go on when a sum fails. Cells of scripts
with different numbers of iterations, or of sums of gradients, did not do the same work: none of their numbers are
compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.analysis.cell import Repeat, counted, pairs
from testbed.analysis.numbers.statistics import Interval, Samples, paired_ratio, ratio
from testbed.base.listing import counted as counted_as

Work = tuple[int, int]
"""Number of iterations that a script did, and of sums of gradients that each of its ranks got."""
GST, JCT, THROUGHPUT = "gst", "jct", "throughput"
"""Names of numbers, as in :data:`testbed.analysis.comparing.measured.METRICS`."""

WORTH_TELLING = 0.03
"""The least difference that a headline begins with, and that counts in a comparison by default. Repeats on an idle
machine scatter by 0.2 to 0.3 % (GST, JCT), and a certified number may be off by 3 %."""


@dataclass(frozen=True)
class Numbers:
    """Numbers that a finished trial measured.

    Attributes:
        workers: how many there were, and how many went on after each time that some had died.
        of: by name, whether a number is VALID, and its value, of those that the trial has.
        work: of a script; None of what does as much as its spec says.
    """

    repeat: int
    workers: tuple[int | None, ...]
    of: Mapping[str, tuple[bool, float]]
    work: Work | None = None

    @property
    def is_believed(self) -> bool:
        """Whether any of its numbers is VALID."""
        return any(is_valid for is_valid, _ in self.of.values())


def of_samples(base: Samples, new: Samples, *, paired: bool) -> Interval:
    """NEW over BASE: of pairs, or of samples that have nothing to do with each other.

    Raises:
        ValueError: a sample is not positive, there are none, or those of pairs are not equally many.
    """
    return (paired_ratio if paired else ratio)(base, new)


def over(base: Sequence[Numbers], new: Sequence[Numbers], name: str, *, paired: bool = True) -> Interval | None:
    """A number of the cell ``new`` over that of ``base``; ``paired`` unless they are of two runs.

    None where no pair of trials counts, where only one cell has anything VALID, or where they did different work.
    """
    if not did_alike(base, new):
        return None
    both = matched(base, new, name) if paired else _apart(base, new, name)
    if not both[0] or not both[1]:
        return None
    return of_samples(*both, paired=paired)


def matched(base: Sequence[Numbers], new: Sequence[Numbers], name: str) -> tuple[list[float], list[float]]:
    """A number of both cells' trials, pair by pair."""
    found = pairs(_repeats(base, name), _repeats(new, name))
    return [before for before, _ in found], [after for _, after in found]


def speed_up(base: Sequence[Numbers], new: Sequence[Numbers], *, paired: bool = True) -> Interval | None:
    """Compute how many times as fast the cell ``new`` is as ``base``, by the number that :func:`speed_by` names."""
    if speed_by(base, new) == THROUGHPUT:
        return over(base, new, THROUGHPUT, paired=paired)
    found = over(base, new, JCT, paired=paired)
    return found and found.inverse


def speed_by(base: Sequence[Numbers], new: Sequence[Numbers]) -> str:
    """The number that says which of two cells is faster: JCT if the cells are alike, or commands, which do not say what
    they train; else samples per second."""
    known = all(THROUGHPUT in one.of for one in (*base, *new))
    are_alike = len({trial.workers for trial in (*base, *new)}) <= 1  # so that they trained as many samples
    return JCT if are_alike or not known else THROUGHPUT


def did_alike(base: Sequence[Numbers], new: Sequence[Numbers]) -> bool:
    """Whether the trials that count did the same work, as far as it is known of both cells."""
    ours, theirs = works(base), works(new)
    return not ours or not theirs or len({*ours, *theirs}) == 1


def works(trials: Sequence[Numbers]) -> list[Work]:
    """List the work that a cell's trials did: those with a VALID number, or, without any, all."""
    counts = [trial for trial in trials if trial.is_believed] or trials
    return sorted({count.work for count in counts if count.work is not None})


def work_text(works: Sequence[Work]) -> str:
    """``24 iterations with 48 sums of gradients``; ``... or ...`` if trials differ."""
    return " or ".join(
        f"{counted_as(iterations, 'iteration')} with {counted_as(sums, 'sum')} of gradients"
        for iterations, sums in works
    )


def workers(trials: Sequence[Numbers]) -> str:
    """Write how many workers a cell's trials had: ``4``; ``4 to 3`` if some died; ``4 or 4 to 3`` if in some trials
    only."""
    return " or ".join(dict.fromkeys(" to ".join(map(str, trial.workers)) for trial in trials))


def _apart(base: Sequence[Numbers], new: Sequence[Numbers], name: str) -> tuple[list[float], list[float]]:
    (base_valid, before), (new_valid, after) = counted(_repeats(base, name)), counted(_repeats(new, name))
    if base_valid != new_valid:
        return [], []
    return list(before.values()), list(after.values())


def _repeats(trials: Sequence[Numbers], name: str) -> Iterable[Repeat[float]]:
    """Return the number as repeats, of trials in which it is known and above 0."""
    return [(trial.repeat, *trial.of[name]) for trial in trials if name in trial.of and trial.of[name][1] > 0]
