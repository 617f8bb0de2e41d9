"""A question that a report answers: a table of data, which is its CSV, figures of that data, and sentences about them.

A figure is Plotly's description of it (``data`` and ``layout``) with one addition: wherever a trace takes numbers, it
may name a column of the question's table, ``{"column": "jct_s"}``, of which it then has the rows from ``rows[0]`` to
before ``rows[1]``; with ``"times": 1000`` that many times as large. The page puts the numbers in. So data is in a page
once, whatever is drawn of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

DIGITS = 6
"""Significant digits of numbers in figures and CSV: more than any clock here is good for."""
CROSS = "x"
"""Plotly's name of the mark of a number that is not VALID."""
CODED_FROM = 2
"""A column of texts is written as a list of its values and a number a row, if they repeat so often on average."""


@dataclass(frozen=True)
class Panel:
    """One figure: what it shows, and how. ``figure`` is Plotly's; of a ``picture`` there is an SVG instead."""

    name: str
    caption: str
    figure: dict[str, Any] = field(default_factory=dict)
    picture: str = ""
    problem: str = ""
    """Why there is neither."""
    seen: str = ""
    """Description of what is seen in the figure, where that is not said of all panels together."""


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a swatch, a line with these dashes, or, without a colour and dashes, a cross."""

    label: str
    colour: str = ""
    dashes: str | None = None


@dataclass(frozen=True)
class Question:
    """One question and its answer.

    Attributes:
        name: of its files.
        asked: its heading.
        frame: the data, a row for each mark.
        seen: what the numbers say, in sentences.
        told: what sentences would say again and again with other numbers: a small table, each row by column.
        defined: what they mean, and what was left out.
    """

    name: str
    asked: str
    frame: pd.DataFrame
    panels: tuple[Panel, ...]
    seen: tuple[str, ...]
    defined: str
    legend: tuple[Key, ...] = ()
    told: tuple[Mapping[str, str], ...] = ()

    @property
    def keys(self) -> tuple[Key, ...]:
        """The legend, with the cross where a line of a figure has one for a number that is not VALID."""
        marks = [trace.get("marker", {}) for panel in self.panels for trace in panel.figure.get("data", ())]
        is_crossed = any(CROSS in mark["symbol"] for mark in marks if isinstance(mark.get("symbol"), list))
        return (*self.legend, *([Key("not VALID")] if is_crossed else []))

    def json(self) -> str:
        """Table and figures, for the page's script."""
        columns = {str(name): _column(self.frame[name]) for name in self.frame}
        value = {"columns": columns, "figures": {panel.name: panel.figure for panel in self.panels if panel.figure}}
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def column(name: str, minus: str | None = None) -> dict[str, str]:
    """Numbers of a table's column, for a trace; or their difference to another's."""
    return {"column": name} if minus is None else {"column": name, "minus": minus}


def rounded(value: float) -> float | int | None:
    """Round a value to the digits that a page needs; None for what is no finite number."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


def _column(values: pd.Series[Any]) -> Any:
    """Numbers as a list; texts that repeat as ``{"of": values, "at": [a number a row]}``."""
    if pd.api.types.is_integer_dtype(values):
        return [None if pd.isna(value) else int(value) for value in values]
    if values.isna().all():  # intervals of cells that were all measured once; as texts they would be ends at 0
        return [None] * len(values)
    if pd.api.types.is_float_dtype(values):
        return [rounded(float(value)) for value in values]
    texts = ["" if value is None or value is pd.NA else str(value) for value in values]
    different = list(dict.fromkeys(texts))
    if len(texts) < CODED_FROM * len(different):
        return texts
    number = {text: i for i, text in enumerate(different)}
    return {"of": different, "at": [number[text] for text in texts]}
