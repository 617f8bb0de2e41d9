"""A comparison as text for a terminal, Markdown for a pull request, JSON for programs, JUnit XML for CI servers."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from testbed.analysis.comparing.compare import (
    BETTER,
    INCONCLUSIVE,
    SAME,
    WORSE,
    Comparison,
    Failures,
    Judged,
    LeftOut,
    Verdict,
)
from testbed.analysis.comparing.measured import NAMES, value_text
from testbed.analysis.numbers.statistics import CONFIDENCE
from testbed.base.columns import Layout, columns
from testbed.base.listing import counted, shortened

HEADER = ("arm", "batch", "metric", "BASE", "NEW", "ratio", "95 % interval", "p", "trials", "verdict")
FIRST_NUMBER, LAST_NUMBER = HEADER.index("BASE"), HEADER.index("trials")
SPARE = ("p", "trials", "batch")
"""Columns that a narrow terminal goes without, the least needed first."""
MISSING = "-"
NOT_COMPARED = "not compared"
"""Begins the line on metrics without a VALID trial on a side, which no option accepts as inconclusive."""
VERDICTS: tuple[Verdict, ...] = (WORSE, BETTER, SAME, INCONCLUSIVE)
MOST_UNDECIDED = 4
"""Cells that are named where all of them are inconclusive for one reason; the rest is counted."""
MOST_LEFT_OUT = 8
"""Trials that are named one by one; the rest is counted."""
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML 1.0 document may hold, not even escaped."""


def rows(found: Comparison) -> list[list[str]]:
    """The table's texts under :data:`HEADER`, a row for each metric of each cell."""
    return [_row(one) for one in found.judged]


def summary(found: Comparison) -> str:
    """Say in how many cells more trials failed, and how many metrics of cells have which verdict."""
    cells, accepted = len(found.failures), " (accepted)" if found.failures_accepted else ""
    counts = [f"more failures in {counted(cells, 'cell')}{accepted}"] if cells else []
    counts += [f"{len(found.of(verdict))} {verdict}" for verdict in VERDICTS if found.of(verdict)]
    pairs = ", in pairs" if found.paired else ""
    return f"{', '.join(counts)}: {found.new} against {found.base}{pairs}; changes above {_thresholds(found)} count"


def notes(found: Comparison) -> list[str]:
    """List what else a reader must know: why no decision, what was left out, what differs, what would be measured
    again."""
    accepted = ", accepted" if found.failures_accepted else ""
    told = [f"more failures{accepted}: {_failures(one, found)}" for one in found.failures]
    undecided: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in found.of(INCONCLUSIVE):
        is_what = NOT_COMPARED if one.unmeasured else INCONCLUSIVE
        undecided.setdefault((is_what, one.why), {}).setdefault(_named(one), []).append(NAMES[one.metric])
    for (is_what, why), cells in undecided.items():
        names = [f"{cell}: {', '.join(metrics)}" for cell, metrics in cells.items()]
        told.append(f"{is_what}: {shortened(names, MOST_UNDECIDED, '; ')}: {why}")
    shown = found.left_out[:MOST_LEFT_OUT]
    told += [f"left out: {one.id} of {one.side} is {one.verdict}{_only_in(one, found)}" for one in shown]
    if len(found.left_out) > len(shown):
        told.append(f"left out: {counted(len(found.left_out) - len(shown), 'more trial')}, not VALID")
    told += [f"allowed to differ: {one.sentence(found.base, found.new)}" for one in found.allowed]
    told += [f"another scheme: {one}" for one in found.schemes]
    told += [f"only in {found.new}: {cell}" for cell in found.only_new]
    told += [f"measured again: {cell}; only the second measurement counts" for cell in sorted(found.again)]
    again = "testbed run SPEC --baseline measures it again"
    told += [f"suspicious: {cell}; {again}" for cell in found.suspicious]
    return told


def _failures(one: Failures, found: Comparison) -> str:
    """A cell in which more trials FAILED: ``ring, batch 16: 4 of 10 trials FAILED, 0 of 10 in base.json``."""
    (failed, count), (before, of) = one.new, one.base
    return f"{_named(one)}: {failed} of {counted(count, 'trial')} FAILED, {before} of {of} in {found.base}"


def _only_in(one: LeftOut, found: Comparison) -> str:
    """The metrics in which a trial does not count, where it counts in others."""
    is_in_all = {judged.metric for judged in found.judged} <= set(one.metrics)
    return "" if is_in_all or not one.metrics else f" in {' and '.join(NAMES[name] for name in one.metrics)}"


def text(found: Comparison, lay_out: Layout = columns) -> str:
    """Write a comparison as text for people."""
    shown, folded = _with_numbers(found)
    lines = [lay_out(HEADER, shown, 3, SPARE), ""] if shown else []
    return "\n".join([*lines, *folded, *notes(found), summary(found)])


def _with_numbers(found: Comparison) -> tuple[list[list[str]], list[str]]:
    """The rows that have a number, and a line about how many have none."""
    every = rows(found)
    shown = [row for row in every if set(row[FIRST_NUMBER:LAST_NUMBER]) != {MISSING}]
    without = len(every) - len(shown)
    return shown, [f"not in the table: {counted(without, 'row')} without VALID numbers to compare"] if without else []


def markdown(found: Comparison) -> str:
    """Write a comparison as Markdown, for a pull request's comment or a job's summary."""
    shown, folded = _with_numbers(found)
    lines = [f"**{_escaped(summary(found))}**", ""]
    lines += [_line(HEADER), _line(["---"] * len(HEADER))] if shown else []
    lines += [_line([_escaped(text) for text in row]) for row in shown]
    told = [f"- {_escaped(note)}" for note in (*folded, *notes(found))]
    return "\n".join([*lines, *([""] if told else []), *told]) + "\n"


def as_json(found: Comparison) -> dict[str, Any]:
    """Everything, the values of each trial included."""
    return {
        "base": found.base,
        "new": found.new,
        "experiment": found.experiment,
        "paired": found.paired,
        "confidence": CONFIDENCE,
        "counts": {verdict: len(found.of(verdict)) for verdict in VERDICTS},
        "judged": [_entry(one) for one in found.judged],
        "failures": [_cell_entry(one) | _failed(one, found) for one in found.failures],
        "left_out": [vars(one) | {"metrics": list(one.metrics)} for one in found.left_out],
        "allowed": [vars(one) for one in found.allowed],
        "schemes": list(found.schemes),
        "only_new": [str(cell) for cell in found.only_new],
        "measured_again": [str(cell) for cell in sorted(found.again)],
        "suspicious": [str(cell) for cell in found.suspicious],
    }


def junit(found: Comparison) -> str:
    """JUnit XML as GitHub's actions and Jenkins read it: a test case for each metric of each cell, and for each cell in
    which more trials FAILED."""
    accepted = found.failures_accepted
    counts = {
        "tests": str(len(found.judged) + len(found.failures)),
        "failures": str(len(found.of(WORSE)) + (0 if accepted else len(found.failures))),
        "errors": "0",
        "skipped": str(len(found.of(INCONCLUSIVE)) + (len(found.failures) if accepted else 0)),
    }
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": _clean(f"testbed compare {found.experiment}"), **counts})
    for one in found.judged:
        case = ET.SubElement(suite, "testcase", {"classname": _clean(found.experiment), "name": _clean(name(one))})
        case.set("time", f"{sum(one.new) if one.metric == 'jct' else 0.0:.3f}")
        if one.verdict == WORSE:
            told = _clean(sentence(one))
            ET.SubElement(case, "failure", {"message": told, "type": "regression"}).text = told
        elif one.verdict == INCONCLUSIVE:
            ET.SubElement(case, "skipped", {"message": _clean(one.why)})
    for failing in found.failures:
        named = {"classname": _clean(found.experiment), "name": _clean(f"{_named(failing)}: failures")}
        case, told = ET.SubElement(suite, "testcase", named | {"time": "0.000"}), _clean(_failures(failing, found))
        if accepted:
            ET.SubElement(case, "skipped", {"message": told})
        else:
            ET.SubElement(case, "failure", {"message": told, "type": "regression"}).text = told
    ET.SubElement(suite, "system-out").text = _clean(text(found))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def name(one: Judged) -> str:
    """A cell and metric: ``ring, batch 16: GST``; of two arms, as their ratio: ``ring / PS, batch 16: GST``."""
    return f"{_named(one)}: {NAMES[one.metric]}"


def _named(one: Judged | Failures) -> str:
    return str(replace(one.cell, label=_arms(one)))


def sentence(one: Judged) -> str:
    """The judgement in words."""
    if one.ratio is None:
        return f"{name(one)} is {one.verdict}: {one.why}"
    return (
        f"{name(one)} is {one.verdict}: {_value(one.metric, one.new)} against {_value(one.metric, one.base)}, "
        f"ratio {one.ratio.value:.4f}, {_interval(one)}, threshold {one.threshold:.3g}"
    )


def _arms(one: Judged | Failures) -> str:
    """The arm, or, of two, NEW's over BASE's, as the ratio is."""
    return one.cell.label if one.arm == one.cell.label else f"{one.arm} / {one.cell.label}"


def _row(one: Judged) -> list[str]:
    point = f", {one.cell.where}" if one.cell.where else ""
    start = [f"{_arms(one)}{point}", str(one.cell.batch or MISSING), NAMES[one.metric]]
    values = [_value(one.metric, side) for side in (one.base, one.new)]
    compared = [MISSING] * 3
    if one.ratio is not None and one.p_value is not None:
        compared = [f"{one.ratio.value:.4f}", _interval(one), f"{one.p_value:.1g}"]
    return [*start, *values, *compared, f"{len(one.base)} / {len(one.new)}", one.verdict]


def _value(metric: str, values: tuple[float, ...]) -> str:
    """The median of a side's trials."""
    return value_text(metric, median(values)) if values else MISSING


def _interval(one: Judged) -> str:
    assert one.ratio is not None
    return "not known" if math.isinf(one.ratio.high) else f"{one.ratio.low:.4f} to {one.ratio.high:.4f}"


def _cell_entry(one: Judged | Failures) -> dict[str, Any]:
    return {"label": one.cell.label, "batch": one.cell.batch, "point": dict(one.cell.point), "arm": one.arm}


def _entry(one: Judged) -> dict[str, Any]:
    ratio: Mapping[str, float | None] | None = None
    if one.ratio is not None:
        ratio = {key: value if math.isfinite(value) else None for key, value in vars(one.ratio).items()}
    return {
        **_cell_entry(one),
        "metric": one.metric,
        "verdict": one.verdict,
        "why": one.why,
        "threshold": one.threshold,
        "ratio": ratio,
        "p_value": one.p_value,
        "base": list(one.base),
        "new": list(one.new),
    }


def _failed(one: Failures, found: Comparison) -> dict[str, Any]:
    base, new = ({"failed": failed, "trials": count} for failed, count in (one.base, one.new))
    return {"base": base, "new": new, "accepted": found.failures_accepted}


def _thresholds(found: Comparison) -> str:
    known = {one.metric: one.threshold for one in found.judged}
    if len(set(known.values())) == 1:
        return f"{100 * next(iter(known.values())):.3g} %"
    return ", ".join(f"{100 * value:.3g} % of {NAMES[metric]}" for metric, value in known.items())


def _line(texts: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(texts)} |"


def _escaped(words: str) -> str:
    """Text from a spec is text in Markdown, too."""
    return re.sub(r"([\\|*_<>`\[\]#])", r"\\\1", words.replace("\n", " "))


def _clean(words: str) -> str:
    return NOT_XML.sub("?", words)
