"""``testbed.compare()``: whether a run is slower than an earlier one; and baselines of runs, for later comparisons."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from testbed.analysis.comparing import compare_output
from testbed.analysis.comparing.compare import Comparison as Found
from testbed.analysis.comparing.compare import compare as judge
from testbed.analysis.comparing.measured import Side, read
from testbed.api import html
from testbed.api.results import Run
from testbed.base import exits
from testbed.base.columns import Layout, columns
from testbed.base.endings import check_ending
from testbed.base.errors import UsageError
from testbed.comparison.options import exit_code, pairs, wanted
from testbed.files.writing import write_bytes

if TYPE_CHECKING:
    import pandas as pd

Measured: TypeAlias = Run | str | os.PathLike[str]
FORMATS: Mapping[str, Callable[[Found], str]] = {
    "text": compare_output.text,
    "md": compare_output.markdown,
    "json": lambda found: (
        json.dumps(compare_output.as_json(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    ),
    "junit": compare_output.junit,
}
"""Formats of a comparison, and the functions that write them."""


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """The result of a comparison: a verdict on each metric of each cell; ``found`` has all that is known."""

    found: Found

    @property
    def is_worse(self) -> bool:
        """Whether something is worse, or more trials failed than before: exit code 3 of ``testbed compare``."""
        return exit_code(self.found) == exits.REGRESSION

    @property
    def is_inconclusive(self) -> bool:
        """Whether nothing is worse and something is inconclusive: exit code 4."""
        return exit_code(self.found) == exits.UNDECIDED

    def exit_code(self, accept_inconclusive: bool = False) -> int:
        """Exit code of ``testbed compare``; with ``accept_inconclusive``, what is inconclusive counts as the same."""
        return exit_code(self.found, accept_inconclusive)

    def text(self, form: str = "text") -> str:
        """Write the comparison in one of :data:`FORMATS`.

        Raises:
            UsageError: there is no such format.
        """
        if form not in FORMATS:
            raise UsageError(f"unknown format {form!r}", fix=f"give one of {', '.join(FORMATS)}")
        return FORMATS[form](self.found)

    def table_text(self, lay_out: Layout = columns) -> str:
        """Write the comparison as text, its table laid out by ``lay_out``."""
        return compare_output.text(self.found, lay_out)

    def save(self, path: str | os.PathLike[str], form: str = "text") -> None:
        """Write the comparison into a file.

        Raises:
            OutputError: it cannot be written.
            UsageError: there is no such format, or the file's name is that of another one.
        """
        content = self.text(form).encode()
        check_ending(Path(path), form, FORMATS)
        write_bytes(Path(path), content)

    @property
    def notes(self) -> list[str]:
        """Sentences that say why something is inconclusive, which trials do not count, and which conditions differ."""
        return compare_output.notes(self.found)

    @property
    def table(self) -> pd.DataFrame:
        """Table with a row for each metric of each cell. ``ratio`` is NEW over BASE; its 95 % interval is ``low`` to
        ``high``."""
        import pandas as pd

        return pd.DataFrame([_flat(one) for one in compare_output.as_json(self.found)["judged"]])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Comparison {compare_output.summary(self.found)}>"

    def _repr_html_(self) -> str:
        headline = html.paragraph(compare_output.summary(self.found), strong=True)
        return headline + html.table(compare_output.HEADER, compare_output.rows(self.found)) + html.listed(self.notes)


def compare(
    base: Measured,
    new: Measured,
    *,
    threshold: str | Mapping[str, str] | Sequence[str] | None = None,
    metrics: Sequence[str] = (),
    allow: Sequence[str] = (),
    arms: Mapping[str, str] | Sequence[str] | None = None,
    accept_failures: bool = False,
) -> Comparison:
    """Say of each arm, batch and metric whether NEW is better or worse than BASE, or the same.

    Args:
        base, new: runs, their directories, or files of baselines.
        threshold: the change that matters, such as ``"5%"``, ``{"gst": "5%"}`` or ``["gst=5%"]``; 3 % by default.
        metrics: only these of ``gst``, ``jct`` and ``throughput``.
        allow: conditions that may differ, such as ``kernel`` or ``links.rate``.
        arms: label in BASE to label in NEW, or texts ``BASE=NEW``; of one run, which of its arms to compare.
        accept_failures: do not take it for worse that more trials failed than did in BASE.

    Raises:
        IncomparableError: the two were measured under different conditions, or have nothing in common.
        UsageError: there is no such metric, arm or condition.
        OutputError: one of them cannot be read.
    """
    thresholds = wanted(_texts(threshold), metrics)
    sides = _side(base), _side(new)
    found = judge(
        *sides,
        thresholds=thresholds,
        allowed=allow,
        arms=(list(arms.items()) or None) if isinstance(arms, Mapping) else pairs(arms or (), *sides),
        accept_failures=accept_failures,
    )
    return Comparison(found)


def baseline(run: Path, out: Path) -> dict[str, Any]:
    """Make a baseline of a run, a small file that later runs are compared with, and say what it holds.

    Raises:
        IncomparableError: the run has no VALID trial.
        OutputError: it is damaged, or ``out`` cannot be written.
        UsageError: ``out`` is called as a file of another format.
    """
    check_ending(out, "json")
    from testbed.comparison.gate import make_baseline  # here, for it takes half a second

    return make_baseline(run, out)


def _texts(threshold: str | Mapping[str, str] | Sequence[str] | None) -> Sequence[str]:
    """List the thresholds as after ``--threshold``."""
    if threshold is None:
        return ()
    if isinstance(threshold, Mapping):
        return [f"{name}={value}" for name, value in threshold.items()]
    return [threshold] if isinstance(threshold, str) else threshold


def _side(of: Measured) -> Side:
    return read(of.path if isinstance(of, Run) else Path(of))


def _flat(judged: Mapping[str, Any]) -> dict[str, Any]:
    ratio = judged["ratio"] or dict.fromkeys(("value", "low", "high"))
    return {**judged, "ratio": ratio["value"], "low": ratio["low"], "high": ratio["high"]}
