"""A page a paper: one HTML file that needs no network. The same findings, the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from markupsafe import Markup

from testbed.analysis.html import source, template
from testbed.analysis.papers.claim import Claim, Finding, Paper, Row, Verdict, number, stated
from testbed.analysis.papers.picture import picture
from testbed.base.listing import counted

_CLASS = {Verdict.HOLDS: "good", Verdict.FAILS: "bad", Verdict.UNDECIDED: "open"}


@dataclass(frozen=True)
class Line:
    """One number as text; ``ours`` has its interval, ``from_what`` its samples and trials."""

    name: str
    paper: str
    theory: str
    ours: str
    between: str
    from_what: str
    doubt: str


def render(
    paper: Paper,
    found: Sequence[tuple[Claim, Finding]],
    mode: str,
    folders: Mapping[str, str],
    scales: Mapping[str, str],
) -> str:
    """The page of a paper's claims, ``mode`` being quick or full; ``folders`` are those of the runs, by spec, and
    ``scales`` sentences about those of them that have another scale than their spec."""
    return template("testbed.analysis.papers", "paper.html").render(
        paper=paper,
        found=found,
        mode=mode,
        folders=folders,
        scales=scales,
        style=source("testbed.analysis.papers", "paper.css"),
        counts=counts(found),
        line=_line,
        pictures=_pictures,
        css=_CLASS,
    )


def counts(found: Sequence[tuple[Claim, Finding]]) -> str:
    """``5 claims hold, 1 fails, 1 not decided``."""
    verdicts = [finding.verdict for _, finding in found]
    words = {
        Verdict.HOLDS: ("holds", "hold"),
        Verdict.FAILS: ("fails", "fail"),
        Verdict.UNDECIDED: ("not decided",) * 2,
    }
    told = [
        f"{count} {one if count == 1 else several}"
        for verdict, (one, several) in words.items()
        if (count := verdicts.count(verdict))
    ]
    return f"Of {len(found)} claim{'' if len(found) == 1 else 's'}, {', '.join(told)}"


def _line(row: Row) -> Line:
    theory = "-" if row.theory is None else number(row.theory, row.unit)
    if row.ours is None:
        return Line(row.name, stated(row.paper, row.unit), theory, "modelled", "", "", "")
    interval, ours = row.interval, row.ours
    here = "-" if interval is None else number(interval.value, row.unit)
    between = "" if interval is None else stated((interval.low, interval.high), row.unit)
    told = f"{ours.valid} of {counted(ours.trials, 'trial')} {ours.verdict}"
    trials = told if ours.trials else "" if ours.samples else "not run"
    from_what = ", ".join(text for text in (ours.basis, trials) if text)
    return Line(row.name, stated(row.paper, row.unit), theory, here, between, from_what, "; ".join(ours.doubts))


def _pictures(finding: Finding) -> list[Markup]:
    return [Markup(svg) for svg in map(picture, _together(finding.rows)) if svg]


def _together(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that share a picture: those of a unit that stand together; or all of a unit, where one would be alone and so
    in no picture."""
    groups = [list(group) for _, group in groupby(rows, key=attrgetter("unit"))]
    alone = {group[0].unit for group in groups if len(group) == 1}
    by_unit: dict[str, list[Row]] = {}
    for row in rows:
        by_unit.setdefault(row.unit, []).append(row)
    return groups if all(len(by_unit[unit]) == 1 for unit in alone) else list(by_unit.values())
