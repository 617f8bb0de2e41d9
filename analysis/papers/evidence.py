"""From runs to samples of one number: only what trials measured that are VALID in it, and why the others do not count.

GST has a verdict of its own. Reductions of JCT and speed-ups are made of the times of iterations after the warm-up, so
the verdict of iteration times decides about them: JCT's is of a sum, in which the warm-up is as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.numbers.statistics import CONFIDENCE, Interval, mean, mean_ratio, median
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.verdicts import CALLED, INVALID, SIMULATED, VALID
from testbed.base.listing import counted

GST, JCT, ITERATION_TIMES = "gst", "jct", "iterations"
"""Names of the numbers that claims are about (:data:`testbed.analysis.verdicts.NUMBERS`)."""
Values = npt.NDArray[np.float64]
FEWEST_TRIALS = 3
"""From so many repeats on, a sample is a trial's median; of fewer, its iterations are taken, and whatever disturbs a
whole trial disturbs them together: their interval can be too narrow."""


@dataclass(frozen=True)
class Measured:
    """Samples of one number.

    Attributes:
        samples: one a trial, or one an iteration, as ``of`` says.
        valid, trials: how many trials have :attr:`verdict` in it, and how many there should be.
        doubts: why the others do not count, a sentence each.
    """

    samples: tuple[float, ...]
    of: str
    valid: int
    trials: int
    doubts: tuple[str, ...] = ()
    fitted: Interval | None = None
    """Interval of a number that is no median of samples."""
    signed: bool = False
    """Whether samples are differences, which may as well be below 0."""
    verdict: str = VALID
    """The verdict of trials that count: SIMULATED of a run in simulated time."""

    @property
    def basis(self) -> str:
        """How many samples there are, of what: ``1 iteration``; empty without any."""
        return counted(len(self.samples), self.of.removesuffix("s")) if self.samples else ""

    @property
    def fidelity(self) -> str:
        """How many trials count: ``2 of 3 VALID``."""
        return f"{self.valid} of {self.trials} {self.verdict}"

    @cached_property
    def interval(self) -> Interval | None:
        """The median and its 95 % interval; None where there are no two samples."""
        if self.fitted is not None:
            return self.fitted
        return median(self.samples, signed=self.signed) if len(self.samples) > 1 else None


def measure(
    run: Run | None,
    arms: Sequence[str],
    values: Callable[..., Values],
    batch: int | None = None,
    *,
    number: str = ITERATION_TIMES,
    signed: bool = False,
) -> Measured:
    """``values`` of the trials of ``arms`` with the same repeat, from all repeats in which each is VALID in ``number``;
    of a run in simulated time, from those that are SIMULATED.

    Args:
        arms: labels; ``values`` is given a trial of each, in this order, and returns one number an iteration.
        batch: of each; None takes the first that the run has, or that of an arm whose jobs have others.
        number: the name of the number whose verdict decides.
        signed: the numbers are differences, which may as well be below 0.
    """
    found = _counted(run, arms, batch, number)
    each = [values(*trials) for trials in found.trials]
    enough = len(each) >= FEWEST_TRIALS
    samples = [float(np.median(one)) for one in each] if enough else [float(x) for one in each for x in one]
    of = "trials" if enough else "iterations"
    return Measured(tuple(samples), of, found.valid, found.asked, found.doubts, signed=signed, verdict=found.verdict)


def measure_means(
    run: Run | None, arms: Sequence[str], values: Callable[[Trial], Values], *, number: str = ITERATION_TIMES
) -> Measured:
    """The mean of ``values`` in trials of an arm, or, of two arms, the mean in the second over that in the first.

    For numbers whose sum counts and whose median says little, such as iterations that are short or long by chance.
    ``values`` returns one number an iteration. Of fewer repeats than :data:`FEWEST_TRIALS`, the interval is that of the
    iterations' mean.
    """
    found = _counted(run, arms, None, number)
    each = [[values(trial) for trial in trials] for trials in found.trials]
    made = partial(Measured, valid=found.valid, trials=found.asked, doubts=found.doubts, verdict=found.verdict)
    if len(each) >= FEWEST_TRIALS:
        return made(tuple(_mean(one, of_two=len(arms) > 1).value for one in each), "trials")
    pooled = [np.concatenate(one) for one in zip(*each, strict=True)]
    if not pooled or min(map(len, pooled)) < 2:
        return made((), "iterations")
    return made(tuple(pooled[-1].tolist()), "iterations", fitted=_mean(pooled, of_two=len(arms) > 1))


def _mean(values: Sequence[Values], *, of_two: bool) -> Interval:
    return mean_ratio(*values) if of_two else mean(*values)


def mean_of(parts: Sequence[Measured], average: Callable[..., Values] = np.mean) -> Measured:
    """The mean of numbers from several runs, each of the same weight; or their median (``np.median``). Its interval's
    ends are means of theirs: wider than that of a mean of independent numbers."""
    known = [(each.value, each.low, each.high) for part in parts if (each := part.interval)]
    if len(known) < len(parts):
        return replace(pooled(parts), samples=(), fitted=None)
    return replace(pooled(parts), fitted=Interval(*average(known, axis=0).tolist()))


def pooled(parts: Sequence[Measured], of: str = "") -> Measured:
    """The mean of all samples of several measurements of one number; ``of`` says what a sample is of."""
    samples = tuple(sample for part in parts for sample in part.samples)
    doubts = tuple(doubt for part in parts for doubt in part.doubts)
    told = (sum(part.valid for part in parts), sum(part.trials for part in parts), doubts)
    fitted = mean(np.array(samples)) if len(samples) > 1 else None
    return Measured(samples, of or parts[0].of, *told, fitted, verdict=parts[0].verdict)


def extreme(measured: Measured, of: Callable[..., float] = max) -> Measured:
    """Return the largest sample, or with ``min`` the least, as a number that is known exactly."""
    if not measured.samples:
        return measured
    value = of(measured.samples)
    return replace(measured, fitted=Interval(value, value, value))


def where(run: Run | None, **swept: object) -> Run | None:
    """Return the run with those trials alone that have these values of what a sweep varies, by the last word of its
    path; and with the trials of arms that do not vary it."""
    if run is None:
        return None
    points = [{path.rpartition(".")[2]: value for path, value in trial.point.items()} for trial in run.trials]
    fit = [all(point.get(name, value) == value for name, value in swept.items()) for point in points]
    return replace(run, trials=tuple(trial for trial, fits in zip(run.trials, fit, strict=True) if fits))


@dataclass(frozen=True)
class _Counted:
    """Trials that count, by repeat and arm; how many of those asked for have the verdict that counts, and doubts."""

    trials: tuple[tuple[Trial, ...], ...]
    valid: int
    asked: int
    doubts: tuple[str, ...]
    verdict: str = VALID


def _counted(run: Run | None, arms: Sequence[str], batch: int | None, number: str) -> _Counted:
    if run is None:
        return _Counted((), 0, 0, ("it was not run",))
    is_simulated = any(judged.verdict == SIMULATED for trial in run.trials for judged in trial.numbers.values())
    verdict = SIMULATED if is_simulated else VALID
    asked = run.resolved.get("repeats") or 1
    if is_simulated or not isinstance(asked, int):  # what is simulated runs once, whatever was asked
        asked = 1 + max((trial.repeat for trial in run.trials), default=0)
    repeats = range(asked)
    found, doubts, valid = [], [], 0
    for repeat in repeats:
        trials = [_trial(run, label, _batch(run, label) if batch is None else batch, repeat) for label in arms]
        why = [
            reason
            for label, trial in zip(arms, trials, strict=True)
            if (reason := _why_not(label, trial, number, verdict))
        ]
        doubts += why
        valid += sum(trial is not None and _counts(trial, number, verdict) for trial in trials)
        if not why:
            found.append(tuple(trial for trial in trials if trial is not None))
    return _Counted(tuple(found), valid, len(repeats) * len(arms), tuple(doubts), verdict)


def _batch(run: Run, label: str) -> int | None:
    """The first of the run that an arm has, or else the arm's own."""
    own = [trial.batch for trial in run.trials if trial.label == label]
    return next((batch for batch in (*run.batches, *own) if batch in own), None)


def _trial(run: Run, label: str, batch: int | None, repeat: int) -> Trial | None:
    wanted = (label, batch, repeat)
    return next((trial for trial in run.trials if (trial.label, trial.batch, trial.repeat) == wanted), None)


def _counts(trial: Trial, number: str, verdict: str) -> bool:
    """Whether the trial finished and a number has this verdict."""
    if verdict == VALID:
        return trial.valid_in(number)
    judged = trial.numbers.get(number)
    return trial.done and judged is not None and judged.verdict == verdict


def _why_not(label: str, trial: Trial | None, number: str, verdict: str) -> str:
    if trial is None:
        return f"{label}: was not run"
    if not trial.done:
        return f"{label}: failed: {(trial.error or 'for no known reason').splitlines()[0]}"
    if _counts(trial, number, verdict):
        return ""
    judged, reasons = trial.numbers.get(number), ", ".join(check.name for check in trial.reasons_for(number))
    return f"{label}: {judged.verdict if judged else INVALID} in {CALLED[number]}{f' ({reasons})' if reasons else ''}"


def samples_of(trial: Trial) -> pd.DataFrame:
    """Return the samples of a trial, which is VALID, so it has them."""
    assert trial.samples is not None
    return trial.samples


def gst_s(trial: Trial) -> Values:
    """GST (s) of each iteration after the warm-up."""
    return np.asarray(metrics.gst_s(samples_of(trial), trial.warmup), np.float64)


def slower(base: Trial, other: Trial) -> Values:
    """GST of ``other`` over that of ``base``, iteration by iteration."""
    times: Values = gst_s(other) / gst_s(base)
    return times


def sum_to_sum_s(trial: Trial) -> Values:
    """Compute the time (s) from a rank's sum to its next one, the mean over ranks, where nothing is computed.

    Where some ranks have their sum long before others, they send the next gradient meanwhile. So GST, from the last
    gradient on, gets shorter from iteration to iteration, though no sum takes less time."""
    each = samples_of(trial).groupby("iteration")["sum_s"].mean()
    times: Values = each.diff().to_numpy(np.float64)[max(1, trial.warmup) :]
    return times


def by_bounds(base: Trial, other: Trial) -> Values:
    """Least GST of ``other`` over that of ``base``, by their plans and links, as the only sample."""
    return np.array([(other.metrics.gst_theory_s or math.nan) / (base.metrics.gst_theory_s or math.nan)])


def over_forest(run: Run | None, label: str) -> Measured:
    """Time from sum to sum over the least time that the forest of the plan that ran allows."""
    return measure(
        run, [label], lambda trial: sum_to_sum_s(trial) / (trial.metrics.gst_theory_s or math.nan), number=GST
    )


def iteration_s(trial: Trial) -> Values:
    """Compute the time (s) that each iteration after the warm-up took, from the end of the one before: what a job of
    many iterations takes is their sum."""
    samples = samples_of(trial)
    ends = samples.groupby("iteration")["end_s"].max().to_numpy(float)
    took: Values = np.diff(ends, prepend=float(samples["start_s"].min()))
    return took[trial.warmup :]


def reduction(base: Trial, new: Trial) -> Values:
    """Compute by how many per cent ``new`` takes less time than ``base``, iteration by iteration."""
    less: Values = 100 * (1 - iteration_s(new) / iteration_s(base))
    return less


def speed_up(base: Trial, new: Trial) -> Values:
    """Throughput of ``new`` over that of ``base``, of the same batch, iteration by iteration."""
    times: Values = iteration_s(base) / iteration_s(new)
    return times


DRAWS = 1999
SEED = 20


def explained(form: Values, cells: Sequence[Values]) -> Interval:
    """R^2 of least squares on the means of cells of samples, with its interval; ``form`` is float64[cells, terms]."""
    return _of_means(lambda means: r_squared(form, means), cells)


def spearman(predicted: Values, cells: Sequence[Values]) -> Interval:
    """Spearman's coefficient between numbers predicted of the cells, float64[cells], and their means, with its
    interval; none where a cell has but one sample."""
    from scipy.stats import rankdata  # here, for it takes longer to import than all of the harness

    order = rankdata(predicted) - (len(predicted) + 1) / 2

    def coefficient(means: Values) -> Values:
        ranks = rankdata(means, axis=-1) - (len(predicted) + 1) / 2
        found: Values = ranks @ order / np.sqrt((ranks**2).sum(axis=-1) * (order**2).sum())
        return found

    return _of_means(coefficient, cells)


def _of_means(number: Callable[[Values], Values], cells: Sequence[Values]) -> Interval:
    """Compute a number from the cells' means, float64[..., cells] to float64[...], and its interval.

    The interval is that over draws of what the means may be: each cell's by Student's t, around its own. Draws from
    the samples (bootstrap) scatter too little if these are few: 95 % then cover 78 to 92 % at 3 to 8 samples.
    """
    means = np.array([cell.mean() for cell in cells])
    found = float(number(means))
    if min(map(len, cells)) < 2:
        return Interval(found, -np.inf, np.inf)
    counts = np.array([len(cell) for cell in cells])
    errors = np.array([cell.std(ddof=1) for cell in cells]) / np.sqrt(counts)
    drawn = means + errors * np.random.default_rng(SEED).standard_t(counts - 1, (DRAWS, len(cells)))
    low, high = np.quantile(number(drawn), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(found, min(found, float(low)), max(found, float(high)))


def r_squared(form: Values, means: Values) -> Values:
    """Compute how much of the variance of ``means`` (float64[..., cells]) the best combination of the columns of
    ``form`` explains, float64[...]."""
    left = means - means @ np.linalg.pinv(form).T @ form.T
    share: Values = (left**2).sum(axis=-1) / ((means - means.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    return 1 - share
