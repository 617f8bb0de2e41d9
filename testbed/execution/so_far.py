"""Numbers of a trial while it runs, for a person who watches it; its record is made of all that it left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from testbed.control.feed import Feed
from testbed.evidence.spot_checks import Readings
from testbed.files.following import Lines
from testbed.files.shape import is_number

MOST_WORKERS = 64
"""Workers at most whose samples are read: to read what they write in a second takes 50 ms of a core."""


@dataclass
class _Round:
    """An iteration of which some workers have written: how many, and the last of their moments (s)."""

    workers: int = 0
    ready_s: float = float("-inf")
    sum_s: float = float("-inf")


class SoFar:
    """Numbers of a running trial, none of which is read before it is asked for, as reading takes time of the cores that
    the trial uses."""

    def __init__(self, feed: Feed, readings: Readings, workers: Mapping[str, Path], skip: int) -> None:
        """Read nothing yet. ``workers`` are the files of the processes that synchronise together, if they do; the first
        ``skip`` iterations do not count. ``readings`` is what was read back of the links, as it grows."""
        self._feed, self._readings, self._skip = feed, readings, skip
        # Files of its own: to wait for the feed while it reads many would make events late.
        self._files = {name: Lines(path) for name, path in workers.items()} if len(workers) <= MOST_WORKERS else {}
        self._open: dict[int, _Round] = {}
        self._gst_s: list[float] = []

    def gst_s(self) -> float | None:
        """Return the median GST (s) of the iterations that all workers have written by now; None when one of them has
        ended, and with more than :data:`MOST_WORKERS` of them."""
        if not self._files.keys() <= set(self._feed.running):
            return None
        for said in (said for lines in self._files.values() for said in lines.said()):
            i, ready_s, sum_s = said.get("i"), said.get("ready"), said.get("sum")
            if said["kind"] != "iteration":
                continue
            if isinstance(i, int) and i >= self._skip and is_number(ready_s) and is_number(sum_s):
                self._take(i, ready_s, sum_s)
        return median(self._gst_s) if self._gst_s else None

    def _take(self, i: int, ready_s: float, sum_s: float) -> None:
        one = self._open.setdefault(i, _Round())
        one.workers, one.ready_s, one.sum_s = one.workers + 1, max(one.ready_s, ready_s), max(one.sum_s, sum_s)
        if one.workers == len(self._files):
            self._gst_s.append(one.sum_s - one.ready_s)
            del self._open[i]

    def links(self) -> str:
        """Say whether the links were as asked for whenever they were read; empty if they were not yet."""
        if not self._readings.made:
            return ""
        return "links not as asked" if self._readings.seen_s else "links as asked so far"


Tick = Callable[[int, SoFar], object]
"""Function that is told how many iterations the first worker has done, and may ask what else is known by now."""
