"""Rates of links while a trial runs, in a file: the harness adds a line for each change, and a scheduler follows them.

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
