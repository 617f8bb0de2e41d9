"""Queues at the egresses of a trial's links while it trained, as its files have them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from testbed.lab.measurements import Queues, Waited

WHOLE = ("link", "most_bytes", "drops", "marks")


def table(seen: Queues | None, start_s: float, end_s: float) -> pd.DataFrame | None:
    """Return a row for each window and directed link where something waited, or was dropped or marked, by time and
    link; None where the lab cannot tell.

    Times are relative to ``start_s``. Windows that begin before it are left out, since bursts that measure links are in
    them, and so are those from ``end_s`` on.
    """
    if seen is None:
        return None
    found = pd.DataFrame(list(seen.windows), columns=list(Waited._fields)).rename(columns={"directed_link": "link"})
    found = found.astype({name: int if name in WHOLE else float for name in found})  # also where there is no row
    found = found[(found["start_s"] >= start_s) & (found["start_s"] < end_s)].reset_index(drop=True)
    lasts_s = found["window_s"].clip(upper=end_s - found["start_s"])
    return found.assign(start_s=found["start_s"] - start_s, window_s=lasts_s)


def record(seen: Queues | None) -> dict[str, Any] | None:
    """Return what the trial's JSON says of the readings; None where the lab cannot read queues."""
    if seen is None:
        return None
    return {"readings": seen.readings, "cost_s": seen.cost_s, "problem": seen.problem}
