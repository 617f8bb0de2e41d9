"""A page a paper: one HTML file that needs no network. The same findings, the same bytes.

A claim's numbers are also a picture: for each, the paper's value or range, theory's, and ours with its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, groupby
from operator import attrgetter
from textwrap import wrap

from markupsafe import Markup

from testbed.analysis.html import source, template
from testbed.analysis.papers.claim import Claim, Finding, Paper, Row, Verdict, number, stated
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


_NAME_PX, _PLOT_PX, _ROW_PX, _AXIS_PX = 300, 420, 26, 30
_PAD_PX = 12
_NAME_CHARACTERS, _LINE_PX = 46, 12
"""The most characters of a line of a name, and its height; a long name has two lines, and a higher row."""
_CHARACTER_PX = 7
"""Width of a character of a tick, at most."""
INK, PAPER, OURS = "currentColor", "#c77d18", "#2b6cb0"


def picture(rows: Sequence[Row]) -> str:
    """An SVG of the rows, which have one unit; nothing where fewer than two of them have a number."""
    shown = [row for row in rows if _numbers(row)]
    if len(shown) < 2:
        return ""
    values = [value for row in shown for value in _numbers(row)]
    low, high = min(0.0, *values), max(values)
    high = high if high > low else low + 1
    unit = shown[0].unit
    ticks = [(tick, number(tick, unit)) for tick in _ticks(low, high)]
    right_px = max(_PAD_PX, math.ceil(_CHARACTER_PX * len(ticks[-1][1]) / 2))

    def x(value: float) -> float:
        return _NAME_PX + _PAD_PX + (_PLOT_PX - _PAD_PX - right_px) * (min(value, high) - low) / (high - low)

    names = [wrap(row.name, _NAME_CHARACTERS, max_lines=2, placeholder="...") for row in shown]
    heights = [_ROW_PX + _LINE_PX * (len(lines) - 1) for lines in names]
    height = sum(heights) + _AXIS_PX
    label = f"paper, theory and here, in {unit or 'numbers'}"
    parts = [
        f'<svg class="numbers" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_NAME_PX + _PLOT_PX} {height}" '
        f'role="img" aria-label="{escape(label)}" font-size="12" fill="currentColor">'
    ]
    parts += [_grid(x(tick), height, text) for tick, text in ticks]
    for row, lines, row_px, end in zip(shown, names, heights, accumulate(heights), strict=True):
        parts += [*_name(lines, end - row_px / 2), *_marks(row, end - row_px / 2, x)]
    return "\n".join([*parts, "</svg>"])


def _grid(at: float, height: int, text: str) -> str:
    return (
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{height - _AXIS_PX + 4}" stroke="{INK}" opacity="0.15"/>'
        f'<text x="{at:.1f}" y="{height - 10}" text-anchor="middle" opacity="0.7">{escape(text)}</text>'
    )


def _name(lines: Sequence[str], y: float) -> list[str]:
    top = y + 4 - _LINE_PX / 2 * (len(lines) - 1)
    return [
        f'<text x="{_NAME_PX}" y="{top + _LINE_PX * i:.1f}" text-anchor="end">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]


def _marks(row: Row, y: float, x: Callable[[float], float]) -> list[str]:
    parts: list[str] = []
    tip = f"paper {stated(row.paper, row.unit)}"
    if isinstance(row.paper, tuple):
        left, right = (x(limit) for limit in row.paper)
        parts.append(
            f'<rect x="{left:.1f}" y="{y - 7:.1f}" width="{right - left:.1f}" height="14" fill="{PAPER}" '
            'opacity="0.25">'
            f"<title>{escape(tip)}</title></rect>"
        )
    elif row.paper is not None:
        at = x(row.paper)
        parts.append(
            f'<path d="M{at:.1f} {y - 8:.1f}l6 8l-6 8l-6 -8z" fill="{PAPER}"><title>{escape(tip)}</title></path>'
        )
    if row.theory is not None:
        at = x(row.theory)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y - 9:.1f}" y2="{y + 9:.1f}" stroke="{INK}" stroke-width="2">'
            f"<title>{escape(f'theory {number(row.theory, row.unit)}')}</title></line>"
        )
    found = row.interval if row.ours is not None else None
    if found is not None:
        if math.isfinite(found.low) and math.isfinite(found.high):
            parts.append(
                f'<line x1="{x(found.low):.1f}" x2="{x(found.high):.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{OURS}" '
                'stroke-width="2.5"/>'
            )
        parts.append(
            f'<circle cx="{x(found.value):.1f}" cy="{y:.1f}" r="4.5" fill="{OURS}">'
            f"<title>{escape(f'here {number(found.value, row.unit)}')}</title></circle>"
        )
    return parts


def _numbers(row: Row) -> list[float]:
    """List the numbers of a row that have a place on the axis."""
    paper = row.paper if isinstance(row.paper, tuple) else (row.paper,)
    found = row.interval
    ours = [] if found is None else [found.value, found.low, found.high]
    return [value for value in (*paper, row.theory, *ours) if value is not None and math.isfinite(value)]


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
