r"""The report's table for a paper: booktabs, an interval in small print after each median that has one.

``\usepackage{booktabs}`` is all it needs, with any of pdfLaTeX, XeLaTeX and LuaLaTeX.
"""

from __future__ import annotations

import unicodedata

from testbed.analysis.recorded import Run
from testbed.analysis.report import headline, tables, words
from testbed.base.listing import counted

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # the straight one needs another font encoding than the default
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # after a line's end it would begin that command's argument
    "]": "{]}",
    "*": "{*}",
    "×": r"$\times$",
    "±": r"$\pm$",
    "µ": r"$\mu$",
    "–": "--",
    "\N{NO-BREAK SPACE}": "~",
}
_KEPT_OUT = ("Weights", "Attempts", "Fidelity", "GST p95", "Samples/s")
"""Columns (their beginnings) that a paper's table has no room for; what is not VALID is marked at its arm."""


def render(run: Run) -> str:
    """A table that may be put into a document with ``\\input``. Whatever comes from the run is escaped."""
    table = tables.summary(run)
    shown = [i for i, title in enumerate(table.columns[1:]) if not title.startswith(_KEPT_OUT)]
    titles = [table.columns[0], *(table.columns[i + 1] for i in shown)]
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(_caption(run, table))}}}",
        rf"\begin{{tabular}}{{l{'r' * len(shown)}}}",
        r"\toprule",
        " & ".join(map(escape, titles)) + r" \\",
        r"\midrule",
        *(_row(row, shown) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text in which nothing is a command; letters that pdfLaTeX does not know lose their accents, or become ``?``."""
    found = ""
    for letter in text:
        apart = "{}" if letter == "-" and found.endswith("-") else ""  # two would become a dash
        found += apart + (_SPECIAL.get(letter) or _letter(letter))
    return found


def _letter(letter: str) -> str:
    if letter.isspace() or not letter.isprintable():
        return " "
    if letter.isascii() or 0xA1 <= ord(letter) <= 0x17F:  # Latin letters, which UTF-8 input covers
        return letter
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return "".join(_SPECIAL.get(one, one) for one in plain) or "?"


def _caption(run: Run, table: tables.Table) -> str:
    has_intervals = any(" to " in value.note for row in table.rows for value in row.values)
    intervals = ["In parentheses: 95 % intervals."] if has_intervals else []
    failed = sum(not trial.done for trial in run.trials)
    lost = [f"{failed} of {counted(len(run.trials), words.what(run.trials))} failed."] if failed else []
    told = [one for one in (headline.unlike(run), words.doubts(run), words.simulated(run)) if one]
    return " ".join([f"{run.name}: medians.", *intervals, *told, *lost, *words.missing(run)])


def _row(row: tables.Row, shown: list[int]) -> str:
    mark = rf"\textsuperscript{{{row.state.upper()}}}" if row.state else ""
    values = [row.values[i] for i in shown]
    notes = [rf" {{\scriptsize ({escape(value.note)})}}" if value.note else "" for value in values]
    texts = [escape(row.label) + mark, *(escape(value.text) + note for value, note in zip(values, notes, strict=True))]
    return " & ".join(texts) + r" \\"
