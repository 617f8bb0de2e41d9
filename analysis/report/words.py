"""Sentences that say what the numbers of a run mean. Every sentence is computed from the run; plain text, not HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from testbed.analysis.numbers import repeats, stopping
from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report.cells import MeasuredCell, as_text, believed, by_network, cells, is_known
from testbed.analysis.report.room import CSV
from testbed.analysis.strikes import never
from testbed.analysis.verdicts import CALLED, INVALID, SIMULATED, VERDICTS, joint_verdict, percent
from testbed.base.listing import counted as counted_as
from testbed.base.listing import shortened
from testbed.base.units import rate_text, size_text, time_text

UNKNOWN = "–"
INTERVALS = (
    "With several repeats, the median and its 95 % interval are shown. The interval is from order statistics; with "
    "fewer than 6 repeats it is from Student's t on logarithms, which is wide for 2 repeats."
)
MOST_NAMED, MOST_ROWS = 4, 8
"""Sentences name at most so many trials one by one; tables with a row for each setting have at most so many rows."""


def against(run: Run) -> str:
    """Say what ratios are relative to. A job is compared with the job of the same name."""
    if not run.has_jobs:
        return run.first
    others = "" if all(trial.job for trial in run.trials) else f", or {run.firsts['']}"
    return f"the same job of the first arm{others}"


def unstruck(run: Run) -> str:
    """Perturbations that struck nobody in some trial; empty if there is none."""
    return " ".join(f"{told}." for told in never([(trial.id, trial.strikes) for trial in run.finished]))


def doubts(run: Run) -> str | None:
    """Say which trials have numbers that are not VALID, and which numbers; None if all numbers of all trials are
    VALID, or SIMULATED (:func:`simulated`)."""
    found: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for trial in run.finished:
        if not (trial.valid or trial.simulated):
            found.setdefault(_doubtful_in(trial), []).append(name(trial))
    told = (_doubt(*doubt, names, len(run.finished)) for doubt, names in sorted(found.items()))
    return " ".join(told) or None


def _doubtful_in(trial: Trial) -> tuple[tuple[str, ...], str]:
    """Return what people call the numbers of a trial that are not VALID, nothing where none is; and their verdict
    together."""
    names = [number for number in trial.numbers if not trial.valid_in(number)]
    verdict = joint_verdict(trial.numbers[number].verdict for number in names) if names else INVALID
    return () if len(names) == len(trial.numbers) else tuple(CALLED[number] for number in names), verdict


def _doubt(numbers: Sequence[str], verdict: str, names: Sequence[str], finished: int) -> str:
    where = f" in {listed(numbers)}" if numbers else ""
    if len(names) == finished:
        return (
            f"No finished trial is VALID{where}: comparisons{f' of {_that(numbers)}' if numbers else ''} mean nothing."
        )
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    who = f"{len(names)} trials" if len(names) > MOST_NAMED else listed(names)
    what = f"of {_that(numbers)} with {them}" if numbers else f"with {them}"
    return f"{who} {verb} {verdict}{where}: comparisons {what} mean nothing."


def simulated(run: Run) -> str:
    """Say how far off numbers of SIMULATED trials can be, by scheme; empty where there are none."""
    errors = {trial.scheme: trial.numbers["gst"].error for trial in run.finished if trial.simulated}
    if not errors:
        return ""
    known = [f"{percent(error)} for {scheme}" for scheme, error in errors.items() if error is not None]
    unknown = [scheme for scheme, error in errors.items() if error is None]
    told = ["SIMULATED numbers are from a model and were not measured."]
    if known:
        told.append(f"GST was off by at most {shortened(known, MOST_NAMED)} in small trials that were also measured.")
    if unknown:
        told.append(f"The error of GST is not known for {shortened(unknown, MOST_NAMED)}.")
    return " ".join([*told, "The errors of other numbers are not known."])


def _that(numbers: Sequence[str]) -> str:
    return "that number" if len(numbers) == 1 else "those numbers"


def verdicts(run: Run) -> str:
    """Say how many trials have which verdict: ``3 VALID, 2 VALID in some numbers, 1 failed``."""
    valid = sum(trial.valid for trial in run.trials)
    failed = sum(not trial.done for trial in run.trials)
    wrong = [trial for trial in run.finished if not trial.valid]
    useless = [trial for trial in wrong if not any(map(trial.valid_in, trial.numbers))]
    others = (
        (len(wrong) - len(useless), "VALID in some numbers"),
        *((sum(trial.verdict == word for trial in useless), word) for word in VERDICTS),
        (failed, "failed"),
    )
    return ", ".join([f"{valid} VALID"] + [f"{n} {word}" for n, word in others if n])


def counts(run: Run) -> str:
    """Say how many trials there are of which verdict, how many were measured again, and how many of those planned are
    missing."""
    where = f" in {counted_as(run.ran, 'trial')}" if run.has_jobs else ""
    judged = f"{counted_as(len(run.trials), what(run.trials))}{where}: {verdicts(run)}."
    count, made = sum(bool(trial.earlier) for trial in run.trials), sum(trial.attempts for trial in run.trials)
    was = "was" if count == 1 else "were"
    again = [f"{count} {was} measured again because of the machine, {made} attempts in all."] if count else []
    return " ".join([judged, *again, *missing(run), *_promise(run)])


def what(trials: Iterable[Trial]) -> str:
    """Name these in a count: jobs where several shared a network, each of which has its own verdict."""
    return "job" if any(trial.job for trial in trials) else "trial"


def _promise(run: Run) -> list[str]:
    """The sentence about intervals that repeats went on for (:mod:`testbed.analysis.numbers.stopping`), where they
    did."""
    wanted = run.resolved.get("repeats")
    if not isinstance(wanted, dict):
        return []
    until, least, most = (wanted.get(key) for key in ("until", "least", "most"))
    if not (isinstance(until, float) and 0 < until < 1 and isinstance(least, int) and isinstance(most, int)):
        return []
    has_gst = any(trial.valid_in("gst") for trial in run.trials)
    number, metric = ("gst", "gst_median_s") if has_gst else ("jct", "jct_s")
    known = [[trial.metric(metric) for trial in cell.trials if trial.valid_in(number)] for cell in cells(run)]
    values = [[value for value in cell if value] for cell in known]
    told = stopping.promise(values, until, max(2, least), most)
    return [f"{told[0].upper()}{told[1:]}."] if told else []


def missing(run: Run) -> list[str]:
    """The sentence that trials have not run, where some have not."""
    count = (run.planned or 0) - run.ran
    return [f"{count} of {run.planned} planned trials {'has' if count == 1 else 'have'} not run."] if count > 0 else []


def of_pairs(run: Run) -> str:
    """Say why a ratio of two arms is not the quotient of their numbers in the table; empty without repeats."""
    done = [cell for cell in cells(run) if cell.finished]
    if len({cell.label for cell in done}) < 2 or all(len(cell.finished) < 2 for cell in done):
        return ""
    return (
        "With repeats, a ratio of two arms is the median of the ratios of their pairs of repeats. It can differ from "
        "the quotient of their medians in the table."
    )


def scale(run: Run) -> str:
    """Say what was played back instead of training, and how its times are to be read; empty where models were
    trained."""
    told = [_scale(part) for part in run.parts or [run]]
    if len(set(told)) == 1:
        return told[0]
    return " ".join(f"{part.name}: {text}" for part, text in zip(run.parts, told, strict=True) if text)


OF_SCALE = {"workload.model", "workload.scale", "arm.rate"}
"""Fields that a sentence about the scale names beside rates of ``links``, unless they are swept."""


def _scale(run: Run) -> str:
    if run.played is None:
        return ""
    model, scale, rate_bps = run.played
    arms = {one.get("rate_bps") for one in run.resolved.get("arms") or []}
    swept = run.resolved.get("sweep") or {}
    is_swept = any(key in OF_SCALE or (key.startswith("links.") and key.endswith(".rate")) for key in swept)
    is_simulated = any(trial.simulated for trial in run.finished)
    summed = "transfers were played in simulated time, and nothing was summed" if is_simulated else ""
    if len(arms) > 1 or is_swept:
        summed = summed or "workers summed random values of the gradients' sizes, and the sums were checked"
        if scale == 1 and "workload.scale" not in swept:
            return f"No model was trained: {summed}."
        return (
            f"No model was trained: {summed}. The scale divides gradients and link rates by the same number, so times "
            "are those of the whole models. Bytes and rates below are those in the lab."
        )
    if model:
        summed = summed or f"workers summed random values of {model}'s gradient sizes, and the sums were checked"
        what = f"No model was trained: {summed}."
        part, whole = f"the gradient has 1/{scale:g} of its bytes", "model"
    else:
        what = "A trace was played: ranks exchanged made-up values of its sizes, and every result was checked."
        part, whole = f"arrays have 1/{scale:g} of their bytes", "trace"
    if scale == 1:
        return what
    own = [one.get("rate_bps") for one in run.resolved["links"].values() if isinstance(one, dict)]
    rates_bps = [rate for rate in (*(arms - {None} or {rate_bps}), *own) if rate is not None]
    return (
        f"{what} The scale is {scale:g}: {part}, and the links have 1/{scale:g} of their rates. So times are those of "
        f"the whole {whole} over links of {reach(rates_bps, lambda rate: unbroken(rate_text(rate)))}. Bytes and rates "
        "below are those in the lab."
    )


def name(trial: Trial) -> str:
    """A trial among all of the run; a command has no batch."""
    words = [f"batch {trial.batch}"] if trial.batch else []
    where = ", ".join([*words, *(f"{key} {as_text(value)}" for key, value in trial.point.items())])
    return f"{arm(trial)} at {where}" if where else arm(trial)


def arm(trial: Trial) -> str:
    """A trial among those of its batch. The first of several repeats is named, too, for its cell has the plain name."""
    return f"{trial.label} (repeat {trial.repeat + 1})" if trial.repeat or trial.repeated else trial.label


def title(trial: Trial, number: str) -> str:
    """The title of a trial's figure: its name among all of the run, and in brackets the doubt in a number."""
    doubt = repeats.doubt([trial], number) if number in trial.numbers else ""
    return f"{name(trial)} ({doubt} in {CALLED[number]})" if doubt else name(trial)


def ratio(value: float) -> str:
    """``0.50×``."""
    return f"{value:.2f}×"


def listed(items: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def named(labels: Sequence[str]) -> str:
    """``a, b and c``; of many, the first ones and how many more there are; empty for none."""
    return listed(labels) if 0 < len(labels) <= MOST_NAMED else shortened(labels, MOST_NAMED)


def each(values: Sequence[tuple[float, MeasuredCell]], as_text: Callable[[float], str], number: str) -> str:
    """Every arm's value, marked if it is not VALID in a number; of many, only the least and the greatest of those of
    each network that :func:`testbed.analysis.report.cells.believed` gives. An arm at several settings is named with
    them."""
    is_arms = len({cell.label for _, cell in values}) == len(values)
    names = [cell.label if is_arms else in_cell(cell) for _, cell in values]
    rows = [(value, as_text(value), name) for (value, _), name in zip(values, names, strict=True)]
    if len(values) > 1 and len({text for _, text, _ in rows}) == 1 and all(cell.valid_in(number) for _, cell in values):
        return f"{rows[0][1]} for all"
    if len(values) <= MOST_NAMED:
        return listed(
            marked(f"{text} for {name}", cell, number) for (_, text, name), (_, cell) in zip(rows, values, strict=True)
        )
    told, others = believed([cell for _, cell in values], number)
    spans = [
        _ends([row for row, (_, cell) in zip(rows, values, strict=True) if cell in of])
        + (f" on {network}" if network else "")
        for network, of in by_network(told).items()
    ]
    are = "is" if len(others) == 1 else "are"
    which = counted_as(len(others), "arm") if is_arms else f"{len(others)}"
    left = f" (without {which} that {are} not VALID in {CALLED[number]})" if others else ""
    none = "all of them SIMULATED" if are_simulated(told, number) else f"none of them VALID in {CALLED[number]}"
    doubt = "" if told[0].valid_in(number) else f" ({none})"
    return f"{shortened(spans, MOST_NAMED, '; ', 'more networks')}{left}{doubt}"


def _ends(texts: Sequence[tuple[float, str, str]]) -> str:
    """The least and the greatest value with their names, of rows with a value, the same as text, and a name."""
    (_, low, least), (_, high, greatest) = min(texts, key=lambda row: row[0]), max(texts, key=lambda row: row[0])
    if len(texts) == 1:
        return f"{low} for {least}"
    return f"{low} for all" if low == high else f"{low} for {least} to {high} for {greatest}"


def marked(text: str, cell: MeasuredCell, number: str) -> str:
    """A cell's name; if it is not VALID in a number, with that in brackets."""
    doubt = cell.doubt_in(number)
    return f"{text} ({doubt} in {CALLED[number]})" if doubt else text


def row_name(cell: MeasuredCell, number: str) -> str:
    """A cell among all of the run, for a table of a number that has no other mark."""
    return marked(in_cell(cell), cell, number)


def not_told(cells: Sequence[MeasuredCell], number: str, what: str = "Not counted here") -> list[str]:
    """The sentence that names the cells which :func:`testbed.analysis.report.cells.believed` leaves out, or says that
    none is VALID; none where all are."""
    told, others = believed(cells, number)
    if others:
        names = shortened([in_cell(cell) for cell in others], MOST_NAMED, "; ")
        return [f"{what}, because not VALID in {CALLED[number]}: {names}."]
    if not told or told[0].valid_in(number):
        return []
    return [none_valid(told, number)]


def are_simulated(cells: Iterable[MeasuredCell], number: str) -> bool:
    """Whether all of these cells are SIMULATED in a number."""
    return all(cell.doubt_in(number) == SIMULATED for cell in cells)


def none_valid(cells: Iterable[MeasuredCell], number: str) -> str:
    """The sentence on cells of which none is VALID in a number."""
    return (
        "All of this is SIMULATED." if are_simulated(cells, number) else f"None of this is VALID in {CALLED[number]}."
    )


def of_networks(told: Sequence[Sequence[str]], where: str = CSV) -> list[str]:
    """Sentences about the first networks, and one that counts the others, if they are several, and says where they
    are."""
    shown = told if len(told) == MOST_NAMED + 1 else told[:MOST_NAMED]
    rest = [f"{len(told) - MOST_NAMED} more networks are in {where}."] if len(told) > len(shown) else []
    return [*(sentence for sentences in shown for sentence in sentences), *rest]


def by_networks(
    cells: Sequence[MeasuredCell],
    number: str,
    say: Callable[[str, list[MeasuredCell]], list[str] | None],
    where: str = CSV,
) -> list[str]:
    """Return the sentences of ``say`` about the cells of each network, and the sentence on those that
    :func:`testbed.analysis.report.cells.believed` leaves out. ``say`` returns None for networks that do not count."""
    told = (say(network, of) for network, of in by_network(believed(cells, number)[0], cells).items())
    return of_networks([sentences for sentences in told if sentences is not None], where) + not_told(cells, number)


def counted(labels: Sequence[str], did: str) -> str:
    """Say which label did it how often, the most often first: ``A finished first in 3 and B in 1``."""
    often = Counter(labels).most_common()
    first, *rest = [f"{label} {did if i == 0 else 'in'} {count}" for i, (label, count) in enumerate(often)]
    return listed([first, *rest])


def firsts(labels: Sequence[str], did: str) -> str:
    """Say which label was first how often, and how often none was (an empty label): ``A finished first in 3, and 2 show
    no difference between the fastest``."""
    known = [label for label in labels if label]
    same = len(labels) - len(known)
    shows = f"{same} {'shows' if same == 1 else 'show'} no difference between the fastest"
    return ", and ".join(filter(None, [counted(known, did) if known else "", shows if same else ""]))


def setting(cell: MeasuredCell) -> str:
    """``batch 16, links.rate 100 Mbit/s``."""
    words = [f"batch {cell.batch}"] if cell.batch else []
    return ", ".join([*words, *(f"{key} {value}" for key, value in cell.point.items())])


def where(cell: MeasuredCell) -> str:
    """The setting at the beginning of a sentence."""
    text = setting(cell)
    return f"{text[0].upper()}{text[1:]}: " if text else ""


def in_cell(cell: MeasuredCell) -> str:
    """A cell among all of the run."""
    text = setting(cell)
    return f"{cell.label} at {text}" if text else cell.label


def between(found: Interval | None, as_text: Callable[[float], str]) -> str:
    """The interval in brackets; nothing where there is none."""
    return f" ({as_text(found.low)} to {as_text(found.high)})" if found and is_known(found) else ""


def columns(name: str, found: Interval | None) -> dict[str, float | None]:
    """A value and the ends of its interval as a table's columns."""
    ends = (found.low, found.high) if found and is_known(found) else (None, None)
    return {name: found.value if found else None, f"{name}_low": ends[0], f"{name}_high": ends[1]}


def about_intervals(cells: Sequence[MeasuredCell], number: str) -> list[str]:
    """Say that a number has no interval, where there was one repeat; or for which cells it has none."""
    alone = [cell for cell in cells if len(cell.counted(number)) < 2]
    if not alone:
        return []
    if any(len(cell.finished) > 1 for cell in alone):  # measured more than once, but not VALID
        named = shortened([in_cell(cell) for cell in alone], MOST_NAMED, "; ")
        return [f"Only one trial counts in {CALLED[number]}, so there is no interval: {named}."]
    if len(alone) == len(cells):
        told = "Simulated trials run once" if are_simulated(cells, number) else "Each was measured once"
        return [f"{told}, so there are no intervals."]
    if len(alone) > MOST_NAMED:
        return [f"{len(alone)} of {len(cells)} were measured once and have no interval."]
    verbs = ("was", "has") if len(alone) == 1 else ("were", "have")
    return [f"{listed(map(in_cell, alone))} {verbs[0]} measured once and {verbs[1]} no interval."]


def seconds(value: float | None) -> str:
    """A measured time with its unit, to stay on one line; a dash where it is not known."""
    return UNKNOWN if value is None else unbroken(time_text(value, measured=True))


def amount(count: float) -> str:
    """Bytes with their unit, to stay on one line."""
    return unbroken(size_text(count))


def unbroken(quantity: str) -> str:
    """A number and its unit, to stay on one line."""
    return quantity.replace(" ", "\N{NO-BREAK SPACE}")


def span(values: Iterable[float]) -> str:
    """``0.50×``, or ``0.50× to 0.52×`` where the two differ as written."""
    return reach(values, ratio)


def reach(values: Iterable[float], as_text: Callable[[float], str]) -> str:
    """The least and the greatest; one of them where the two are written alike."""
    ordered = sorted(values)
    low, high = as_text(ordered[0]), as_text(ordered[-1])
    return low if low == high else f"{low} to {high}"
