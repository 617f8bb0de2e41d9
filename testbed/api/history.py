"""A metric over many runs and baselines, in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.analysis.history.series import Series, as_json, collect, series, text, without
from testbed.base.endings import check_ending
from testbed.base.printable import printable
from testbed.comparison.options import known_metric


@dataclass(frozen=True)
class History:
    """Series for each cell, and why files were left out."""

    found: Sequence[Series]
    unread: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        return as_json(self.found, self.unread)

    def page(self, out: Path) -> None:
        """Draw the series on a page.

        Raises:
            OutputError: the page cannot be written.
            UsageError: the file's name is that of another format.
        """
        check_ending(out, "html")
        from testbed.analysis.history import page  # here, for it loads plotly

        page.write(self.found, self.unread, out)

    def __str__(self) -> str:
        return printable(text(self.found, self.unread))


def history(folder: Path, metric: str = "gst") -> History:
    """History of the runs and baselines in a folder, at any depth.

    Raises:
        UsageError: there is no such metric.
        OutputError: there is no such folder.
    """
    known_metric("--metric", metric)
    sides, unread = collect(folder)
    return History(series(sides, metric), [*unread, *without(sides, metric)])
