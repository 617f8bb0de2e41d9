"""The report's tables: values as text with their units settled, one unit a column so that a column can be compared.

The page, Markdown and LaTeX are written from the same tables. What no row has is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.analysis.numbers import ratios, repeats
from testbed.analysis.numbers.goal import ACCURACY, LIKELIHOOD, TOLD
from testbed.analysis.numbers.repeats import GST, JCT, NOT_JUDGED, NUMBER_OF, THROUGHPUT, WAITING
from testbed.analysis.record.happened import Attempt
from testbed.analysis.record.trial import RecordedCheck
from testbed.analysis.recorded import Place, Run, Trial
from testbed.analysis.report import headline, words
from testbed.analysis.report.cells import MeasuredCell, Pair, as_text, cells, is_known
from testbed.analysis.verdicts import CALLED, GST_P95, NUMBERS, SIMULATED, VALID, in_short, joint_verdict, percent
from testbed.base.listing import counted, shortened
from testbed.base.units import rate_text, size_text

NONE = words.UNKNOWN
SUMS_RIGHT = words.unbroken("sums right")
SETTING = "setting"
UNITS = ("s", "ms")
"""Units that end a column's name, after a comma."""
NOT_WATCHED = "not watched"
_RANK = {"bad": 0.0, "mixed": 0.5, "good": 1.0}
"""Numbers by which states are sorted."""
RATIO = "GST / bound"
OTHER_NETWORK = "on another network"
CHECKS = (
    "The limit of each check and the numbers that it threatens are in brackets. A number is INVALID if a check that "
    "threatens it fails, and UNWATCHED if nobody saw whether processes stood still or waited for a core. There is one "
    "exception: a failed or missing check of the machine does not count if the number is certified. A certified number "
    "is so close to its own lower bound that the machine cannot have changed it much. "
    "GST p95 is VALID only if GST and JCT are VALID and neither needed this exception."
)


@dataclass(frozen=True)
class Value:
    """One value: ``number`` is what it is sorted by, ``note`` is said beside it in small print, ``state`` is empty,
    ``good``, ``mixed`` or ``bad``, or :data:`SETTING` of what is no number of the trial's."""

    text: str
    number: float | None = None
    note: str = ""
    state: str = ""


@dataclass(frozen=True)
class Row:
    """One cell or trial: ``label`` is its arm, ``means`` what that stands for, ``state`` empty, ``partly`` (VALID in
    some numbers or trials), ``invalid``, ``unwatched`` or ``failed``."""

    label: str
    name: str
    values: tuple[Value, ...]
    means: str = ""
    state: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under one line of column names, the first of which is the arm's."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def summary(run: Run) -> Table:
    """Arms side by side: a row for each arm at each setting, medians of its repeats."""
    found = cells(run)
    several = any(len(cell.trials) > 1 for cell in found)
    gst, jct, *others = _results(run, {cell.place: cell for cell in found})
    counts = [*([_TRIALS] if several else []), _ATTEMPTS]
    makers = [*_settings(found), gst, jct, _FIDELITY, *others, *counts]
    caption = "A row for each arm at each setting" + (
        ": medians of its trials, and their 95 % intervals." if several else "."
    )
    return _of_cells("summary", caption, found, makers, has_means=True)


def _of_cells(
    name: str, caption: str, found: Sequence[MeasuredCell], columns: Sequence[_Column], *, has_means: bool = False
) -> Table:
    """A table with a row for each cell, and what its label means if the table has room for that."""
    rows = [
        Row(c.label, c.label, tuple(each.of(c) for each in columns), c.trials[0].means if has_means else "", _state(c))
        for c in found
    ]
    return _without_empty(Table(name, caption, ("Arm", *(each.title for each in columns)), tuple(rows)))


def verdict(run: Run) -> Value | None:
    """Say how many of the trials are VALID, for the head of a page; None where none has run."""
    if not run.trials:
        return None
    valid, simulated = (sum(getattr(trial, name) for trial in run.trials) for name in ("valid", "simulated"))
    if simulated and not valid:
        return Value(f"{simulated} of {len(run.trials)} SIMULATED", state="mixed")
    partly = any(trial.valid_in(name) for trial in run.trials for name in trial.numbers)
    is_mixed = valid or (partly and headline.is_believable(run))
    state = "good" if valid == len(run.trials) else "mixed" if is_mixed else "bad"
    return Value(f"{valid} of {len(run.trials)} VALID", state=state)


def _state(cell: MeasuredCell) -> str:
    if not _is_valid_in_some(cell):
        return _doubtful(cell.finished) if cell.finished else "failed"
    reported = {name for trial in cell.finished for name in trial.numbers}
    return "" if all(cell.verdict_in(name) == VALID for name in reported) else "partly"


def _doubtful(trials: Sequence[Trial]) -> str:
    """``invalid``, or ``unwatched`` if no number of these trials, of which none is VALID, is INVALID."""
    verdicts = [one.verdict for trial in trials for one in trial.numbers.values()]
    return joint_verdict(verdicts).lower() if verdicts else "invalid"


def _is_valid_in_some(cell: MeasuredCell) -> bool:
    return any(map(cell.valid_in, NUMBERS))


@dataclass(frozen=True)
class _Column:
    title: str
    of: Callable[[MeasuredCell], Value]


def _settings(found: Sequence[MeasuredCell]) -> list[_Column]:
    keys = dict.fromkeys(key for cell in found for key in cell.point)
    batch = [_Column("Batch", lambda cell: Value(str(cell.batch) if cell.batch else NONE, cell.batch, state=SETTING))]
    return batch + [_Column(key, lambda cell, key=key: _point(cell, key)) for key in keys]  # type: ignore[misc]


def _point(cell: MeasuredCell, key: str) -> Value:
    value = cell.trials[0].point.get(key)
    number = float(value) if isinstance(value, int | float) else None
    return Value(NONE if value is None else words.unbroken(as_text(value)), number, state=SETTING)


def _fidelity(cell: MeasuredCell) -> Value:
    errors = {name: cell.error(name) for name in (GST, JCT)}
    reported = {name for trial in cell.finished for name in trial.numbers}
    valid = sum(cell.verdict_in(name) == VALID for name in reported)
    is_mixed = any(map(cell.valid_in, reported)) or cell.verdict == SIMULATED
    state = "good" if reported and valid == len(reported) else "mixed" if is_mixed else "bad"
    return Value(cell.verdict, _RANK[state], _errors(errors), state)


def _errors(errors: Mapping[str, float | None]) -> str:
    """``off by at most: GST 1.6 %, JCT 2.7 %``."""
    known = [f"{CALLED[name]} {percent(error)}" for name, error in errors.items() if error is not None]
    return f"off by at most: {', '.join(known)}" if known else ""


_FIDELITY = _Column("Fidelity", _fidelity)
_TRIALS = _Column("Trials", lambda cell: Value(str(len(cell.trials)), len(cell.trials)))
_ATTEMPTS = _Column("Attempts", lambda cell: _attempts(sum(trial.attempts for trial in cell.trials), len(cell.trials)))


def _attempts(made: int, trials: int = 1) -> Value:
    """Show how many measurements trials needed; nothing where it was one each."""
    return Value(str(made) if made > trials else NONE, made)


def _results(run: Run, found: Mapping[Place | None, MeasuredCell]) -> list[_Column]:
    jct, gst, each, setup = (
        _Time(cell.middle(name) for cell in found.values())
        for name in ("jct_s", "gst_median_s", "iteration_median_s", "setup_s")
    )

    def speed_up(cell: MeasuredCell) -> Value:
        """Show the speed-up as in its figure; where it is not by JCT, that is said."""
        first = found.get(run.reference_of(*cell.place))
        pair = Pair(first, cell) if first else None
        if pair is None or pair.speed_up is None:
            return Value(NONE)
        note = ""
        if pair.is_by_samples:
            note = "by samples/s"
        elif not pair.has_as_many:
            note = f"{ratios.workers(cell.numbers)} workers in place of {ratios.workers(pair.first.numbers)}"
        elif not pair.is_on_one_network:
            note = OTHER_NETWORK
        return _marked(Value(words.ratio(pair.speed_up.value), pair.speed_up.value, note), pair.by, pair.first, cell)

    return [
        _Column(f"GST, {gst.unit}", lambda cell: _gst(cell, gst)),
        _metric(f"JCT, {jct.unit}", "jct_s", jct.text, has_interval=True),
        _Column("Speed-up", speed_up),
        _metric(RATIO, "gst_ratio", "{:.3f}".format, has_interval=True),
        _Column(f"GST p95, {gst.unit}", lambda cell: _p95(cell, gst)),
        _metric(f"GST theory, {gst.unit}", "gst_theory_s", gst.text, is_judged=False),
        _metric(f"Iteration, {each.unit}", "iteration_median_s", each.text),
        _metric(f"Set-up, {setup.unit}", "setup_s", setup.text),
        _metric("Samples/s", "throughput_sps", "{:,.0f}".format),
        _Column("Staleness", _staleness),
        *(
            _metric(title, one.metric, one.text, is_judged=False)
            for title, one in (("Test accuracy", ACCURACY), ("Likelihood", LIKELIHOOD), ("Accuracy", TOLD))
        ),
        _Column("Weights", _weights),
    ]


def _metric(
    title: str, name: str, as_text: Callable[[float], str], *, has_interval: bool = False, is_judged: bool = True
) -> _Column:
    """A metric's median, with its interval if no other column says more of it, and marked if a verdict is about it."""

    def of(cell: MeasuredCell) -> Value:
        found = cell.median(name)
        if found is None:
            return Value(NONE)
        note = f"{as_text(found.low)} to {as_text(found.high)}" if has_interval and is_known(found) else ""
        value = Value(as_text(found.value), found.value, note)
        return _marked(value, NUMBER_OF.get(name, JCT), cell) if is_judged else value

    return _Column(title, of)


def _marked(value: Value, number: str, *cells: MeasuredCell) -> Value:
    """A value that is not VALID though others of its row are; a row that is not VALID as a whole is marked itself."""
    doubts = [doubt for cell in cells if (doubt := cell.doubt_in(number))]
    if value.text == NONE or not _is_valid_in_some(cells[-1]) or not doubts:
        return value
    return replace(value, note=_listed(value.note, joint_verdict(doubts)), state="bad")


def _listed(*notes: str) -> str:
    return ", ".join(note for note in notes if note)


def _gst(cell: MeasuredCell, unit: _Time) -> Value:
    """With what hosts' clocks leave open, where they have clocks of their own."""
    found, off = _metric("", "gst_median_s", unit.text, has_interval=True).of(cell), cell.middle("gst_uncertainty_s")
    return replace(found, note=_listed(found.note, "" if off is None else f"± {off * 1e3:.2g} ms by clocks"))


def _staleness(cell: MeasuredCell) -> Value:
    """The median, and how far it goes; nothing of a synchronous scheme."""
    found, most = cell.middle("staleness_median"), cell.most("staleness_max")
    return Value(NONE) if found is None or most is None else Value(f"{found:g}", found, f"at most {most:g}")


def _p95(cell: MeasuredCell, unit: _Time) -> Value:
    """With the number of trials that it is from, if GST is from more: the median of these can be above it."""
    own, of = len(cell.counted(GST_P95)), len(cell.counted(GST))
    found = _metric("", "gst_p95_s", unit.text).of(cell)
    return replace(found, note=_listed(found.note, f"of {own} of {of} trials" if own < of else ""))


def _weights(cell: MeasuredCell) -> Value:
    """The worst of the repeats."""
    found = [_trial_weights(trial) for trial in cell.finished]
    bad = [value for value in found if value.state == "bad"]
    return next(iter(bad or found), Value(NONE))


def _trial_weights(trial: Trial) -> Value:
    wrong, checked = trial.accuracy.wrong_elements, trial.accuracy.checked_elements
    if wrong is not None and checked is not None:
        text = SUMS_RIGHT if not wrong else words.unbroken(f"{wrong:,} wrong")
        return Value(text, wrong, words.unbroken(f"of {checked:,}"), "bad" if wrong else "good")
    error, equal = trial.accuracy.weights_error, trial.accuracy.weights_equal
    note = "" if error is None else f"off by {error:.1g}"
    if equal is None:
        return Value(NONE, note=note)
    if equal and trial.accuracy.apart:
        # Its sums are right all the same, or it would not be done; older records do not know.
        return (
            Value(SUMS_RIGHT, 0.0, note, "good") if trial.accuracy.checked_sums else Value("ROUNDED", 1.0, note, "bad")
        )
    return Value("equal", 0.0, note, "good") if equal else Value("DIFFER", 1.0, note, "bad")


def bandwidths(run: Run) -> Table:
    """Show what the times mean as rates, and the bytes that were sent: a row for each arm at each setting."""
    found = [cell for cell in cells(run) if cell.finished]
    makers = [
        *_settings(found),
        _metric("Algorithm bandwidth", "algbw_bps", rate_text),
        _metric("Bus bandwidth, ring-equivalent", "busbw_bps", rate_text),
        _metric("Sent by all workers", "wire_bytes", size_text),
        _metric("Theory", "wire_bytes_theory", size_text),
        _Column("Sent / theory", _over_theory),
    ]
    caption = (
        "Times as rates, as nccl-tests define them. An arm has none if some of its gradient is sent before GST begins, "
        "as with overlap, with several sums in an iteration, and in asynchronous schemes. Sums that Gloo makes beside "
        "a scheme are neither in what was sent nor in theory."
    )
    return _of_cells("bandwidths", caption, found, makers)


def _over_theory(cell: MeasuredCell) -> Value:
    sent, theory = cell.middle("wire_bytes"), cell.middle("wire_bytes_theory")
    if sent is None or not theory:
        return Value(NONE)
    return Value(words.ratio(sent / theory), sent / theory)


def verdicts(run: Run) -> Table:
    """The verdict and the error of each number: a row for each arm at each setting."""
    found = cells(run)
    names = [name for name in NUMBERS if any(name in trial.numbers for trial in run.finished)]
    makers = [*_settings(found), *(_judged(name) for name in names)]
    caption = (
        "Each number has its own verdict, by checks. Small print says how far off its lower bound allows it to be; "
        "where that is much, only the checks speak for the number."
    )
    return _of_cells("verdicts", caption, found, makers)


def _judged(number: str) -> _Column:
    def of(cell: MeasuredCell) -> Value:
        verdict, error = cell.verdict_in(number), cell.error(number)
        off = "" if error is None else _off(number, verdict, percent(error))
        state = "good" if verdict == VALID else "mixed" if cell.valid_in(number) or verdict == SIMULATED else "bad"
        return Value(verdict, _RANK[state], off, state)

    return _Column(CALLED[number], of)


def _off(number: str, verdict: str, most: str) -> str:
    """How far off a number can be: a model's in both directions; exposed waiting, which can be zero, by a share of an
    iteration."""
    if verdict == SIMULATED or number == WAITING:
        return f"off by at most {most}{' of an iteration' if number == WAITING else ''}"
    return f"at most {most} too {'low' if number == THROUGHPUT else 'long'}"


def checks(run: Run) -> Table:
    """Every fidelity check of every finished trial, a column a check, and which numbers were certified."""
    by_name = {check.name: check for trial in run.finished for check in trial.checks}
    columns = ("Trial", *(f"{name} ({_limit(check)})" for name, check in by_name.items()), "Certified")
    rows = []
    for trial in run.finished:
        own = {check.name: check for check in trial.checks}
        certified = [name for name, number in trial.numbers.items() if number.certified]
        shown = Value(_numbers(certified, trial.numbers)) if certified else Value(NONE)
        values = (*(_check(own.get(name), trial) for name in by_name), shown)
        rows.append(Row(trial.label, words.name(trial), values, state=_trial_state(trial)))
    return _without_empty(Table("checks", CHECKS, columns, tuple(rows)))


def _limit(check: RecordedCheck) -> str:
    """``limit 0.05 stolen; threatens all numbers; a check of the machine``."""
    limit = "no limit" if check.limit is None else f"limit {check.limit:g} {check.unit}".strip()
    about = ["a check of the machine"] if check.machine else []
    return "; ".join([limit, f"threatens {_numbers(check.threatens, NUMBERS)}", *about])


def _numbers(names: Sequence[str], every: Collection[str]) -> str:
    if len(names) == len(every):
        return "all numbers"
    return words.listed(CALLED.get(name, name) for name in names) if names else "none"


def _check(check: RecordedCheck | None, trial: Trial) -> Value:
    if check is None:
        return Value(NONE)
    if not check.watched:
        lacking = [name for name in trial.numbers if check in trial.reasons_for(name)]
        note = f"leaves {_numbers(lacking, trial.numbers)} UNWATCHED" if lacking else ""
        return Value(NOT_WATCHED, note=note, state="bad" if lacking else "")
    text = "not measured" if check.value is None else f"{check.value:.3g}"
    if check.ok:
        return Value(text, check.value, "the spec asks for it" if check.asked else "")
    spoilt = [name for name, number in trial.numbers.items() if check.name in number.spoilt_by]
    if check not in trial.reasons:
        return Value(text, check.value, "noted: the numbers that it threatens are certified")
    note = f"makes {_numbers(spoilt, trial.numbers)} INVALID" if spoilt else ""
    return Value(text, check.value, note, "bad")


def trials(run: Run) -> Table:
    """Every trial by itself: what the medians are of."""
    jct, gst = (_Time(getattr(t.metrics, name) for t in run.trials) for name in ("jct_s", "gst_median_s"))
    times = f"GST, {gst.unit}", f"JCT, {jct.unit}"
    columns = ("Trial", *times, "Fidelity", RATIO, f"GST p95, {gst.unit}", "Attempts")
    rows = [Row(t.label, words.name(t), _trial(t, jct, gst), state=_trial_state(t)) for t in run.trials]
    return _without_empty(Table("trials", "Every trial.", columns, tuple(rows)))


def _trial(trial: Trial, jct: _Time, gst: _Time) -> tuple[Value, ...]:
    m = trial.metrics
    errors = _errors({name: one.error for name in (GST, JCT) if (one := trial.numbers.get(name))})
    is_mixed = any(map(trial.valid_in, trial.numbers)) or trial.simulated
    state = "good" if trial.valid else "mixed" if is_mixed else "bad"
    value = Value(gst.text(m.gst_p95_s), m.gst_p95_s)
    is_marked = trial.valid_in(GST) and not trial.valid_in(GST_P95)
    return (
        Value(gst.text(m.gst_median_s), m.gst_median_s),
        Value(jct.text(m.jct_s), m.jct_s),
        Value(_verdict(trial), _RANK[state], errors, state),
        Value(NONE if m.gst_ratio is None else f"{m.gst_ratio:.3f}", m.gst_ratio),
        replace(value, note=repeats.doubt([trial], GST_P95), state="bad") if is_marked else value,
        _attempts(trial.attempts),
    )


def _verdict(trial: Trial) -> str:
    """``GST VALID, JCT INVALID``, ``FAILED``, ``not judged``."""
    if not trial.done:
        return "FAILED"
    return in_short([trial.numbers]) if trial.numbers else NOT_JUDGED


def _trial_state(trial: Trial) -> str:
    if any(map(trial.valid_in, NUMBERS)):
        return "" if trial.valid else "partly"
    return _doubtful([trial]) if trial.done else "failed"


def troubles(run: Run, page: str = "this page") -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """(trials, ``FAILED`` or their verdict, reasons) of the trials that failed or are not VALID in all their numbers,
    less SIMULATED ones.

    Trials with the same verdict because of the same checks are together: reasons that differ only in what was measured
    are those of the first of them. ``page`` is what has those of the others.
    """
    causes: dict[tuple[str, tuple[str, ...]], list[Trial]] = {}
    for trial in run.trials:
        if not (trial.valid or trial.simulated):
            causes.setdefault(_cause(trial), []).append(trial)
    return tuple((_together(trials), cause[0], _reasons(trials, page)) for cause, trials in causes.items())


def _cause(trial: Trial) -> tuple[str, tuple[str, ...]]:
    why = dict.fromkeys(check.name for check in trial.reasons) if trial.done else _failed(trial)
    return _verdict(trial), tuple(why)


def _failed(trial: Trial) -> tuple[str, ...]:
    return (trial.error or "no reason is recorded",)


def _together(trials: Sequence[Trial]) -> str:
    names = shortened([words.name(trial) for trial in trials], words.MOST_NAMED, "; ")
    return names if len(trials) == 1 else f"{counted(len(trials), words.what(trials))}: {names}"


def _reasons(trials: Sequence[Trial], page: str) -> tuple[str, ...]:
    """Return the reasons of the first trial, each with its trial if not all of them say the same."""
    told = [tuple(map(_reason, trial.reasons)) if trial.done else _failed(trial) for trial in trials]
    if len(set(told)) == 1:
        return told[0]
    others = f'{page} has the others in its section "Every fidelity check of every trial"'
    *before, last = told[0]
    return *before, f"{last.removesuffix('.')} (these numbers are of {words.name(trials[0])}; {others})"


def again(run: Run) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """(trial, what came of it, what each other attempt was) of each trial that was measured more than once."""
    return tuple(
        (
            words.name(trial),
            f"{(trial.verdict or 'not judged') if trial.done else 'FAILED'} at attempt {trial.attempts}",
            _others(trial),
        )
        for trial in run.trials
        if trial.earlier
    )


def _others(trial: Trial) -> tuple[str, ...]:
    """Say of each attempt that the samples are not from what it was, which numbers of the trial are from it, and what
    failed in the one that the others are from."""
    lines, lent_any = [], False
    for attempt in trial.earlier:
        lent = [CALLED[name] for name, number in trial.numbers.items() if number.began == attempt.started]
        lines.append(_attempt(attempt) + (f" This attempt counts for {', '.join(lent)}." if lent else ""))
        lent_any = lent_any or bool(lent)
    failed = [_reason(check).removesuffix(".") for check in trial.checks if check.watched and not check.ok]
    if lent_any and failed:
        lines.append(f"In the attempt that counts for all other numbers: {'; '.join(failed)}.")
    return tuple(lines)


def _attempt(attempt: Attempt) -> str:
    """``GST 0.213 s, 1.090 of its bound, INVALID: CPU steal: 7.1% taken by the host``."""
    gst_s, ratio, jct_s = attempt.metrics.gst_median_s, attempt.metrics.gst_ratio, attempt.metrics.jct_s
    numbers = [
        *([f"GST {words.seconds(gst_s)}"] if gst_s is not None else []),
        *([f"{ratio:.3f} of its bound"] if ratio is not None else []),
        *([f"JCT {words.seconds(jct_s)}"] if jct_s is not None else []),
    ]
    reasons = "; ".join(each.removesuffix(".") for each in attempt.reasons)
    return f"{', '.join([*numbers, attempt.verdict])}{f': {reasons}' if reasons else ''}."


def _reason(check: RecordedCheck) -> str:
    return f"{check.name}: {check.detail or f'{check.value} {check.unit}, limit {check.limit}'}"


def _without_empty(table: Table) -> Table:
    """Without the columns in which no row has anything."""
    kept = [i for i in range(len(table.columns) - 1) if any(row.values[i].text != NONE for row in table.rows)]
    rows = (Row(r.label, r.name, tuple(r.values[i] for i in kept), r.means, r.state) for r in table.rows)
    return Table(table.name, table.caption, (table.columns[0], *(table.columns[i + 1] for i in kept)), tuple(rows))


class _Time:
    """One unit for a column: milliseconds where all are below 0.1 s, so that three digits show, else seconds."""

    def __init__(self, values: Iterable[float | None]) -> None:
        longest = max((value for value in values if value is not None), default=1.0)
        self.unit, self._factor = (UNITS[0], 1.0) if longest >= 0.1 else (UNITS[1], 1e3)
        self._digits = 3 if longest * self._factor < 10 else 2

    def text(self, value: float | None) -> str:
        return NONE if value is None else f"{value * self._factor:,.{self._digits}f}"
