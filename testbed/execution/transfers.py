"""The transfers of a trial whose kind plans each of them, as its file has them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from testbed.workloads.kinds.transfers import Carried

WHOLE = ("from", "to", "purpose", "members", "shard")
MOMENTS = ("start_s", "end_s", "arrived_s")
NAMES = {"source": "from", "target": "to"}


def table(told: Sequence[Carried] | None, start_s: float) -> pd.DataFrame | None:
    """Return a row for each transfer, in the order in which they were to begin, with times relative to ``start_s``;
    None for a kind that plans none."""
    if told is None:
        return None
    found = pd.DataFrame(list(told), columns=list(Carried._fields)).rename(columns=NAMES)
    found = found.astype({name: int if name in WHOLE else float for name in found})  # also where nobody told, or no row
    found = found.assign(**{name: found[name] - start_s for name in MOMENTS})
    return found.sort_values(["start_s", "from", "to"], ignore_index=True)
