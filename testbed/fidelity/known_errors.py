"""Errors of simulated GST that are known, because both places ran the same trials: ``known_errors.json``, which
``benchmarks/simulator.py`` writes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

KNOWN = Path(__file__).parent / "known_errors.json"


def worst(scheme: str, network: str) -> float | None:
    """Return the largest error (a share) that a scheme had on networks of this family; None where none is known."""
    return _known().get((_family(scheme), _family(network)))


@cache
def _known() -> dict[tuple[str, str], float]:
    known: dict[tuple[str, str], float] = {}
    for row in json.loads(KNOWN.read_text())["trials"]:
        key = _family(row["scheme"]), _family(row["network"])
        known[key] = max(known.get(key, 0.0), abs(row["simulated_s"] / row["emulated_s"] - 1))
    return known


def _family(text: str) -> str:
    return text.partition("(")[0]
