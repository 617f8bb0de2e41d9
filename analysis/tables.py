"""The report's tables as text: cells with their units settled, one unit a column so that a column can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analysis import metrics, words
from analysis.load import Check, Run, Trial
from testbed.units import rate_text, size_text

NONE = "–"


@dataclass(frozen=True)
class Cell:
    """One value. ``state`` is empty, ``good`` or ``bad``; ``note`` is said beside it in small print."""

    text: str
    note: str = ""
    state: str = ""


@dataclass(frozen=True)
class Row:
    """One trial: its cells, or the error that left it without; ``reasons`` say why it is INVALID."""

    trial: Trial
    arm: str
    cells: tuple[Cell, ...]
    error: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """Rows by batch, under one line of column names."""

    columns: tuple[str, ...]
    groups: tuple[tuple[str, tuple[Row, ...]], ...]


def verdicts(run: Run) -> Table:
    """The table that the report opens with: a row a trial."""
    seconds = _Time(t.metrics.jct_s for t in run.trials)
    sync = _Time(t.metrics.gst_median_s for t in run.trials)
    columns = (
        f"JCT, {seconds.unit}",
        "JCT ratio",
        f"GST median, {sync.unit}",
        f"GST p95, {sync.unit}",
        f"GST theory, {sync.unit}",
        "GST / theory",
        "Samples per second",
        "Test accuracy",
        "Weights",
        "Fidelity",
    )
    return _table(run, columns, lambda trial: _verdict_cells(run, trial, seconds, sync))


def _verdict_cells(run: Run, trial: Trial, seconds: _Time, sync: _Time) -> tuple[Cell, ...]:
    m, first = trial.metrics, run.first_arm(trial)
    over = first.metrics.jct_s if first else None
    accuracy = trial.accuracy.test_accuracy
    return (
        Cell(seconds.text(m.jct_s)),
        Cell(words.ratio(m.jct_s / over) if m.jct_s is not None and over else NONE),
        Cell(sync.text(m.gst_median_s), _off(m.gst_uncertainty_s)),
        Cell(sync.text(m.gst_p95_s)),
        Cell(sync.text(m.gst_theory_s)),
        Cell(NONE if m.gst_ratio is None else words.ratio(m.gst_ratio)),
        Cell(NONE if m.throughput_sps is None else f"{m.throughput_sps:,.0f}"),
        Cell(NONE if accuracy is None else f"{accuracy:.1%}"),
        _weights(trial),
        _fidelity(trial),
    )


def _off(uncertainty_s: float | None) -> str:
    """What hosts' clocks leave open."""
    return "" if uncertainty_s is None else f"± {uncertainty_s * 1e3:.2g} ms by clocks"


def _weights(trial: Trial) -> Cell:
    wrong, checked = trial.accuracy.wrong_elements, trial.accuracy.checked_elements
    if wrong is not None and checked is not None:
        return Cell("sums right" if not wrong else f"{wrong:,} wrong", f"of {checked:,}", "bad" if wrong else "good")
    error, equal = trial.accuracy.weights_error, trial.accuracy.weights_equal
    note = "" if error is None else f"off by {error:.1g}"
    if equal is None:
        return Cell(NONE, note)
    return Cell("equal", note, "good") if equal else Cell("DIFFER", note, "bad")


def _fidelity(trial: Trial) -> Cell:
    if trial.verdict is None:
        return Cell("not judged", state="bad")
    return Cell(trial.verdict, state="good" if trial.valid else "bad")


def bandwidths(run: Run) -> Table:
    """What the times mean as rates, and the bytes that were sent: a row a finished trial."""
    columns = (
        "GST median, s",
        "Algorithm bandwidth",
        "Bus bandwidth, ring-equivalent",
        "Sent by all workers",
        "Theory",
        "Sent / theory",
    )
    return _table(run, columns, _bandwidth_cells)


def _bandwidth_cells(trial: Trial) -> tuple[Cell, ...]:
    m = trial.metrics
    over = m.wire_bytes / m.wire_bytes_theory if m.wire_bytes is not None and m.wire_bytes_theory else None
    return (
        Cell(NONE if m.gst_median_s is None else f"{m.gst_median_s:.4f}"),
        Cell(NONE if m.algbw_bps is None else rate_text(m.algbw_bps)),
        Cell(NONE if m.busbw_bps is None else rate_text(m.busbw_bps)),
        Cell(NONE if m.wire_bytes is None else size_text(m.wire_bytes)),
        Cell(NONE if m.wire_bytes_theory is None else size_text(m.wire_bytes_theory)),
        Cell(NONE if over is None else words.ratio(over)),
    )


def waits(run: Run) -> Table:
    """How long workers waited, gradient ready, for the slowest one's: a row a finished trial."""
    columns = ("Mean wait of a worker, s", "Longest mean wait, s", "Slowest most often")
    return _table(run, columns, lambda trial: _wait_cells(trial, run.warmup))


def _wait_cells(trial: Trial, warmup: int) -> tuple[Cell, ...]:
    if trial.samples is None:
        return (Cell(NONE), Cell(NONE), Cell(NONE))
    waits = metrics.waits_s(trial.samples, skip=warmup)
    by_rank, slowest = waits.mean(), waits.idxmin(axis=1).value_counts()
    return (
        Cell(f"{by_rank.mean():.4f}"),
        Cell(f"{by_rank.max():.4f}", note=f"rank {by_rank.idxmax()}"),
        Cell(f"rank {slowest.index[0]}", note=f"{slowest.iloc[0]} of {len(waits)} iterations"),
    )


def checks(run: Run) -> Table:
    """Every fidelity check of every finished trial, a column a check."""
    by_name = {check.name: check for trial in run.finished for check in trial.checks}
    limits = {name: NONE if check.limit is None else f"{check.limit:g} {check.unit}" for name, check in by_name.items()}
    columns = tuple(f"{name} (limit {limits[name].strip()})" for name in by_name)
    return _table(run, columns, lambda trial: tuple(_check(trial, name) for name in by_name))


def _check(trial: Trial, name: str) -> Cell:
    check = next((check for check in trial.checks if check.name == name), None)
    if check is None:
        return Cell(NONE)
    text = "not measured" if check.value is None else f"{check.value:.3g}"
    return Cell(text, "as asked for" if check.asked else "", "" if check.ok else "bad")


def _table(run: Run, columns: tuple[str, ...], cells: Callable[[Trial], tuple[Cell, ...]]) -> Table:
    groups = []
    for batch in run.batches:
        trials = [trial for trial in run.trials if trial.batch == batch]
        groups.append((_group(batch, trials), tuple(_row(trial, cells) for trial in trials)))
    return Table(columns, tuple(groups))


def _row(trial: Trial, cells: Callable[[Trial], tuple[Cell, ...]]) -> Row:
    if not trial.done:
        return Row(trial, words.arm(trial), (), error=trial.error or "it left no reason")
    reasons = tuple(f"{check.name}: {check.detail or _against(check)}" for check in trial.reasons)
    return Row(trial, words.arm(trial), cells(trial), reasons=reasons)


def _against(check: Check) -> str:
    return f"{check.value} {check.unit}, limit {check.limit}"


def _group(batch: int, trials: list[Trial]) -> str:
    if not batch:
        return "One command"
    worlds = {trial.world for trial in trials}
    whole = f", {batch * worlds.pop():,} samples per iteration" if len(worlds) == 1 else ""
    return f"Batch {batch} per worker{whole}"


class _Time:
    """One unit for a column of times: seconds, or milliseconds where all are short."""

    def __init__(self, values: Iterable[float | None]) -> None:
        longest = max((value for value in values if value is not None), default=1.0)
        self.unit, self._factor = ("s", 1.0) if longest >= 0.05 else ("ms", 1e3)
        self._digits = 3 if longest * self._factor < 10 else 2

    def text(self, value: float | None) -> str:
        return NONE if value is None else f"{value * self._factor:,.{self._digits}f}"
