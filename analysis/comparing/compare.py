"""Is NEW slower than BASE? For each cell (arm, batch, point of a sweep) and metric: better, worse, same, inconclusive.

**What is independent.** The iterations of one trial share its connections, its queues and the minute in which it
ran, so they are correlated, and how much depends on the machine and the workload. A test that counts each iteration
as an independent observation is too sure of itself: it takes a difference between two trials for one between two
schemes. Repeats share none of that, so the repeat is the unit: a trial gives one number a metric (for GST the
median of its iterations, which takes out most of their noise), and all inference is over those numbers.
``benchmarks/gate_errors.py`` prints how correlated iterations are (intraclass correlation 0.04 for a ring of three
hosts on an idle machine). A gate must not depend on that being small.

**What is asked.** *Worse* needs three things: the ratio's whole 95 % interval lies past the metric's threshold, so
that the change is large enough to matter; a Mann-Whitney test agrees that the repeats differ; and there are enough
repeats for that test to be able to say so. *Same* needs the whole interval within the threshold. Anything else is
inconclusive, with the reason. The threshold is symmetric on a logarithmic scale: 3 % slower means a ratio above
1.03, 3 % faster one below 1 / 1.03.

**How often it is wrong.** Where repeats scatter by more than the threshold, only the test protects from a false
alarm. Its level is that of all tests of a comparison together (Holm) and two-sided, so identical runs are called
worse in at most half of it, 1 %, whatever the noise; where noise is below the threshold, far less often. What looks
slower is to be measured once more, and then only the second measurement counts (:attr:`Comparison.suspicious`).
What all repeats of a run share, such as a bad day of the machine, no test over them can see; the threshold must be
above it, or the two sides be measured in turn.

**Repeats.** With the three metrics of one cell, the test can only reach its level with 6 repeats a side; with those
of 600 cells it needs 10. So 10 is the default of ``testbed run --baseline``; it also leaves room for some INVALID
trials. Where too many are INVALID, more rounds run until there are enough (:attr:`Comparison.lacking`). Only how many
values count decides that, never what they are, so the level of the test stays what it is.

**Each metric by its own verdict.** A trial whose GST is VALID and whose JCT is INVALID counts for GST.

**Failures** are counted, not tested: a trial that fails is a fact and no noise. A larger share of FAILED trials than in
BASE is a regression, however fast the others were.

**Pairs.** Where BASE and NEW are two arms of one run, their repeats alternate, and the interval is that of the
ratios of pairs: what slows the machine down for a while slows both.

Rejected: tests over iterations (above); a threshold on the estimate alone, which noise passes every other day; a
test alone, which with enough repeats finds differences of 0.1 % that nobody minds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from math import comb
from typing import Final, Literal

from testbed.analysis.cell import Cell, Repeat, agree, pairs, partner
from testbed.analysis.comparing import conditions
from testbed.analysis.comparing.conditions import Difference
from testbed.analysis.comparing.measured import FAILED, Measured, Side
from testbed.analysis.numbers import ratios
from testbed.analysis.numbers.statistics import Interval, holm, p_differ
from testbed.analysis.verdicts import INVALID, SIMULATED, UNWATCHED, VALID, joint_verdict
from testbed.base.errors import IncomparableError, UsageError
from testbed.base.listing import shortened

LEVEL = 0.02
"""Level of the two-sided tests of one comparison together: identical runs are called worse in at most half of it."""
REPEATS = 10
"""Enough for 600 cells: the header's Repeats. ``benchmarks/gate_errors.py`` measures what they can see."""
THRESHOLDS = dict.fromkeys((ratios.GST, ratios.JCT, ratios.THROUGHPUT), ratios.WORTH_TELLING)
THROUGHPUT: Final = ratios.THROUGHPUT
HIGHER_IS_BETTER = frozenset({THROUGHPUT})
UNLIKE = frozenset({ratios.GST, ratios.JCT})
"""Metrics that cannot be compared between other numbers of workers, which train other numbers of samples."""
TOO_FEW = "too few repeats"
MOST_CHECKS = 3
"""Failed checks that are named where no trial of a side is VALID; the rest is counted."""
BETTER: Final = "better"
WORSE: Final = "worse"
SAME: Final = "same"
INCONCLUSIVE: Final = "inconclusive"
Verdict = Literal["better", "worse", "same", "inconclusive"]


@dataclass(frozen=True)
class Judged:
    """One metric of one cell.

    Attributes:
        arm: NEW's label, where it is not the cell's.
        base, new: a value for each trial that is VALID in this metric.
        ratio: NEW over BASE; None where a side has no value.
        p_value: of the test, corrected for all tests of the comparison; None where none could be made.
        why: what is missing for a decision.
        unmeasured: a side, or both, has no trial that is VALID in this metric, so nothing was compared.
        lacks: how many more VALID trials NEW must have, beside what BASE has, so that the test can decide.
    """

    cell: Cell
    metric: str
    arm: str
    verdict: Verdict
    base: tuple[float, ...]
    new: tuple[float, ...]
    threshold: float
    ratio: Interval | None = None
    p_value: float | None = None
    why: str = ""
    unmeasured: bool = False
    lacks: int = 0

    @property
    def slowdown(self) -> Interval | None:
        """The ratio, turned so that more is worse."""
        return None if self.ratio is None else _slowdown(self.metric, self.ratio)


@dataclass(frozen=True)
class Failures:
    """A cell of which a larger share of trials FAILED than in BASE; of each side, how many FAILED of how many.

    ``arm`` is NEW's label.
    """

    cell: Cell
    arm: str
    base: tuple[int, int]
    new: tuple[int, int]


@dataclass(frozen=True)
class LeftOut:
    """A trial of the side ``side`` that does not count in these of the metrics that it has; of one that FAILED, which
    has none, there are none."""

    side: str
    id: str
    verdict: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Result of comparing two sides.

    Attributes:
        base, new: the sides' names.
        judged: every metric of every cell of BASE, in its order.
        allowed: conditions that differ, and were allowed to.
        left_out: trials that were not used in every metric, for they are INVALID or UNWATCHED in it, or FAILED.
        failures: cells in which more trials FAILED than in BASE; a regression, unless ``failures_accepted``.
        only_new: cells that BASE does not have.
        schemes: arms whose scheme is another one than in BASE.
        again: cells that were measured again.
    """

    base: str
    new: str
    experiment: str
    paired: bool
    judged: tuple[Judged, ...]
    allowed: tuple[Difference, ...]
    left_out: tuple[LeftOut, ...]
    failures: tuple[Failures, ...]
    failures_accepted: bool
    only_new: tuple[Cell, ...]
    schemes: tuple[str, ...]
    again: frozenset[Cell]

    def of(self, verdict: Verdict) -> list[Judged]:
        """The judgements with that verdict."""
        return [one for one in self.judged if one.verdict == verdict]

    @property
    def suspicious(self) -> tuple[Cell, ...]:
        """Cells to be measured once more: those in which something looks slower by more than the threshold."""
        found = [one.cell for one in self.judged if _is_suspicious(one) and one.cell not in self.again]
        return tuple(dict.fromkeys(found))

    @property
    def lacking(self) -> dict[Cell, int]:
        """Cells that more trials could decide, and how many more VALID ones they need; not those in which more trials
        FAILED than in BASE, which are decided."""
        decided = set() if self.failures_accepted else {one.cell for one in self.failures}
        found: dict[Cell, int] = {}
        for one in self.judged:
            if one.lacks and one.cell not in decided:
                found[one.cell] = max(one.lacks, found.get(one.cell, 0))
        return found


def compare(
    base: Side,
    new: Side,
    *,
    thresholds: Mapping[str, float] = THRESHOLDS,
    allowed: Collection[str] = (),
    arms: conditions.Pairs | None = None,
    accept_failures: bool = False,
) -> Comparison:
    """Judge NEW by BASE, in the metrics that ``thresholds`` names.

    ``arms`` has (label in BASE, label in NEW) of arms to compare; without it, each with the one of the same label. With
    ``accept_failures`` it is told where more trials FAILED than in BASE, and no regression.

    Raises:
        IncomparableError: conditions differ that are not ``allowed``, or there is no VALID trial to compare.
        UsageError: an arm or condition that is named is not there.
    """
    paired = base.path == new.path
    labels = _labels(base, new, arms)
    told = conditions.check(base, new, labels, allowed)
    asked = list(_asked(base, new, labels, thresholds))
    tested = [one for one in asked if not one.why]
    p_values = iter(holm([p_differ(one.base, one.new) for one in tested]))
    found = [one if one.why else _judged(one, paired, next(p_values), len(tested)) for one in asked]
    failures = tuple(_failures(base, new, labels))
    if not found or (all(one.ratio is None for one in found) and (accept_failures or not failures)):
        raise _nothing(base, new, found, thresholds)
    before, after = map(set, zip(*labels, strict=True))
    sides = [(base, before | after)] if paired else [(base, before), (new, after)]
    return Comparison(
        base=base.name,
        new=new.name,
        experiment=new.experiment,
        paired=paired,
        judged=tuple(found),
        allowed=tuple(told),
        left_out=tuple(_left_out(sides, thresholds)),
        failures=failures,
        failures_accepted=accept_failures,
        only_new=() if arms else tuple(cell for cell in new.cells if cell not in base.cells),
        schemes=tuple(
            f"{one.arm}: {one.base} in {base.name}, {one.new} in {new.name}"
            for one in conditions.schemes(base, new, labels)
        ),
        again=new.again,
    )


def least_repeats(tests: int) -> int:
    """Count the repeats that a side must have for ``tests`` Mann-Whitney tests together to be able to find a
    difference."""
    return next(repeats for repeats in count(2) if _smallest_p(repeats, repeats) * tests <= LEVEL)


def _asked(base: Side, new: Side, labels: conditions.Pairs, thresholds: Mapping[str, float]) -> Iterator[Judged]:
    """Yield a judgement for each metric of each cell of BASE that has it on either side, VALID or not, still
    inconclusive, and with a reason where it must stay so; all metrics are asked of cells that have nothing."""
    ours, theirs = _by_cell(base), _by_cell(new)
    for label, other in labels:
        for cell in (one for one in base.cells if one.label == label):
            like = _counterpart(cell, other, new.cells)
            before, after = ours[cell], theirs.get(like, []) if like else []
            known = {name for trial in (*before, *after) for name in trial.values}
            for metric, threshold in thresholds.items():
                if known and metric not in known:
                    continue  # a command has no GST
                values, others = _values(before, metric), _values(after, metric)
                ours_called, theirs_called = base.name, new.name
                if other != label:
                    ours_called, theirs_called = f"{label} of {ours_called}", f"{other} of {theirs_called}"
                unmeasured = _unmeasured({ours_called: before, theirs_called: after}, metric)
                missing = unmeasured if like else _no_counterpart(cell, other, new)
                base_values, new_values = (tuple(value for _, _, value in one) for one in (values, others))
                if base.path == new.path:
                    both = pairs(sorted(values), sorted(others))
                    base_values, new_values = (tuple(one[i] for one in both) for i in (0, 1))
                    missing = missing or ("" if both else "no repeat is VALID on both sides")
                if metric in UNLIKE and THROUGHPUT in known:
                    missing = missing or _unlike(cell.label, before, other, after)
                missing = missing or _other_work(cell.label, before, other, after)
                if any(value <= 0 for value in (*base_values, *new_values)):
                    missing = missing or "a value is not above 0"
                yield Judged(
                    *(cell, metric, other, INCONCLUSIVE, base_values, new_values, threshold),
                    why=missing,
                    unmeasured=bool(like and unmeasured),
                )


def _counterpart(cell: Cell, label: str, others: Sequence[Cell]) -> Cell | None:
    """The cell that it is compared with: its own like, or of another arm, which may sweep other fields, the one cell
    that agrees with it."""
    if label == cell.label:
        return cell
    there = ((dict(one.point), one) for one in others if (one.label, one.batch) == (label, cell.batch))
    return partner(dict(cell.point), there)


def _no_counterpart(cell: Cell, label: str, side: Side) -> str:
    """Why no single cell of the arm ``label`` agrees with one of another arm: which setting differs."""
    there = [one for one in side.cells if one.label == label]
    alike = [dict(one.point) for one in there if one.batch == cell.batch]
    if not alike:
        batches = " and ".join(str(batch) for batch in sorted({one.batch for one in there}))
        return f"{label} has no batch {cell.batch} in {side.name}, only {batches}"
    here = dict(cell.point)
    agreeing = [point for point in alike if agree(here, point)]
    if agreeing:  # several
        names = {name for point in agreeing for name in point if name not in here}
        return f"{len(agreeing)} cells of {label} would do, which differ in {' and '.join(sorted(names))}"
    both = {name: dict.fromkeys(point[name] for point in alike if name in point) for name in here}
    told = [
        f"{name}={here[name]}, only {' and '.join(values)}"
        for name, values in both.items()
        if values and here[name] not in values
    ]
    return f"{label} has no {', and no '.join(told)}" if told else f"{label} does not have these values together"


def _by_cell(side: Side) -> dict[Cell, list[Measured]]:
    found: dict[Cell, list[Measured]] = {}
    for trial in side.trials:
        found.setdefault(trial.cell, []).append(trial)
    return found


def _values(trials: Sequence[Measured], metric: str) -> list[Repeat[float]]:
    """Return the metric's values of those trials that are VALID in it."""
    return [(trial.repeat, True, trial.values[metric]) for trial in trials if trial.valid_in(metric)]


def _unlike(label: str, base: Sequence[Measured], other: str, new: Sequence[Measured]) -> str:
    """Why the sides' times cannot be compared: they are those of other numbers of workers; nothing where they can."""
    ours, theirs = (sorted({one.world for one in side if one.world is not None}) for side in (base, new))
    if not ours or not theirs or ours == theirs:
        return ""
    counts = [" or ".join(map(str, side)) for side in (ours, theirs)]
    arms = f"{label} has {counts[0]} workers and {other} {counts[1]}"
    return f"{arms}: of these only samples/s can be compared (--metric throughput)"


def _other_work(label: str, base: Sequence[Measured], other: str, new: Sequence[Measured]) -> str:
    """Why nothing of the sides can be compared: their scripts did other work; nothing where it can."""
    ours, theirs = (
        sorted({one.work for one in side if one.work is not None and any(map(one.valid_in, one.values))})
        for side in (base, new)
    )
    if not ours or not theirs or len({*ours, *theirs}) == 1:
        return ""
    arms = f"{label} did {ratios.work_text(ours)} and {other} {ratios.work_text(theirs)}"
    return f"{arms}: only the same work can be compared"


def _unmeasured(sides: Mapping[str, Sequence[Measured]], metric: str) -> str:
    """Why a side has no value to compare, of sides by name; nothing where both have."""
    empty = next((name for name, trials in sides.items() if not trials), None)
    if empty is not None:
        return f"{empty} does not have it"
    counts = {}
    for name, trials in sides.items():
        if not any(trial.valid_in(metric) for trial in trials):
            often = Counter(check for one in trials for check in one.spoilt_by.get(metric, ())).most_common()
            checks = shortened([check for check, _ in often], MOST_CHECKS)  # of a baseline they are not known
            counts[name] = _counts(trial.verdicts.get(metric, trial.verdict) for trial in trials)
            counts[name] += f", failed checks: {checks}" if checks else ""
    if len(counts) < len(sides):
        return "".join(f"{name} has no VALID trial with it ({told})" for name, told in counts.items())
    verdicts = {trial.verdicts.get(metric, trial.verdict) for trials in sides.values() for trial in trials}
    are = verdicts.pop() if len(verdicts) == 1 else "not VALID"
    return f"{are} on both sides: {'; '.join(f'{name} has {told}' for name, told in counts.items())}"


def _counts(verdicts: Iterable[str]) -> str:
    counts = Counter(verdicts)
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) or "no trial"


def _left_out(sides: Sequence[tuple[Side, Collection[str]]], metrics: Collection[str]) -> Iterator[LeftOut]:
    """Yield the trials that were not used, of sides with the labels of the arms that are compared."""
    for side, labels in sides:
        for trial in (trial for trial in side.trials if trial.cell.label in labels):
            spoilt = tuple(name for name in metrics if name in trial.values and not trial.valid_in(name))
            if spoilt or trial.verdict == FAILED:
                verdict = joint_verdict(trial.verdicts[name] for name in spoilt) if spoilt else FAILED
                yield LeftOut(side.name, trial.id, verdict, spoilt)


def _failures(base: Side, new: Side, labels: conditions.Pairs) -> Iterator[Failures]:
    """Yield the cells in which more trials FAILED than in BASE. What was measured first in cells that were measured
    again counts, too: whether a trial fails is no noise."""
    before, after = (_failed(side) for side in (base, new))
    for label, other in labels:
        for cell in (one for one in base.cells if one.label == label):
            like = _counterpart(cell, other, new.cells)
            if like is None or like not in after:
                continue
            (failed, count), (failed_now, count_now) = before[cell], after[like]
            if failed_now * count > failed * count_now:
                yield Failures(cell, other, (failed, count), (failed_now, count_now))


def _failed(side: Side) -> dict[Cell, tuple[int, int]]:
    """Count for each cell how many trials FAILED of how many."""
    found: dict[Cell, tuple[int, int]] = {}
    for trial in (*side.before, *side.trials):
        failed, count = found.get(trial.cell, (0, 0))
        found[trial.cell] = (failed + (trial.verdict == FAILED), count + 1)
    return found


def _judged(asked: Judged, paired: bool, p_value: float, tests: int) -> Judged:
    seen = ratios.of_samples(asked.base, asked.new, paired=paired)
    found = replace(asked, ratio=seen, p_value=p_value)
    verdict, why = _verdict(found, _slowdown(found.metric, seen), p_value, tests)
    lacks = max(0, _enough(len(asked.base), tests) - len(asked.new))
    return replace(found, verdict=verdict, why=why, lacks=lacks)


def _verdict(found: Judged, slowdown: Interval, p_value: float, tests: int) -> tuple[Verdict, str]:
    """The verdict, and for an inconclusive one what is missing."""
    limit, sizes = 1 + found.threshold, (len(found.base), len(found.new))
    if _smallest_p(*sizes) * tests > LEVEL:
        want = "1 test wants" if tests == 1 else f"{tests} tests want"
        return INCONCLUSIVE, f"{TOO_FEW}: {sizes[0]} and {sizes[1]}, and {want} {least_repeats(tests)} each"
    if 1 / limit <= slowdown.low and slowdown.high <= limit:
        return SAME, ""
    if slowdown.low > limit or slowdown.high < 1 / limit:
        if p_value <= LEVEL:
            return (WORSE, "") if slowdown.low > limit else (BETTER, "")
        return INCONCLUSIVE, f"beyond the threshold, but the test does not confirm it (p = {p_value:.2g})"
    return INCONCLUSIVE, "the interval is partly within the threshold and partly beyond it"


def _slowdown(metric: str, found: Interval) -> Interval:
    return found.inverse if metric in HIGHER_IS_BETTER else found


def _smallest_p(base: int, new: int) -> float:
    """The p-value of two samples that do not overlap: one of all orders, in either direction."""
    return 2 / comb(base + new, base)


@lru_cache(maxsize=256)
def _enough(base: int, tests: int) -> int:
    """Count the repeats that NEW must have beside so many of BASE, so that a test can find a difference."""
    return next(new for new in count(1) if _smallest_p(base, new) * tests <= LEVEL)


def _is_suspicious(one: Judged) -> bool:
    slowdown = one.slowdown
    if slowdown is None or one.why.startswith(TOO_FEW):
        return False
    return one.verdict == WORSE or (one.verdict == INCONCLUSIVE and slowdown.value > 1 + one.threshold)


def _labels(base: Side, new: Side, arms: conditions.Pairs | None) -> conditions.Pairs:
    """Choose which arms to compare."""
    for i, side in enumerate((base, new)):
        known = dict.fromkeys(cell.label for cell in side.cells)
        for pair in arms or ():
            if pair[i] not in known:
                fix = f"choose from {', '.join(known) or 'no arm at all'}"
                raise UsageError(f"--arms: {side.name} has no arm {pair[i]!r}", fix=fix)
    labels = list(arms or [(label, label) for label in dict.fromkeys(cell.label for cell in base.cells)])
    if base.path == new.path and any(label == other for label, other in labels):
        raise UsageError(
            f"{base.name} would be compared with itself",
            fix="give another run, or say which of its arms to compare: --arms BASE_LABEL=NEW_LABEL",
        )
    return labels


def _nothing(base: Side, new: Side, found: Sequence[Judged], metrics: Collection[str]) -> IncomparableError:
    """Zero comparable trials never pass."""
    if set(base.cells).isdisjoint(new.cells) and base.cells and new.cells:
        has = [f"{side.name} has {_listed(side.cells)}" for side in (base, new)]
        fix = "compare runs of one spec, or say which arms belong together: --arms BASE_LABEL=NEW_LABEL"
        return IncomparableError(f"nothing to compare: {'; '.join(has)}", fix=fix)
    sides = [[_in_any(trial, metrics) for trial in side.trials] for side in (base, new)]
    if all(VALID in verdicts for verdicts in sides):
        if not found:
            problem = f"nothing to compare: neither {base.name} nor {new.name} has {' or '.join(metrics)}"
            return IncomparableError(problem, fix="name another --metric: a command has a JCT and no GST")
        why: dict[str, dict[str, None]] = {}
        for one in found:
            why.setdefault(one.why, {})[str(one.cell)] = None
        told = [f"{_listed(list(named))}: {reason}" for reason, named in why.items()]
        fix = "name other arms, or these the other way round: --arms BASE_LABEL=NEW_LABEL"
        if any(one.unmeasured for one in found):
            fix = "testbed report RUN says why trials are not VALID; or name other arms: --arms BASE_LABEL=NEW_LABEL"
        return IncomparableError(f"nothing to compare: {'; '.join(told)}", fix=fix)
    fix = "testbed report RUN says why trials are not VALID"
    if all(SIMULATED in verdicts and VALID not in verdicts for verdicts in sides):
        runs = base.name if base.path == new.path else f"{base.name} {new.name} --out FILE"
        fix = f"testbed report {runs} has them side by side, and says how far off they are"
    return IncomparableError(
        "nothing to compare, because only VALID trials count: "
        + "; ".join(f"{side.name} has {_counts(verdicts)}" for side, verdicts in zip((base, new), sides, strict=True)),
        fix=fix,
    )


def _in_any(trial: Measured, metrics: Collection[str]) -> str:
    """Return a trial's verdict in these metrics together: VALID where it is so in one of them."""
    verdicts = {trial.verdicts.get(name, trial.verdict) for name in metrics}
    return next(one for one in (VALID, FAILED, INVALID, UNWATCHED, SIMULATED) if one in verdicts)


def _listed(cells: Sequence[object], most: int = 2) -> str:
    """Name cells, or of many the first: names of a sweep's cells are long."""
    return " and ".join(map(str, cells)) if len(cells) <= most else f"{len(cells)} cells, such as {cells[0]}"
