"""The report as Markdown, as GitHub shows it: what is in doubt first, then the table and what is seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from testbed.analysis.recorded import Run
from testbed.analysis.report import headline, settings, tables, words
from testbed.analysis.report.questions import answered

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~$&@])")
_LEADING = re.compile(r"^(\d*)(?:([.)])(?=\s|$)|([-+])(?=[\s-]|$))")
"""Text that begins a list, or a list in a list, or a line across the page."""


def render(run: Run) -> str:
    """The text; whatever comes from the run is escaped."""
    unstruck = words.unstruck(run)
    lead = [
        words.doubts(run),
        headline.unreliable(run),
        words.simulated(run),
        f"Warning: {unstruck}" if unstruck else "",
    ]
    doubts = [f"> **{escape(line)}**" for line in lead if line]
    parts = ["\n>\n".join(doubts)] if doubts else []
    reasons = [
        (name, verdict, "; ".join(_on_a_line(reason).removesuffix(".") for reason in why))
        for name, verdict, why in tables.troubles(run, page="the HTML report")
    ]
    if reasons:
        listed = [f"{name}: {verdict}. {why}".strip() for name, verdict, why in reasons]
        parts.append(f"## Trials that failed or are not VALID\n\n{_list(listed)}")
    parts = [f"# {escape(run.name)}", *parts, f"**{escape(headline.finding(run))}** {escape(words.counts(run))}"]
    parts += [escape(told) for told in (headline.unlike(run), words.of_pairs(run), words.scale(run)) if told]
    parts += _differences(run)
    parts.append(_table(tables.summary(run)))
    again = [f"{name}: {verdict}. {' '.join(why)}" for name, verdict, why in tables.again(run)]
    parts += [f"## Trials that were measured again\n\n{_list(again)}"] if again else []
    if any(number.error is not None for trial in run.finished for number in trial.numbers.values()):
        parts.append(f"## Can the numbers be believed?\n\n{_table(tables.verdicts(run))}")
    for question in answered(run):
        said = [*question.seen, *(f"{panel.caption}: {panel.seen}" for panel in question.panels if panel.seen)]
        parts.append(f"## {escape(question.asked)}" + (f"\n\n{_list(said)}" if said else ""))
        if question.told:
            rows = [list(row.values()) for row in question.told]
            parts.append(_rows(list(question.told[0]), rows, left=len(question.told[0])))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Text in which nothing is markup, on one line."""
    return _LEADING.sub(r"\1\\\2\3", _SPECIAL.sub(r"\\\1", " ".join(text.split())))


def _on_a_line(text: str) -> str:
    """An error of several lines, with something between them, as each may be a sentence."""
    told = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        between = " " if told.endswith((":", ";", ",")) else "; "
        told = f"{told}{between}{line}" if told else line
    return told


def _differences(run: Run) -> list[str]:
    names = [part.name for part in run.parts]
    parts = []
    for title, found in (
        ("specs", settings.of_specs(run.parts)),
        ("environments", settings.of_environments(run.parts)),
    ):
        if found:
            rows = [[name, *values] for name, values in found]
            parts.append(f"## Differences of {title}\n\n{_rows(['setting', *names], rows, left=len(names) + 1)}")
    return parts


def _table(table: tables.Table) -> str:
    rows = [
        [row.name, *(f"{value.text} ({value.note})" if value.note else value.text for value in row.values)]
        for row in table.rows
    ]
    return _rows(table.columns, rows)


def _rows(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    marks = [":--" if i < left else "--:" for i in range(len(columns))]
    lines = [_row(map(escape, columns)), _row(marks), *(_row(map(escape, row)) for row in rows)]
    return "\n".join(lines)


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {escape(item)}" for item in items)
