"""Windows of time with what waits at egresses, summed up so that a long trial leaves no more than a short one.

A window is a number of readings. When there are too many windows, or too many rows in them, each two become one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from testbed.lab.measurements import Waited

MOST_WINDOWS = 2000
"""The most windows of a trial: more than a screen has pixels across."""
MOST_ROWS = 2**17
"""The most rows of a trial, one for each window and link at which something waited: a file of 1 to 2 MB."""

Found = tuple[int, int, bool, int, int]
"""Reading of one egress: the directed link, bytes that wait, whether the queue is full, and drops and marks since the
last reading."""
_Row = tuple[int, int, int, int, int]
"""Sums of one link in one window: the most bytes, their sum over the readings, readings with a full queue, drops,
marks."""


class Windows:
    """Windows of readings of all links, in their order. A link that a reading does not find has an empty queue without
    drops."""

    def __init__(self, most_windows: int = MOST_WINDOWS, most_rows: int = MOST_ROWS) -> None:
        """Prepare windows. ``most_windows`` is an even number."""
        self._most_windows, self._most_rows = most_windows, most_rows
        self._size = 1  # readings in a window
        self._starts_s: list[float] = []
        self._rows: list[dict[int, _Row]] = []
        self._row_count = 0
        self.readings = 0

    def add(self, at_s: float, found: Iterable[Found]) -> None:
        """Add a reading, later than all before it."""
        if self.readings % self._size == 0:
            if len(self._rows) == self._most_windows:
                self._halve()
            self._starts_s.append(at_s)
            self._rows.append({})
        self.readings += 1
        rows = self._rows[-1]
        before = len(rows)
        for link, waiting, is_full, drops, marks in found:
            one = waiting, waiting, int(is_full), drops, marks
            rows[link] = _together(rows[link], one) if link in rows else one
        self._row_count += len(rows) - before
        if self._row_count > self._most_rows and len(self._rows) > 1 and self.readings % (2 * self._size) == 0:
            self._halve()

    def all(self, end_s: float) -> list[Waited]:
        """Make all rows, by time and link; the last window ends at ``end_s``."""
        ends = [*self._starts_s[1:], end_s]
        found = []
        for i, (start_s, window_end_s, rows) in enumerate(zip(self._starts_s, ends, self._rows, strict=True)):
            count = min(self._size, self.readings - i * self._size)
            found += [
                Waited(link, start_s, window_end_s - start_s, most, total / count, full / count, drops, marks)
                for link, (most, total, full, drops, marks) in sorted(rows.items())
            ]
        return found

    def _halve(self) -> None:
        """Halve the number of windows: make one of each two; all are whole, and their number is even."""
        self._starts_s = self._starts_s[::2]
        self._rows = [_merged(*two) for two in list(pairwise(self._rows))[::2]]
        self._size *= 2
        self._row_count = sum(map(len, self._rows))


def _merged(first: dict[int, _Row], second: dict[int, _Row]) -> dict[int, _Row]:
    both = first.keys() & second.keys()
    return first | second | {link: _together(first[link], second[link]) for link in both}


def _together(one: _Row, other: _Row) -> _Row:
    return max(one[0], other[0]), one[1] + other[1], one[2] + other[2], one[3] + other[3], one[4] + other[4]
