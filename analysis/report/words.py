"""What the numbers of a run say, in sentences. Every sentence is computed from the run; plain text, not HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import TypeAlias

from testbed.analysis import ratios, stopping
from testbed.analysis.recorded import Place, Run, Trial
from testbed.analysis.report.cells import MeasuredCell, as_text, cells, did_alike, faster_by, is_known, over
from testbed.analysis.statistics import Interval
from testbed.analysis.strikes import never
from testbed.analysis.verdicts import CALLED, INVALID, UNWATCHED, joint_verdict
from testbed.base.listing import shortened
from testbed.base.units import rate_text, size_text, time_text

UNKNOWN = "–"
INTERVALS = (
    "With several repeats, the median and its 95 % interval are shown. The interval is from order statistics; with "
    "fewer than 6 repeats it is from Student's t on logarithms, which is wide for 2 repeats."
)
Compared: TypeAlias = Sequence[tuple[MeasuredCell, MeasuredCell]]
"""The first arm's cells, each with the one that is compared with it."""
MOST_NAMED, MOST_ROWS = 4, 8
"""Sentences name at most so many trials one by one; tables of what is seen have at most so many rows."""


def finding(run: Run) -> str:
    """The run in short, against the first arm: the arm that synchronised fastest, of those with as many workers; if
    there is none, how many samples a second each arm trained, for other numbers of workers are not ranked. Of jobs that
    shared a network, the one that synchronised fastest against the job of the same name. Arms and settings that are
    left out are named."""
    return " ".join(filter(None, [lead(run), left_out(run)]))


def lead(run: Run) -> str:
    """The finding without what it leaves out."""
    if not run.finished:
        return "No trial finished, so there is nothing to compare."
    compared, number = _of_finding(run)
    if not compared:
        return _alone(run.finished)
    return _fastest(run, compared) if number == ratios.GST else _samples(run, compared)


def left_out(run: Run) -> str:
    """The sentence that names the arms and settings that the finding leaves out; empty where there are none."""
    compared, number = _of_finding(run)
    return _left_out(run, compared, number) if compared else ""


def _of_finding(run: Run) -> tuple[Compared, str]:
    """The cells that a finding is from, and by which number they are compared; none where no two can be."""
    for number in (ratios.GST, ratios.THROUGHPUT):
        if compared := _believed(_compared(run, number), number):
            return compared, number
    return [], ratios.GST


def _left_out(run: Run, compared: Compared, number: str) -> str:
    used = {cell.place for _, cell in compared}
    by_place: dict[Place | None, MeasuredCell] = {cell.place: cell for cell in cells(run)}
    settings: Counter[str] = Counter()
    left: dict[str, Counter[str]] = {}
    for cell in by_place.values():
        place = run.reference_of(*cell.place)
        if place is None or place == cell.place:
            continue
        settings[cell.label] += 1
        if cell.place not in used:
            left.setdefault(_why_left_out(by_place.get(place), cell, number), Counter())[cell.label] += 1
    told = []
    for why, counts in left.items():
        labels = [f"{label}{_share(count, settings[label])}" for label, count in counts.items()]
        told.append(f"{shortened(labels, MOST_NAMED)} ({why})")
    return f"Left out: {'; '.join(told)}." if told else ""


def _share(count: int, settings: int) -> str:
    return f" at {count} of {settings} settings" if settings > 1 else ""


def _why_left_out(first: MeasuredCell | None, cell: MeasuredCell, number: str) -> str:
    if not cell.finished:
        return "failed"
    if first is None or not first.finished:
        return f"{first.label} failed" if first else "nothing to compare with"
    if (faster_by(first, cell) == ratios.THROUGHPUT) != (number == ratios.THROUGHPUT):
        return "another number of workers"
    if not did_alike(first, cell):
        return "other work"
    doubtful = cell if not cell.valid_in(number) else first if not first.valid_in(number) else None
    if doubtful is None:
        return "no pair of trials"
    return f"{'' if doubtful is cell else f'{first.label} '}{doubtful.doubt_in(number)} in {CALLED[number]}"


def _fastest(run: Run, compared: Compared) -> str:
    gst = _by_label((cell.label, _ratio(first, cell, ratios.GST)) for first, cell in compared)
    jct = _by_label((cell.label, _ratio(first, cell, ratios.JCT)) for first, cell in _in_jct_too(compared))
    label = min(gst, key=lambda name: median(gst[name]))
    first = _first_of(run, compared, label)
    if median(gst[label]) >= 0.995:
        if run.has_jobs:
            took = f"{label} took {span(gst[label])} the time of {first}"
            return f"No job synchronised faster than in the first arm; {took}."
        return f"No arm synchronised faster than {first}; {label} came closest with {span(gst[label])} its time."
    took = f"{span(gst[label])} the synchronisation time of {first}"
    if label not in jct:
        return f"{label} took {took}; their job completion times cannot be compared."
    at = f" at {len(jct[label])} of these {len(gst[label])} settings" if len(jct[label]) < len(gst[label]) else ""
    return f"{label} took {took}, and {span(jct[label])} its job completion time{at}."


def against(run: Run) -> str:
    """What ratios are relative to. A job is compared with the job of the same name."""
    return "the same job of the first arm" if run.has_jobs else run.first


def _first_of(run: Run, compared: Compared, label: str) -> str:
    """What an arm's or a job's ratios are relative to, by name."""
    return next(first.label for first, cell in compared if cell.label == label) if run.has_jobs else run.first


def _in_jct_too(compared: Compared) -> Compared:
    """Those that are VALID in JCT as well, if they are in GST: a sentence has no mark at one of two numbers."""
    return [
        both
        for both in compared
        if over(*both, ratios.JCT) and (_are_valid(*both, ratios.JCT) or not _are_valid(*both, ratios.GST))
    ]


def _samples(run: Run, compared: Compared) -> str:
    """Samples per second of each arm; which is the most says nothing where numbers of workers differ."""
    speeds = _by_label((cell.label, _ratio(first, cell, ratios.THROUGHPUT)) for first, cell in compared)
    beside = {cell.label: (first, cell) for first, cell in reversed(compared)}
    told = [
        f"{label} trained {span(speeds[label])} as many samples a second as {_first_of(run, compared, label)}, with "
        f"{ratios.workers(cell.numbers)} workers in place of {ratios.workers(first.numbers)}"
        for label in speeds
        for first, cell in [beside[label]]
    ]
    return f"{shortened(told, MOST_NAMED, '; ', 'more arms')}."


def _by_label(values: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for label, value in values:
        found.setdefault(label, []).append(value)
    return found


def unstruck(run: Run) -> str:
    """Perturbations that struck nobody in some trial; empty if there is none."""
    return " ".join(f"{told}." for told in never([(trial.id, trial.strikes) for trial in run.finished]))


def unlike(run: Run) -> str:
    """That arms ran on another network than what they are compared with, or did other work, and what follows for
    ratios; empty where all are alike. Of an arm that did so at several settings, the first is told."""
    return " ".join(one for one in (_other_networks(run), _other_work(run)) if one)


def _other_work(run: Run) -> str:
    found = {cell.label: (first, cell) for first, cell in reversed(_beside(run)) if not did_alike(first, cell)}
    if not found:
        return ""
    each = [
        f"{cell.label} did {ratios.work_text(ratios.works(cell.numbers))}, "
        f"{first.label} {ratios.work_text(ratios.works(first.numbers))}"
        for first, cell in (found[label] for label in run.labels if label in found)
    ]
    return f"Not compared, because they did other work: {shortened(each, MOST_NAMED, '; ', 'more arms')}."


def _other_networks(run: Run) -> str:
    beside = _beside(run)
    differing = [both for both in beside if _network(both[0]) != _network(both[1])]
    if not differing:
        return ""
    ran: dict[str, dict[str, None]] = {}
    for cell in (cell for both in beside for cell in both):
        ran.setdefault(_network(cell), {})[cell.label] = None
    each = [
        f"{listed(labels) if len(labels) <= MOST_NAMED else f'{len(labels)} arms'} ran on {network}"
        for network, labels in ran.items()
    ]
    by_samples = any(faster_by(*both) == ratios.THROUGHPUT for both in differing)
    what = " Arms with different numbers of workers are compared only by samples per second." if by_samples else ""
    return f"Networks differ: {shortened(each, MOST_NAMED, '; ', 'more networks')}.{what}"


def _network(cell: MeasuredCell) -> str:
    return cell.trials[0].topology


def is_believable(run: Run) -> bool:
    """Whether the finding rests on a VALID trial, or on two where it compares."""
    if not run.finished:
        return True
    for number in (ratios.GST, ratios.JCT, ratios.THROUGHPUT):  # a command has no GST
        if compared := _compared(run, number):
            return any(_are_valid(*both, number) for both in compared)
    return any(trial.valid_in(_alone_by(trial)) for trial in run.finished)


def unreliable(run: Run) -> str:
    """``Not reliable: GST is INVALID in 2 of 3 trials (failed checks: CPU steal).``, or, if none is INVALID, ``Not
    reliable: JCT is UNWATCHED (checks not made: stalls).``; empty if it can be relied on."""
    if is_believable(run):
        return ""
    compared = (name for name in (ratios.GST, ratios.JCT, ratios.THROUGHPUT) if _compared(run, name))
    number = next(compared, None) or _alone_by(run.finished[0])
    judged = [trial for trial in run.finished if number in trial.numbers]
    bad = [trial for trial in judged if not trial.valid_in(number)]
    numbers = [trial.numbers[number] for trial in bad]
    is_unwatched = joint_verdict(one.verdict for one in numbers) == UNWATCHED
    why = Counter(check for one in numbers for check in (one.unwatched if is_unwatched else one.spoilt_by))
    names = shortened([check for check, _ in why.most_common()], MOST_NAMED)
    where = f" in {len(bad)} of {len(judged)} trials" if len(bad) < len(judged) else ""
    verdict, checks = (UNWATCHED, "checks not made") if is_unwatched else (INVALID, "failed checks")
    return f"Not reliable: {CALLED[number]} is {verdict}{where}{f' ({checks}: {names})' if names else ''}."


def doubts(run: Run) -> str | None:
    """Which trials have numbers that are not VALID, and which numbers; None if all numbers of all trials are VALID."""
    found: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for trial in run.finished:
        if not trial.valid:
            found.setdefault(_doubtful_in(trial), []).append(name(trial))
    told = (_doubt(*doubt, names, len(run.finished)) for doubt, names in sorted(found.items()))
    return " ".join(told) or None


def _doubtful_in(trial: Trial) -> tuple[tuple[str, ...], str]:
    """What people call the numbers of a trial that are not VALID, nothing where none is; and their verdict together."""
    names = [number for number in trial.numbers if not trial.valid_in(number)]
    verdict = joint_verdict(trial.numbers[number].verdict for number in names) if names else INVALID
    return () if len(names) == len(trial.numbers) else tuple(CALLED[number] for number in names), verdict


def _doubt(numbers: Sequence[str], verdict: str, names: Sequence[str], finished: int) -> str:
    """The sentence about trials that are not VALID in the same numbers."""
    where = f" in {listed(numbers)}" if numbers else ""
    if len(names) == finished:
        return (
            f"No finished trial is VALID{where}: comparisons{f' of {_that(numbers)}' if numbers else ''} mean nothing."
        )
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    who = f"{len(names)} trials" if len(names) > MOST_NAMED else listed(names)
    what = f"of {_that(numbers)} with {them}" if numbers else f"with {them}"
    return f"{who} {verb} {verdict}{where}: comparisons {what} mean nothing."


def _that(numbers: Sequence[str]) -> str:
    return "that number" if len(numbers) == 1 else "those numbers"


def counts(run: Run) -> str:
    """How many trials there are of which verdict, how many were measured again, and how many of those planned are
    missing."""
    valid = sum(trial.valid for trial in run.trials)
    failed = sum(not trial.done for trial in run.trials)
    wrong = [trial for trial in run.finished if not trial.valid]
    useless = [trial for trial in wrong if not any(map(trial.valid_in, trial.numbers))]
    unwatched = sum(trial.verdict == UNWATCHED for trial in useless)
    others = (
        *((len(wrong) - len(useless), "VALID in some numbers"), (len(useless) - unwatched, INVALID)),
        *((unwatched, UNWATCHED), (failed, "failed")),
    )
    parts = [f"{valid} VALID"] + [f"{n} {word}" for n, word in others if n]
    plural = "trial" if len(run.trials) == 1 else "trials"
    return " ".join([f"{len(run.trials)} {plural}: {', '.join(parts)}.", *_again(run), *missing(run), *_promise(run)])


def _again(run: Run) -> list[str]:
    """The sentence that trials were measured more than once, where some were."""
    count = sum(bool(trial.earlier) for trial in run.trials)
    made = sum(trial.attempts for trial in run.trials)
    was = "was" if count == 1 else "were"
    return [f"{count} {was} measured again because of the machine, {made} attempts in all."] if count else []


def _promise(run: Run) -> list[str]:
    """The sentence about intervals that repeats went on for (:mod:`testbed.analysis.stopping`), where they did."""
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
    count = (run.planned or 0) - len(run.trials)
    return [f"{count} of {run.planned} planned trials have not run."] if count > 0 else []


def scale(run: Run) -> str:
    """What was played back instead of training, and how its times are to be read; empty where models were trained."""
    told = [_scale(part) for part in run.parts or [run]]
    if len(set(told)) == 1:
        return told[0]
    return " ".join(f"{part.name}: {text}" for part, text in zip(run.parts, told, strict=True) if text)


OF_SCALE = {"workload.model", "workload.scale", "links.rate", "arm.rate"}
"""Fields that a sentence about the scale names, unless they are swept."""


def _scale(run: Run) -> str:
    if run.played is None:
        return ""
    model, scale, rate_bps = run.played
    rates = {one.get("rate_bps") for one in run.resolved.get("arms") or []}
    if len(rates) > 1 or (run.resolved.get("sweep") or {}).keys() & OF_SCALE:
        return (
            "No model was trained: workers summed random values of the gradients' sizes, and the sums were checked. "
            "The scale divides gradients and link rates by the same number, so times are those of the whole models. "
            "Bytes and rates below are those in the lab."
        )
    what = f"No model was trained: workers summed random values of {model}'s gradient sizes, and the sums were checked."
    if scale == 1:
        return what
    return (
        f"{what} The scale is {scale:g}: the gradient has 1/{scale:g} of its bytes, and the links have 1/{scale:g} of "
        f"their rates. So times are those of the whole model over links of {unbroken(rate_text(rate_bps))}. Bytes and "
        "rates below are those in the lab."
    )


def name(trial: Trial) -> str:
    """A trial among all of the run; a command has no batch."""
    words = [f"batch {trial.batch}"] if trial.batch else []
    where = ", ".join([*words, *(f"{key} {as_text(value)}" for key, value in trial.point.items())])
    return f"{arm(trial)} at {where}" if where else arm(trial)


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


def _believed(compared: Compared, number: str) -> Compared:
    """The cells that are VALID in a number, both of them; or all where none are."""
    return [both for both in compared if _are_valid(*both, number)] or compared


def _compared(run: Run, number: str) -> Compared:
    """The cells that have a ratio to the first arm's in a number: in a time those with as many workers, in samples per
    second the others."""
    return [
        (first, cell)
        for first, cell in _beside(run)
        if (faster_by(first, cell) == ratios.THROUGHPUT) == (number == ratios.THROUGHPUT) and over(first, cell, number)
    ]


def _beside(run: Run) -> Compared:
    """Each cell of another arm, with the first arm's that its ratios are relative to; both have a finished trial."""
    found = [cell for cell in cells(run) if cell.finished]
    by_place: dict[Place | None, MeasuredCell] = {cell.place: cell for cell in found}
    both = [(by_place.get(run.reference_of(*cell.place)), cell) for cell in found]
    return [(first, cell) for first, cell in both if first and first is not cell]


def _are_valid(first: MeasuredCell, cell: MeasuredCell, number: str) -> bool:
    return first.valid_in(number) and cell.valid_in(number)


def _ratio(first: MeasuredCell, cell: MeasuredCell, name: str) -> float:
    found = over(first, cell, name)
    assert found is not None  # others are not compared
    return found.value


def _alone(trials: Sequence[Trial]) -> str:
    """The finding where no two arms can be compared."""
    trial = next((trial for trial in trials if trial.valid_in(_alone_by(trial))), trials[0])
    if trial.metrics.gst_median_s is None and trial.metrics.jct_s is not None:
        return _fastest_job(trials)
    if trial.metrics.gst_median_s is None:
        return f"{name(trial)} finished; there is nothing to compare it with."
    against = "" if trial.metrics.gst_ratio is None else f", {ratio(trial.metrics.gst_ratio)} its lower bound"
    return f"{name(trial)} synchronised in {seconds(trial.metrics.gst_median_s)} (median){against}."


def _alone_by(trial: Trial) -> str:
    """The number that is told of a trial by itself: of a command it is JCT."""
    return ratios.JCT if trial.metrics.gst_median_s is None else ratios.GST


def _fastest_job(trials: Sequence[Trial]) -> str:
    """The finding about commands: the job that took least, of the VALID ones if any is."""
    timed = [(t.metrics.jct_s, t) for t in trials if t.metrics.jct_s is not None]
    timed = [row for row in timed if row[1].valid_in(ratios.JCT)] or timed
    time, best = min(timed, key=lambda row: row[0])
    beside = [f"{arm(t)} {seconds(jct)}" for jct, t in timed if t is not best]
    others = f"; {listed(beside)}" if 0 < len(beside) <= MOST_NAMED else ""
    judged = [t for _, t in timed]
    left = [arm(t) for t in trials if t not in judged]
    without = f" Left out: {shortened(left, MOST_NAMED)} (not VALID in JCT)." if left else ""
    return f"{arm(best)} took {seconds(time)}{others}.{without}"


def each(values: Sequence[tuple[float, MeasuredCell]], as_text: Callable[[float], str]) -> str:
    """Every cell's value, or, of many, only the least and the greatest."""
    if len(values) <= MOST_NAMED:
        return listed(f"{as_text(value)} for {cell.label}" for value, cell in values)
    (low, least), *_, (high, greatest) = sorted(values, key=lambda row: row[0])
    return f"{as_text(low)} for {least.label} to {as_text(high)} for {greatest.label}"


def counted(labels: Sequence[str], did: str) -> str:
    """Who did it how often, the most often first: ``A finished first in 3 and B in 1``."""
    often = Counter(labels).most_common()
    first, *rest = [f"{label} {did if i == 0 else 'in'} {count}" for i, (label, count) in enumerate(often)]
    return listed([first, *rest])


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
    """That a number has none, where there was one repeat; or for which cells it has none."""
    alone = [cell for cell in cells if len(cell.counted(number)) < 2]
    if not alone:
        return []
    if len(alone) == len(cells):
        return ["Each was measured once, so there are no intervals."]
    if len(alone) > MOST_NAMED:
        return [f"{len(alone)} of {len(cells)} were measured once and have no interval."]
    verbs = ("was", "has") if len(alone) == 1 else ("were", "have")
    return [f"{listed(map(in_cell, alone))} {verbs[0]} measured once and {verbs[1]} no interval."]


def seconds(value: float) -> str:
    """A measured time with its unit, to stay on one line."""
    return unbroken(time_text(value, measured=True))


def amount(count: float) -> str:
    """Bytes with their unit, to stay on one line."""
    return unbroken(size_text(count))


def unbroken(quantity: str) -> str:
    """A number and its unit, to stay on one line."""
    return quantity.replace(" ", "\N{NO-BREAK SPACE}")


def span(values: Iterable[float]) -> str:
    """``0.50×``, or ``0.50× to 0.52×`` where the two differ as written."""
    ordered = sorted(values)
    low, high = ratio(ordered[0]), ratio(ordered[-1])
    return low if low == high else f"{low} to {high}"
