"""Rates of links while a trial runs, less what other traffic takes of them.

They are in a file: the harness adds a line for each change, and a scheduler follows them.

A line is JSON: ``{"time": when it was seen (time.monotonic), "rates_bps": {directed link: bit/s}}``, of links whose
rate is another than in the line before.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.workloads.process.told import Lines

NAME = "link_rates.jsonl"
EVERY_S = 0.1
"""Seconds between two looks at other traffic."""
NOTICED = 0.05
"""Share of a link below which neither other traffic nor a change of it is told: each change has the scheduler plan
anew."""
LEFT = 0.1
"""Share of a link that other traffic leaves at least. TCP gives each flow a share, and a scheduler that is told of none
sends nothing any more."""


def left(
    shaped_bps: Mapping[int, float], taken_bps: Mapping[int, float], told_bps: Mapping[int, float]
) -> dict[int, float]:
    """Return the rate that other traffic leaves of each directed link; ``told_bps``, what was told before, where that
    is about the same."""
    rates_bps = {}
    for link, rate_bps in shaped_bps.items():
        taken = taken_bps.get(link, 0.0)
        now = rate_bps if taken < NOTICED * rate_bps else max(LEFT * rate_bps, rate_bps - taken)
        is_same = 0 < now < rate_bps and abs(now - told_bps[link]) < NOTICED * rate_bps
        rates_bps[link] = told_bps[link] if is_same else now
    return rates_bps


def told(seen_s: float, rates_bps: Mapping[int, float]) -> dict[str, Any]:
    """Make a line, before it is JSON."""
    return {"time": seen_s, "rates_bps": {str(link): rate_bps for link, rate_bps in sorted(rates_bps.items())}}


class Follower:
    """Reader of the lines that were added since its last look."""

    def __init__(self, path: Path, links: int) -> None:
        """Set up; ``links`` is how many directed links there are."""
        self._lines, self._links = Lines(path), links

    def new(self) -> list[tuple[float, dict[int, float]]]:
        """Read (when it was seen, bit/s by directed link) of each new line; nothing while there is no file.

        Raises:
            ValueError: a line says something else.
        """
        return [self._told(json.loads(line)) for line in self._lines.new()]

    def _told(self, said: Any) -> tuple[float, dict[int, float]]:
        rates_bps = {int(link): float(rate_bps) for link, rate_bps in said["rates_bps"].items()}
        seen_s = float(said["time"])
        if not all(0 <= link < self._links for link in rates_bps):
            raise ValueError(f"there are {self._links} directed links, and told is of {max(rates_bps)}")
        if not all(0 <= rate_bps < math.inf for rate_bps in (*rates_bps.values(), seen_s)):
            raise ValueError(f"a rate or a moment is no number of {said}")
        return seen_s, rates_bps
