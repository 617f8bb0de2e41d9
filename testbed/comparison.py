"""The table that a run ends with: one row a trial, each beside the first arm with the same batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.units import time_text

HEADER = ("arm", "batch", "GST", "theory", "ratio", "JCT", "samples/s", "speed-up", "accuracy", "verdict")
MISSING = "-"
LEFT_OUT = ("theory", "accuracy", "samples/s", "speed-up", "JCT", "ratio")
"""What a narrow terminal goes without, the least needed first; never the verdict."""
NARROWEST_NAME = 12
"""The arm's name wraps, down to this width."""


def fitting(table: Sequence[Sequence[str]], width: int) -> list[int]:
    """Which columns of :func:`rows` to show in ``width`` characters, with a space between two."""
    shown = list(range(len(HEADER)))
    widths = [max(map(len, column)) for column in zip(HEADER, *table, strict=True)]
    widths[0] = min(widths[0], NARROWEST_NAME)
    for name in LEFT_OUT:
        if sum(widths[i] + 1 for i in shown) <= width:
            break
        shown.remove(HEADER.index(name))
    return shown


def rows(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Cells as text; a trial that failed has none but its name.

    Speed-up is the JCT of the first arm over the trial's; where the first arm failed there is none.
    """
    first: dict[int, Mapping[str, Any]] = {}
    for record in records:
        first.setdefault(record["batch"], record)
    return [_row(record, first[record["batch"]]) for record in records]


def _row(record: Mapping[str, Any], first: Mapping[str, Any]) -> list[str]:
    name = [str(record["label"]), str(record["batch"] or MISSING)]
    if record["status"] == "failed":
        return [*name, *[MISSING] * (len(HEADER) - 3), "FAILED"]
    found = record["metrics"]
    jct = time_text(found["jct_s"], measured=True)
    speed_up = f"{first['metrics']['jct_s'] / found['jct_s']:.2f}x" if first["status"] == "done" else MISSING
    if record.get("kind") == "command":  # which says nothing of its iterations
        return [*name, *[MISSING] * 3, jct, MISSING, speed_up, MISSING, record["fidelity"]["verdict"]]
    return [
        *name,
        time_text(found["gst_median_s"], measured=True),
        time_text(found["gst_theory_s"], measured=True),
        f"{found['gst_ratio']:.3f}",
        jct,
        f"{found['throughput_sps']:.0f}",
        speed_up,
        f"{record['accuracy']['test_accuracy']:.1%}" if record["accuracy"] else MISSING,
        record["fidelity"]["verdict"],
    ]
