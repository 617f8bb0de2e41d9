"""The table that a run ends with: one row a cell, each beside the first arm with the same batch at the same point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from analysis import ratios
from analysis.cell import Cell, cell_of, references
from analysis.verdicts import VALID, Number, errors_in_short, in_short, largest, numbers_of
from testbed.attempts import made
from testbed.units import time_text

ERROR = "error at most"
HEADER = ("arm", "batch", "GST", "theory", "ratio", "JCT", "samples/s", "speed-up", ERROR, "accuracy", "verdict")
AT, SPREAD, STALE, ATTEMPTS = "at", "±", "staleness", "attempts"
"""Columns that are there where something is swept, where trials are repeated, where an arm is asynchronous, and where a
trial was measured again."""
MISSING = "-"
LEFT_OUT = ("theory", ERROR, "accuracy", "samples/s", ATTEMPTS, SPREAD, STALE, "speed-up", "JCT", "ratio")
"""What a narrow terminal goes without, the least needed first; never the verdict."""
NARROWEST_NAME = 12
"""The arm's name wraps, down to this width."""
VERDICT, NARROWEST_VERDICT = "verdict", 12
"""So does the verdict, where numbers differ in it."""
Record = Mapping[str, Any]
Records = Sequence[Record]
MEANING = (
    "ratio: GST over the least time for what was still to be sent when the last worker had its gradient, - where that "
    "is not known, as with overlap. error at most: by how much GST / JCT can be off."
)


def fitting(header: Sequence[str], table: Sequence[Sequence[str]], width: int) -> list[int]:
    """Which columns of a :func:`table` to show in ``width`` characters, with a space between two."""
    shown = list(range(len(header)))
    widths = [max(map(len, column)) for column in zip(header, *table, strict=True)]
    widths[0] = min(widths[0], NARROWEST_NAME)
    if header[-1] == VERDICT:
        widths[-1] = min(widths[-1], NARROWEST_VERDICT)
    for name in LEFT_OUT:
        if sum(widths[i] + 1 for i in shown) <= width:
            break
        if name in header:
            shown.remove(header.index(name))
    return shown


def table(records: Records, first: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows as text; a cell none of whose trials was done has none but its name.

    Of trials that are repeated, each number is the median over those in which it is VALID, or, where none is, that were
    done, and ``±`` half the range of their GST over it. The error is the largest of those trials. Speed-up is over the
    arm ``first`` (:func:`analysis.cell.references`, :func:`analysis.ratios.speed_up`); there may be none. Of the
    staleness of updates it is median and largest.
    """
    cells = _cells(records)
    swept = any(cell.at for cell in cells)
    repeated = any(len(trials) > 1 for trials in cells.values())
    header = [*HEADER[:2], *([AT] if swept else []), HEADER[2], *([SPREAD] if repeated else []), *HEADER[3:]]
    if any(_is_asynchronous(record) for record in records):
        header.insert(header.index("accuracy"), STALE)
    if any(made(record) > 1 for record in records):
        header.insert(header.index("verdict"), ATTEMPTS)
    rows = []
    for (cell, trials), base in zip(cells.items(), _bases(cells, first), strict=True):
        named = {"arm": cell.label, "batch": str(cell.batch or MISSING), AT: cell.at or MISSING}
        named[ATTEMPTS] = str(sum(map(made, trials))) + (f" for {len(trials)}" if len(trials) > 1 else "")
        rows.append([(named | _numbers(trials, base)).get(name, MISSING) for name in header])
    return header, rows


def notes(records: Records, first: str) -> list[str]:
    """What must be said of the table's numbers: what the ratio and the error are, where there are any; which speed-ups
    are of samples per second, and why."""
    cells = _cells(records)
    meaning = [MEANING] if any(record.get("kind") != "command" for record in _done(records)) else []
    told: dict[str, list[str]] = {}
    for (cell, trials), base in zip(cells.items(), _bases(cells, first), strict=True):
        ours, theirs = _numbers_of(base), _numbers_of(trials)
        if ours and theirs and ratios.speed_by(ours, theirs) == ratios.THROUGHPUT:
            told.setdefault(cell.label, [ratios.workers(theirs), ratios.workers(ours)])
    if not told:
        return meaning
    whose = ", ".join(f"{label} (workers: {mine}; {first}: {base})" for label, (mine, base) in told.items())
    return [*meaning, f"speed-up by samples/s, as numbers of workers differ: {whose}; all others by JCT"]


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
    """For each cell the trials of its reference."""
    places = [_Place(cell.label, cell.batch, trials[0].get("point") or {}) for cell, trials in cells.items()]
    every = list(cells.values())
    return [() if other is None else every[other] for other in references(places, first).of]


def _done(records: Records) -> list[Mapping[str, Any]]:
    return [record for record in records if record["status"] == "done"]


def _is_valid(record: Record, number: str) -> bool:
    found = numbers_of(record["fidelity"]).get(number)
    return found is not None and found.verdict == VALID


def _counted(trials: Records, number: str) -> Records:
    """The trials that a number is from: those in which it is VALID, or, where there are none, all that were done."""
    done = _done(trials)
    return [record for record in done if _is_valid(record, number)] or done


def _numbers_of(records: Records) -> list[ratios.Numbers]:
    return [_measured(record) for record in _done(records)]


def _measured(record: Mapping[str, Any]) -> ratios.Numbers:
    known = {ratios.JCT: "jct_s", ratios.THROUGHPUT: "throughput_sps"}
    recoveries = (record.get("failover") or {}).get("recoveries") or ()
    return ratios.Numbers(
        record.get("repeat", 0),
        (record.get("world"), *(one["world"] for one in recoveries)),
        {
            name: (_is_valid(record, name), record["metrics"][key])
            for name, key in known.items()
            if record["metrics"].get(key) is not None
        },
    )


def _speed_up(base: Records, trials: Records) -> str:
    found = ratios.speed_up(_numbers_of(base), _numbers_of(trials))
    return f"{found.value:.2f}x" if found else MISSING


def _numbers(trials: Records, base: Records) -> dict[str, str]:
    """By column, what a cell's trials say."""
    if not _done(trials):
        return {"verdict": "FAILED"}
    in_jct = _counted(trials, "jct")
    found = {
        "JCT": time_text(_median(in_jct, "jct_s"), measured=True),
        "speed-up": _speed_up(base, trials),
        ERROR: errors_in_short({name: _error(trials, name) for name in ("gst", "jct")}),
        "verdict": in_short([_judged(record) for record in trials]),
    }
    if in_jct[0].get("kind") == "command":  # which says nothing of its iterations
        return found
    in_gst, in_throughput = _counted(trials, "gst"), _counted(trials, "throughput")
    gst_s = [record["metrics"]["gst_median_s"] for record in in_gst]
    learnt = [record["accuracy"]["test_accuracy"] for record in in_jct if record["accuracy"]]
    return found | {
        "GST": time_text(median(gst_s), measured=True),
        SPREAD: f"{(max(gst_s) - min(gst_s)) / 2 / median(gst_s):.1%}" if len(gst_s) > 1 else MISSING,
        "theory": time_text(_median(in_gst, "gst_theory_s"), measured=True),
        "ratio": _ratio(in_gst),
        "samples/s": f"{_median(in_throughput, 'throughput_sps'):.0f}",
        "accuracy": f"{median(learnt):.1%}" if learnt else MISSING,
        STALE: _staleness(in_jct),
    }


def _judged(record: Record) -> Mapping[str, Number]:
    return numbers_of(record["fidelity"]) if record["status"] == "done" else {}


def _error(trials: Records, number: str) -> float | None:
    """The largest error of the trials that a number is from."""
    judged = [_judged(record).get(number) for record in _counted(trials, number)]
    return largest([one.error if one else None for one in judged])


def _is_asynchronous(record: Mapping[str, Any]) -> bool:
    return (record["metrics"] or {}).get("staleness_max") is not None


def _staleness(done: Records) -> str:
    found = [record["metrics"] for record in done if _is_asynchronous(record)]
    if not found:
        return MISSING
    return f"{median(one['staleness_median'] for one in found):g}, max {max(one['staleness_max'] for one in found):g}"


def _ratio(done: Records) -> str:
    """GST over the least that it can be, where that is known of each trial."""
    known = [record["metrics"]["gst_ratio"] for record in done]
    return MISSING if None in known else f"{median(known):.3f}"


def _median(records: Records, metric: str) -> float:
    return median(float(record["metrics"][metric]) for record in records)
