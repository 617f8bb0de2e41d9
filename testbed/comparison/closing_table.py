"""Table that a run ends with: one row a cell, each beside the first arm with the same batch at the same point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from testbed.analysis.cell import Cell, cell_of, references
from testbed.analysis.jobs import JOB
from testbed.analysis.numbers import ratios, repeats
from testbed.analysis.numbers.goal import QUALITIES, Curve, Quality, goal, quality, reached_s
from testbed.analysis.strikes import never, strikes_of
from testbed.analysis.verdicts import GST_P95, Number, errors_in_short, numbers_of
from testbed.base.listing import shortened
from testbed.base.units import time_text
from testbed.execution.results import attempt_count
from testbed.workloads.kinds import has_iterations

ERROR, ACCURACY, TO_ACCURACY = "error at most", "accuracy", "time to accuracy"
HEADER = (
    *("arm", "batch", "GST", "p95", "p99", "theory", "ratio", "JCT", "samples/s", "speed-up"),
    *(ERROR, ACCURACY, TO_ACCURACY, "verdict"),
)
AT, SPREAD, STALE, ATTEMPTS, SETUP = "at", "±", "staleness", "attempts", "set-up"
"""Columns that are there where something is swept, where trials are repeated, where updates are stale, where a trial
was measured again, and where scripts have a set-up."""
MISSING = "-"
LEFT_OUT = (
    *("theory", ERROR, ACCURACY, "likelihood", "p99", "p95", SETUP, "samples/s", ATTEMPTS, SPREAD, STALE),
    *(TO_ACCURACY, "time to likelihood", "speed-up", "JCT", "ratio"),
)
"""Columns that a narrow terminal goes without, the least needed first; never the verdict."""
Record = Mapping[str, Any]
Records = Sequence[Record]
MEANING = (
    "ratio: GST over its lower bound, the least time for what was still to be sent when the last worker had its "
    "gradient; - if that is not known, as with overlap. error at most: how far GST / JCT can be off."
)
MOST_NAMED = 4
"""The most cells that a line under the table names."""
BELOW = 0.95
"""Share of the theory below which a GST needs a word."""
BELOW_MEANING = (
    "theory: the least GST if all workers send whole gradients at once; GST is below it where they do not, "
    "as with overlap, or where workers take turns"
)
SPREAD_MEANING = f"{SPREAD}: half of the range of GST over the repeats, as a share of its median"
SETUP_MEANING = "set-up: from the start of a script's first process to its first iteration, where JCT begins"


def table(records: Records, first: str) -> tuple[list[str], list[list[str]]]:
    """Make header and rows as text; a cell none of whose trials was done has none but its name.

    Columns of accuracy are left out if no trial has one. Of trials that are repeated, each number is the median over
    those in which it is VALID, or, where none is, that were done, and ``±`` half the range of their GST over it. The
    error is the largest of those trials. Speed-up is over the arm ``first``, of a job of several over the first job of
    its name (:func:`testbed.analysis.cell.references`, :func:`testbed.analysis.numbers.ratios.speed_up`); there may be
    none. Of the staleness of updates it is median and largest. Time to accuracy is the median over the trials that JCT
    is of; the accuracy is the highest that every trial with the same batch at the same point reached
    (:mod:`testbed.analysis.numbers.goal`). Where weights have another quality than accuracy, both columns are of that
    one.
    """
    found = _cells(records)
    swept = any(cell.at for cell in found)
    repeated = any(len(trials) > 1 for trials in found.values())
    header = [*HEADER[:2], *([AT] if swept else []), HEADER[2], *([SPREAD] if repeated else []), *HEADER[3:]]
    if not any(record.get("accuracy") for record in records):
        header = [name for name in header if name not in (ACCURACY, TO_ACCURACY)]
    if any((record["metrics"] or {}).get("staleness_max") is not None for record in records):
        header.insert(header.index(ERROR) + 1, STALE)
    if any(attempt_count(record) > 1 for record in records):
        header.insert(header.index("verdict"), ATTEMPTS)
    if any(map(_has_setup, records)):
        header.insert(header.index("JCT"), SETUP)
    goals = _goals(found)
    rows = []
    for (cell, trials), base in zip(found.items(), _bases(found, first), strict=True):
        named = {"arm": cell.label, "batch": str(cell.batch or MISSING), AT: cell.at or MISSING}
        named[TO_ACCURACY] = _to_accuracy(_repeats(trials), goals[_setting(cell)])
        named[ATTEMPTS] = str(sum(map(attempt_count, trials))) + (f" for {len(trials)}" if len(trials) > 1 else "")
        rows.append([(named | _numbers(_repeats(trials), _repeats(base))).get(name, MISSING) for name in header])
    noun = _quality(records).noun
    return [{ACCURACY: noun, TO_ACCURACY: f"time to {noun}"}.get(name, name) for name in header], rows


def _quality(records: Records) -> Quality:
    """Quality of the weights of these trials, which have one workload."""
    found = (record.get("accuracy") or {} for record in records)
    return quality(next((one["curve_of"] for one in found if "curve_of" in one), None))


def notes(records: Records, first: str) -> list[str]:
    """Sentences that must be said of the table's numbers: what the ratio and the error are, where there are any; which
    arms have no speed-up, which speed-ups are beside an arm of another network or with other workers, which are of
    samples per second, and why."""
    cells = _cells(records)
    synchronised = any(record["status"] == "done" and has_iterations(record) for record in records)
    meaning = [MEANING] if synchronised else []
    if synchronised and any(map(_is_below_theory, records)):
        meaning.append(BELOW_MEANING)
    if synchronised and any(len(trials) > 1 for trials in cells.values()):
        meaning.append(SPREAD_MEANING)
    if any(map(_has_setup, records)):
        meaning.append(f"{SETUP_MEANING}{_older(records)}")
    return [*meaning, *_p95_notes(cells), *_speed_up_notes(cells, first)]


def _p95_notes(cells: Mapping[Cell, Records]) -> list[str]:
    """Say in which cells p95 of GST is VALID in fewer trials than GST."""
    fewer = []
    for cell, trials in cells.items():
        arm = _repeats(trials)
        gst, p95 = (sum(repeats.is_valid(repeat, name) for repeat in arm) for name in (repeats.GST, GST_P95))
        if p95 < gst and repeats.values(arm, "gst_p95_s"):
            fewer.append(f"{cell} ({p95} of {gst})")
    return [f"p95 and p99 are VALID in fewer trials than GST: {shortened(fewer, MOST_NAMED, '; ')}"] if fewer else []


def _speed_up_notes(cells: Mapping[Cell, Records], first: str) -> list[str]:
    """Say which arms have no speed-up, and of which it is no ranking, or by samples per second."""
    told: dict[str, list[str]] = {}
    by_jct: dict[str, str] = {}
    unlike: dict[str, str] = {}
    elsewhere: dict[str, None] = {}
    uncounted: dict[str, None] = {}
    for (cell, trials), base in zip(cells.items(), _bases(cells, first), strict=True):
        first_arm, own_arm = _repeats(base), _repeats(trials)
        ours, theirs = map(repeats.compared, (first_arm, own_arm))
        if not ratios.did_alike(ours, theirs):
            mine, other = (ratios.work_text(ratios.works(one)) for one in (theirs, ours))
            unlike.setdefault(cell.label, f"{cell.label} did {mine}, {base[0]['label']} {other}")
        elif ours and theirs and ratios.speed_by(ours, theirs) == ratios.THROUGHPUT:
            told.setdefault(cell.label, [ratios.workers(theirs), base[0]["label"], ratios.workers(ours)])
        elif _speed_up(first_arm, own_arm) == MISSING:
            if ours and theirs:
                uncounted[" at ".join(filter(None, (cell.label, cell.where)))] = None
        elif ratios.workers(theirs) != ratios.workers(ours):
            numbers = f"workers: {ratios.workers(theirs)}; {base[0]['label']}: {ratios.workers(ours)}"
            by_jct.setdefault(cell.label, f"{cell.label} ({numbers})")
        elif _network(base) != _network(trials):
            elsewhere[cell.label] = None
    meaning = []
    if unlike:
        meaning.append(f"no speed-up of arms that did other work than the first: {'; '.join(unlike.values())}")
    if uncounted:
        whose = shortened(list(uncounted), MOST_NAMED)
        meaning.append(f"no speed-up, because no repeat has a JCT that counts in both arms: {whose}")
    if elsewhere:
        as_many = " with as many workers" if told or by_jct else ""
        where = f"on another network than {first}{as_many}"
        meaning.append(f"speed-up of arms {where}, so no ranking: {', '.join(elsewhere)}")
    if by_jct:
        meaning.append(f"speed-up of arms with another number of workers, so no ranking: {', '.join(by_jct.values())}")
    if not told:
        return meaning
    whose = ", ".join(f"{label} (workers: {mine}; {other}: {base})" for label, (mine, other, base) in told.items())
    others = "; all others by JCT" if {cell.label for cell in cells} - {first, *told, *unlike} else ""
    return [*meaning, f"speed-up by samples/s, because the numbers of workers differ: {whose}{others}"]


def _is_below_theory(record: Record) -> bool:
    """Whether a synchronisation took less time than whole gradients of all workers take."""
    metrics = record.get("metrics") or {}
    took_s, least_s = metrics.get("gst_median_s"), metrics.get("gst_theory_s")
    return took_s is not None and least_s is not None and took_s < BELOW * least_s


def _network(trials: Records) -> tuple[str | None, frozenset[float]]:
    """The topology of a cell's trials, and the rates of its links, as far as they are recorded."""
    record = next((one for one in trials if one.get("links")), trials[0])
    return record.get("topology"), frozenset(link["rate_bps"] for link in record.get("links") or ())


def warnings(records: Records) -> list[str]:
    """Sentences that must be said before the table: perturbations that struck nobody in some trial."""
    done = [record for record in records if record["status"] == "done"]
    return [f"warning: {told}" for told in never([(record["id"], strikes_of(record)) for record in done])]


def _cells(records: Records) -> dict[Cell, list[Mapping[str, Any]]]:
    found: dict[Cell, list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(cell_of(record), []).append(record)
    return found


@dataclass(frozen=True)
class _Place:
    label: str
    batch: int
    point: Mapping[str, Any]


def _bases(cells: Mapping[Cell, Records], first: str) -> list[Records]:
    """Trials of the reference of each cell: for a job of several, those of the first job of its name; for an arm
    without jobs, those of the first arm, or of the first of its jobs."""
    places = [_Place(cell.label, cell.batch, trials[0].get("point") or {}) for cell, trials in cells.items()]
    every = list(cells.values())
    found: list[Records] = [()] * len(every)
    by_job: dict[str, list[int]] = {}
    for i, trials in enumerate(every):
        by_job.setdefault(trials[0].get(JOB, ""), []).append(i)
    for job, own in by_job.items():
        reference = places[own[0]].label if job else first
        asked = own
        if not job and every[0][0].get(JOB):
            reference = places[0].label
            asked = [*own, *(i for i, place in enumerate(places) if place.label == reference and i not in own)]
        others = references([places[i] for i in asked], reference).of
        for i, other in zip(own, others, strict=False):
            found[i] = () if other is None else every[asked[other]]
    return found


@dataclass(frozen=True)
class _Repeat:
    """A trial's record, as :mod:`testbed.analysis.numbers.repeats` takes it."""

    record: Record

    @property
    def repeat(self) -> int:
        return int(self.record.get("repeat", 0))

    @property
    def done(self) -> bool:
        return bool(self.record["status"] == "done")

    @cached_property
    def numbers(self) -> Mapping[str, Number]:
        return numbers_of(self.record["fidelity"]) if self.done else {}

    @property
    def worlds(self) -> tuple[int | None, ...]:
        recoveries = (self.record.get("failover") or {}).get("recoveries") or ()
        return self.record.get("world"), *(one["world"] for one in recoveries)

    @property
    def work(self) -> ratios.Work | None:
        sums = self.record.get("gradient_sums")
        return None if sums is None else (self.record["iterations"], sums)

    @property
    def curve(self) -> Curve:
        """Accuracy over time, if the trial's weights are those that it belongs to; empty in records of earlier
        versions."""
        found = self.record.get("accuracy") or {}
        times_s, shares = found.get("curve_s"), found.get("curve")
        is_known = found.get("weights_equal") or quality(found.get("curve_of")).is_told
        if not times_s or not shares or not is_known:
            return ()
        return [(time_s, share) for time_s, (_, share) in zip(times_s, shares, strict=True)]

    def metric(self, name: str) -> float | None:
        found: float | None = (self.record["accuracy" if name in QUALITIES else "metrics"] or {}).get(name)
        return found


Repeats = Sequence[_Repeat]


def _repeats(records: Records) -> Repeats:
    return tuple(map(_Repeat, records))


def _speed_up(base: Repeats, trials: Repeats) -> str:
    found = ratios.speed_up(repeats.compared(base), repeats.compared(trials))
    return f"{found.value:.2f}x" if found else MISSING


def _numbers(trials: Repeats, base: Repeats) -> dict[str, str]:
    """Texts of a cell's trials, by column."""
    done = repeats.finished(trials)
    if not done:
        return {"verdict": "FAILED"}
    found = {
        SETUP: _time(trials, "setup_s"),
        "JCT": _time(trials, "jct_s"),
        "speed-up": _speed_up(base, trials),
        ERROR: errors_in_short({name: repeats.error(trials, name) for name in ("gst", "jct")}),
        "verdict": repeats.verdict(trials),
    }
    if not has_iterations(done[0].record):
        return found
    good = _quality([trial.record for trial in trials])
    gst_s, middle_s = repeats.values(trials, "gst_median_s"), repeats.middle(trials, "gst_median_s")
    return found | {
        "GST": _time(trials, "gst_median_s"),
        SPREAD: f"{(max(gst_s) - min(gst_s)) / 2 / middle_s:.1%}" if len(gst_s) > 1 and middle_s else MISSING,
        "p95": _time(trials, "gst_p95_s"),
        "p99": _time(trials, "gst_p99_s"),
        "theory": _time(trials, "gst_theory_s"),
        "ratio": _text(repeats.middle(trials, "gst_ratio"), ".3f"),
        "samples/s": _text(repeats.middle(trials, "throughput_sps"), ".0f"),
        ACCURACY: _text(repeats.middle(trials, good.metric), good.form),
        STALE: _staleness(trials),
    }


def _setting(cell: Cell) -> object:
    return cell.batch, cell.point


def _goals(cells: Mapping[Cell, Records]) -> dict[object, float | None]:
    """Accuracy that all trials of a setting reached, by setting; None where none has an accuracy."""
    curves: dict[object, list[Curve]] = {}
    for cell, trials in cells.items():
        curves.setdefault(_setting(cell), []).extend(_curves(_repeats(trials)))
    return {setting: goal(found) for setting, found in curves.items()}


def _curves(trials: Repeats) -> list[Curve]:
    return [curve for trial in repeats.counted(trials, repeats.JCT) if (curve := trial.curve)]


def _to_accuracy(trials: Repeats, accuracy: float | None) -> str:
    """Write the time to an accuracy: ``8.21 s to 85.0%``."""
    curves = _curves(trials)
    if accuracy is None or not curves:
        return MISSING
    middle_s = median(reached_s(curve, accuracy) for curve in curves)
    good = _quality([trial.record for trial in trials])
    return f"{time_text(middle_s, measured=True)} to {good.text(accuracy)}"


def _text(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


def _time(trials: Repeats, metric: str) -> str:
    found_s = repeats.middle(trials, metric)
    return MISSING if found_s is None else time_text(found_s, measured=True)


def _staleness(trials: Repeats) -> str:
    most = repeats.values(trials, "staleness_max")
    return f"{repeats.middle(trials, 'staleness_median'):g}, max {max(most):g}" if most else MISSING


def _has_setup(record: Record) -> bool:
    return (record["metrics"] or {}).get("setup_s") is not None


def _older(records: Records) -> str:
    """Say which arms have trials that an earlier version recorded, beside those of this one."""
    done = [one for one in records if one["status"] == "done" and has_iterations(one)]
    labels = dict.fromkeys(one["label"] for one in done if not _has_setup(one))
    return f"; not known of trials of earlier versions, whose JCT has most of it: {', '.join(labels)}" if labels else ""
