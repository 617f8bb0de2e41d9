"""``testbed.compare()``: whether a run is slower than an earlier one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from analysis import compare_output
from analysis.compare import Comparison as Found
from analysis.compare import compare as judge
from analysis.measured import Side, read
from testbed.api import html
from testbed.api.results import Run
from testbed.base import exits
from testbed.comparison.options import exit_code, wanted

if TYPE_CHECKING:
    import pandas as pd

Measured: TypeAlias = Run | str | os.PathLike[str]


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """A verdict on each metric of each cell; ``found`` has all that is known."""

    found: Found

    @property
    def is_worse(self) -> bool:
        """Whether something is worse, or more trials failed than before: exit code 3 of ``testbed compare``."""
        return exit_code(self.found) == exits.REGRESSION

    @property
    def is_inconclusive(self) -> bool:
        """Whether nothing is worse and something is inconclusive: exit code 4."""
        return exit_code(self.found) == exits.UNDECIDED

    @property
    def notes(self) -> list[str]:
        """Why something is inconclusive, which trials do not count, and which conditions differ."""
        return compare_output.notes(self.found)

    @property
    def table(self) -> pd.DataFrame:
        """A row for each metric of each cell. ``ratio`` is NEW over BASE; its 95 % interval is ``low`` to ``high``."""
        import pandas as pd

        return pd.DataFrame([_flat(one) for one in compare_output.as_json(self.found)["judged"]])

    def __str__(self) -> str:
        return compare_output.text(self.found)

    def __repr__(self) -> str:
        return f"<Comparison {compare_output.summary(self.found)}>"

    def _repr_html_(self) -> str:
        headline = html.paragraph(compare_output.summary(self.found), strong=True)
        return headline + html.table(compare_output.HEADER, compare_output.rows(self.found)) + html.listed(self.notes)


def compare(
    base: Measured,
    new: Measured,
    *,
    threshold: str | Mapping[str, str] | None = None,
    metrics: Sequence[str] = (),
    allow: Sequence[str] = (),
    arms: Mapping[str, str] | None = None,
) -> Comparison:
    """Say of each arm, batch and metric whether NEW is better or worse than BASE, or the same.

    Args:
        base, new: runs, their directories, or files of baselines.
        threshold: the change that matters, such as ``"5%"`` or ``{"gst": "5%"}``; 3 % by default.
        metrics: only these of ``gst``, ``jct`` and ``throughput``.
        allow: conditions that may differ, such as ``kernel`` or ``links.rate``.
        arms: label in BASE to label in NEW; of one run, which of its arms to compare.

    Raises:
        IncomparableError: the two were measured under different conditions, or have nothing in common.
        UsageError: there is no such metric, arm or condition.
        OutputError: one of them cannot be read.
    """
    asked = [threshold] if isinstance(threshold, str) else [f"{k}={value}" for k, value in (threshold or {}).items()]
    found = judge(
        _side(base),
        _side(new),
        thresholds=wanted(asked, metrics),
        allowed=allow,
        arms=list(arms.items()) if arms else None,
    )
    return Comparison(found)


def _side(of: Measured) -> Side:
    return read(of.path if isinstance(of, Run) else Path(of))


def _flat(judged: Mapping[str, Any]) -> dict[str, Any]:
    ratio = judged["ratio"] or dict.fromkeys(("value", "low", "high"))
    return {**judged, "ratio": ratio["value"], "low": ratio["low"], "high": ratio["high"]}
