"""What is known of a trial while it runs, for a person who watches it; its record is made of all that it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from testbed.evidence.spot_checks import Readings
from testbed.files.following import Feed
from testbed.files.shape import is_number


@dataclass
class _Round:
    """An iteration of which some workers have written: how many, and the last of their moments (s)."""

    workers: int = 0
    ready_s: float = float("-inf")
    sum_s: float = float("-inf")


class SoFar:
    """Nothing is read before it is asked for, as reading takes time of the cores that the trial uses.

    Attributes:
        readings: what was read back of the links; None before any process runs.
    """

    def __init__(self, samples: Mapping[str, Path], skip: int) -> None:
        """``samples`` are the files of workers that synchronise together, if they do; the first ``skip`` iterations do
        not count."""
        self.readings: Readings | None = None
        self._feed, self._workers, self._skip = Feed(samples), len(samples), skip
        self._open: dict[int, _Round] = {}
        self._gst_s: list[float] = []

    def gst_s(self) -> float | None:
        """The median GST of the iterations that all workers have written by now."""
        for line in self._feed.said(b'"iteration"'):
            i, ready_s, sum_s = line.get("i"), line.get("ready"), line.get("sum")
            if isinstance(i, int) and i >= self._skip and is_number(ready_s) and is_number(sum_s):
                self._take(i, ready_s, sum_s)
        return median(self._gst_s) if self._gst_s else None

    def _take(self, i: int, ready_s: float, sum_s: float) -> None:
        one = self._open.setdefault(i, _Round())
        one.workers, one.ready_s, one.sum_s = one.workers + 1, max(one.ready_s, ready_s), max(one.sum_s, sum_s)
        if one.workers == self._workers:
            self._gst_s.append(one.sum_s - one.ready_s)
            del self._open[i]

    def links(self) -> str:
        """Whether the links were as asked for whenever they were read; empty if they were not yet."""
        if self.readings is None or not self.readings.made:
            return ""
        return "links not as asked" if self.readings.seen_s else "links as asked so far"
