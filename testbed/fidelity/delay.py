"""Round trips on the idle lab against the delays of their ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.base.check import About, Check
from testbed.evidence.calibration import off
from testbed.fidelity.seen import Seen

ABOUT = About(
    "delay",
    sees="round trips on the idle lab that differ from the sum of the delays there and back",
    misses="delay that grows under load; which link of a path is wrong",
)


def checks(seen: Seen) -> Iterator[Check]:
    yield judge(seen.round_trips)


def judge(trips: Sequence[Mapping[str, Any]]) -> Check:
    """Judge the round trip whose median is furthest from the delays of its way there and back, over what is allowed.

    Each has ``least_s`` and ``most_s``, the delays of its fastest and slowest path, and its median, ``None`` where most
    packets were lost.
    """
    lost = [trip for trip in trips if trip["median_s"] is None]
    if lost or not trips:
        where = f"most packets from {lost[0]['from']} to {lost[0]['to']} and back were lost" if lost else "not watched"
        return Check(ABOUT.name, None, 1.0, "of allowed", False, where)
    worst = max(trips, key=off)
    detail = (
        f"from {worst['from']} to {worst['to']} and back takes {1e3 * worst['median_s']:.2f} ms, "
        f"delays are {1e3 * worst['most_s']:g} ms"
    )
    return Check(ABOUT.name, off(worst), 1.0, "of allowed", off(worst) <= 1, detail)
