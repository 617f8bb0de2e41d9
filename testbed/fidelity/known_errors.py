"""Known errors of simulated GST: how far it was from emulated GST where both places ran the same trials.

``benchmarks/simulator.py`` makes ``known_errors.json``: by scheme, as a spec writes it, the ``median`` and the
``worst`` error as shares without a sign, the ``networks``, and how many ``trials`` these are from. Jobs that share a
network have rows of their own (:func:`row_name`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("known_errors.json")


@cache
def known_errors() -> dict[str, dict[str, Any]]:
    """Return the rows, by :func:`row_name`."""
    rows: dict[str, dict[str, Any]] = json.loads(PATH.read_text())
    return rows


def row_name(scheme: str, beside: Sequence[str] = ()) -> str:
    """Return the name of a scheme's row; ``beside`` are the schemes of other jobs in the trial."""
    return f"{scheme} beside {', '.join(sorted(beside))}" if beside else scheme
