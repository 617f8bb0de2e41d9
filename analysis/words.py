"""What the numbers of a run say, in sentences. Every sentence is computed from the run; plain text, not HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median

import pandas as pd

from analysis.load import LinkCount, Run, Trial
from testbed.units import rate_text, size_text, time_text

_SAME_LOSS = 1e-3
"""Losses of two arms that differ by less than this, relatively, are called the same."""

_MOST_NAMED = 4
"""Sentences name at most so many trials one by one."""


def finding(run: Run) -> str:
    """The run in one sentence: the arm that synchronised fastest, against the first arm."""
    if not run.finished:
        return "No trial finished, so there is nothing to compare."
    ratios = _gst_ratios(run)
    if not ratios:
        return _alone(run.finished)
    label = min(ratios, key=lambda name: median([gst for gst, _ in ratios[name]]))
    gst = _span(gst for gst, _ in ratios[label])
    jct = _span(jct for _, jct in ratios[label])
    first = run.labels[0]
    if median([value for value, _ in ratios[label]]) >= 0.995:
        return f"No arm synchronised faster than {first}; {label} came closest with {gst} its time."
    return f"{label} took {gst} the synchronisation time of {first}, and {jct} its job completion time."


def is_believable(run: Run) -> bool:
    """Whether the finding rests on a VALID trial, or on two where it compares."""
    if not run.finished:
        return True
    pairs = [(trial, run.first_arm(trial)) for trial in run.finished if trial.label != run.labels[0]]
    compared = [trial.valid and first.valid for trial, first in pairs if first]
    return any(compared) if compared else any(trial.valid for trial in run.finished)


def doubts(run: Run) -> str | None:
    """Which trials are not to be believed, or None where all are."""
    invalid = [name(trial) for trial in run.finished if not trial.valid]
    if not invalid:
        return None
    if len(invalid) == len(run.finished):
        return "No finished trial is VALID: comparisons mean nothing."
    if len(invalid) > _MOST_NAMED:
        return f"{len(invalid)} trials are INVALID: comparisons with them mean nothing."
    verb, them = ("is", "it") if len(invalid) == 1 else ("are", "them")
    return f"{listed(invalid)} {verb} INVALID: comparisons with {them} mean nothing."


def counts(run: Run) -> str:
    """How many trials there are of which verdict, and how many of those planned are missing."""
    valid = sum(trial.valid for trial in run.trials)
    failed = sum(not trial.done for trial in run.trials)
    invalid = len(run.trials) - valid - failed
    parts = [f"{valid} VALID"] + [f"{n} {word}" for n, word in ((invalid, "INVALID"), (failed, "failed")) if n]
    plural = "trial" if len(run.trials) == 1 else "trials"
    text = f"{len(run.trials)} {plural}: {', '.join(parts)}."
    missing = (run.planned or 0) - len(run.trials)
    return f"{text} {missing} of {run.planned} planned have not run." if missing > 0 else text


def scale(run: Run) -> str:
    """What was played back instead of training, and how its times are to be read; empty where models were trained."""
    if run.played is None:
        return ""
    model, scale, rate_bps = run.played
    what = f"Nothing was trained: random values as large as {model}'s gradient were summed, and the sums checked."
    if scale == 1:
        return what
    return (
        f"{what} Scale is {scale:g}: gradient and links have 1/{scale:g} of their bytes and rates, so times are those "
        f"of the whole model over links of {_unbroken(rate_text(rate_bps))}; bytes and rates below are the lab's."
    )


def jct(run: Run) -> list[str]:
    """Per batch: which arm finished first, of the VALID ones if any is, and how much of each arm's time is
    synchronisation."""
    sentences = []
    for batch, trials in _by_batch(run):
        known = [(t, t.metrics.jct_s) for t in trials if t.metrics.jct_s is not None]
        if not known:
            continue
        best, time = min([row for row in known if row[0].valid] or known, key=lambda row: row[1])
        first = run.first_arm(best)
        over = first.metrics.jct_s if first else None
        against = f", {ratio(time / over)} of {arm(first)}" if first and over and first is not best else ""
        synced = [(t.metrics.sync_s / whole, t) for t, whole in known if t.metrics.sync_s is not None]
        shares = f" Synchronisation is {_each(synced, '{:.0%} of JCT'.format)}." if synced else ""
        lead = f"{arm(best)} finished first, in {_time(time)}{against}" if len(known) > 1 else f"JCT is {_time(time)}"
        sentences.append((f"Batch {batch}: " if batch else "") + f"{lead}.{shares}")
    return sentences


def gst(run: Run) -> list[str]:
    """How near the medians are to theory, and which trial spreads most."""
    rows = [(t, t.metrics.gst_ratio, t.metrics.gst_median_s, t.metrics.gst_p95_s) for t in run.finished]
    near = [(value, t) for t, value, _, _ in rows if value is not None]
    wide = [(p95 / median, t) for t, _, median, p95 in rows if median and p95 is not None]
    sentences = []
    if near:
        low, high = min(near, key=lambda row: row[0]), max(near, key=lambda row: row[0])
        span = _span(value for value, _ in near)
        far = f", farthest from it {name(_farthest(low, high))}" if " to " in span else ""
        sentences.append(f"{'Medians are' if len(near) > 1 else 'The median is'} {span} what theory says{far}.")
    if wide:
        spread, trial = max(wide, key=lambda row: row[0])
        sentences.append(f"{name(trial)} varies most: its 95th percentile is {ratio(spread)} its median.")
    return sentences


def loss(run: Run) -> list[str]:
    """Per batch: whether the arms went through the same losses, and when each reached what all reached.

    Without computing time there are no steps either, and too few iterations do not help: then nothing was reached.
    """
    sentences = []
    for batch, trials in _by_batch(run):
        curves = [(trial, curve) for trial in trials if (curve := loss_curve(trial)) is not None]
        if not curves:
            continue
        same = _same_losses([curve["loss"] for _, curve in curves])
        stuck = [arm(trial) for trial, curve in curves if not _falls(curve["loss"])]
        if stuck:
            whose = f" of {listed(stuck)}" if len(stuck) < min(len(curves), _MOST_NAMED) else ""
            sentences.append(f"Batch {batch}: {same}the loss{whose} did not fall.")
            continue
        goal = max(float(curve["loss"].min()) for _, curve in curves)
        times = [(float(curve.loc[curve["loss"] <= goal, "time_s"].iloc[0]), trial) for trial, curve in curves]
        begin = float(curves[0][1]["loss"].iloc[0])
        sentences.append(f"Batch {batch}: {same}from {begin:#.3g} down to {goal:#.3g} it took {_each(times, _time)}.")
    return sentences


def links(counted: Sequence[LinkCount]) -> str:
    """Busiest link, how even the load is, the whole, and what was dropped."""
    busiest = max(counted, key=lambda link: link.bytes)
    total = sum(link.bytes for link in counted)
    drops = sum(link.drops for link in counted)
    theory = busiest.theory_bytes
    against = f", {ratio(busiest.bytes / theory)} what theory says" if theory else ""
    even = ratio(busiest.bytes * len(counted) / total) if total else "no"
    dropped = f"{drops:,} packets were dropped" if drops else "nothing was dropped"
    return (
        f"The busiest link, {busiest.source} to {busiest.target}, carried {_size(busiest.bytes)}{against}; that is "
        f"{even} the mean link. All links together carried {_size(total)}; {dropped}."
    )


def loss_curve(trial: Trial) -> pd.DataFrame | None:
    """Columns ``time_s``, when the last worker ended the iteration, and ``loss``, the mean over the workers."""
    if trial.samples is None or trial.samples.empty:
        return None
    samples = trial.samples.assign(loss=pd.to_numeric(trial.samples["loss"], errors="coerce"))
    iterations = samples.groupby("iteration")
    time_s = iterations["end_s"].max() - samples["start_s"].min()
    curve = pd.DataFrame({"time_s": time_s, "loss": iterations["loss"].mean()}).dropna()
    return None if curve.empty else curve


def name(trial: Trial) -> str:
    """A trial among all of the run; a command has no batch."""
    return f"{arm(trial)} at batch {trial.batch}" if trial.batch else arm(trial)


def arm(trial: Trial) -> str:
    """A trial among those of its batch."""
    return f"{trial.label} (repeat {trial.repeat + 1})" if trial.repeat else trial.label


def ratio(value: float) -> str:
    """``0.50×``."""
    return f"{value:.2f}×"


def listed(items: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def _gst_ratios(run: Run) -> dict[str, list[tuple[float, float]]]:
    """GST and JCT over the first arm's, by label; of pairs of VALID trials, or of any where no pair is VALID."""
    pairs = []
    for trial in run.finished:
        first = run.first_arm(trial)
        mine, theirs = trial.metrics, first.metrics if first else None
        if theirs is None or first is trial or mine.gst_median_s is None or mine.jct_s is None:
            continue
        if theirs.gst_median_s and theirs.jct_s:
            both = trial.valid and bool(first and first.valid)
            pairs.append((both, trial.label, mine.gst_median_s / theirs.gst_median_s, mine.jct_s / theirs.jct_s))
    believed = [pair for pair in pairs if pair[0]] or pairs
    ratios: dict[str, list[tuple[float, float]]] = {}
    for _, label, gst_ratio, jct_ratio in believed:
        ratios.setdefault(label, []).append((gst_ratio, jct_ratio))
    return ratios


def _alone(trials: Sequence[Trial]) -> str:
    """The finding where no two arms can be compared."""
    trial = next((trial for trial in trials if trial.valid), trials[0])
    if trial.metrics.gst_median_s is None and trial.metrics.jct_s is not None:
        return _fastest_job(trials)
    if trial.metrics.gst_median_s is None:
        return f"{name(trial)} finished; there is nothing to compare it with."
    against = "" if trial.metrics.gst_ratio is None else f", {ratio(trial.metrics.gst_ratio)} what theory says"
    return f"{name(trial)} synchronised in {_time(trial.metrics.gst_median_s)} (median){against}."


def _fastest_job(trials: Sequence[Trial]) -> str:
    """The finding about commands: the job that took least, of the VALID ones if any is."""
    timed = [(t.metrics.jct_s, t) for t in trials if t.metrics.jct_s is not None]
    time, best = min([row for row in timed if row[1].valid] or timed, key=lambda row: row[0])
    beside = [f"{arm(t)} {_time(jct)}" for jct, t in timed if t is not best]
    others = f"; {listed(beside)}" if 0 < len(beside) <= _MOST_NAMED else ""
    return f"{arm(best)} took {_time(time)}{others}."


def _farthest(low: tuple[float, Trial], high: tuple[float, Trial]) -> Trial:
    return high[1] if high[0] * low[0] >= 1 else low[1]


def _falls(losses: pd.Series[float]) -> bool:
    return bool(losses.min() < (1 - _SAME_LOSS) * losses.iloc[0])


def _same_losses(losses: Sequence[pd.Series[float]]) -> str:
    if len(losses) < 2:
        return ""
    first = losses[0]
    same = all(
        len(other) == len(first) and ((other - first).abs() <= _SAME_LOSS * first.abs()).all() for other in losses
    )
    return "every arm went through the same losses; " if same else "the arms went through different losses; "


def _each(values: Sequence[tuple[float, Trial]], as_text: Callable[[float], str]) -> str:
    """Every trial's value, or, of many, only the least and the greatest."""
    if len(values) <= _MOST_NAMED:
        return listed(f"{as_text(value)} for {arm(trial)}" for value, trial in values)
    (low, least), *_, (high, greatest) = sorted(values, key=lambda row: row[0])
    return f"{as_text(low)} for {arm(least)} to {as_text(high)} for {arm(greatest)}"


def _time(seconds: float) -> str:
    return _unbroken(time_text(seconds, measured=True))


def _size(count: float) -> str:
    return _unbroken(size_text(count))


def _unbroken(quantity: str) -> str:
    """A number and its unit, to stay on one line."""
    return quantity.replace(" ", "\N{NO-BREAK SPACE}")


def _span(values: Iterable[float]) -> str:
    """``0.50×``, or ``0.50× to 0.52×`` where the two differ as written."""
    ordered = sorted(values)
    low, high = ratio(ordered[0]), ratio(ordered[-1])
    return low if low == high else f"{low} to {high}"


def _by_batch(run: Run) -> list[tuple[int, list[Trial]]]:
    """The finished trials of each batch that has any."""
    groups = [(batch, [trial for trial in run.finished if trial.batch == batch]) for batch in run.batches]
    return [(batch, trials) for batch, trials in groups if trials]
