"""Table that shows a claim's theory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of text under a header, the first ``left`` columns to the left, and what is to be said about them.

    ``notes`` name where our numbers and the paper's differ, and why.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 1
