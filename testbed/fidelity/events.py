"""What was done to the trial on purpose, against its schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.fidelity.check import About, Check
from testbed.fidelity.seen import Seen

ABOUT = About(
    "events",
    sees="a perturbation that came late or failed",
    misses="whether it had its effect: the timeline and GST tell",
)
LATE_S = 0.02
"""Most by which an injected event is late: they were 0.5 to 2 ms late."""


def checks(seen: Seen) -> Iterator[Check]:
    if seen.events:
        yield judge(seen.events)


def judge(done: Sequence[Mapping[str, Any]]) -> Check:
    """Injected events against their schedule: each was carried out, and how late the latest was."""
    failed = [event for event in done if event["error"] or event["done_s"] is None]
    if failed:
        first = failed[0]
        why = first["error"] or "it was not carried out"
        detail = f"{len(failed)} of {len(done)} failed, first {first['kind']} ({first['what']}): {why}"
        return Check(ABOUT.name, None, 1e3 * LATE_S, "ms late", False, detail)
    latest = max(done, key=lambda event: abs(event["done_s"] - event["planned_s"]))
    late_s = latest["done_s"] - latest["planned_s"]
    detail = f"of {len(done)} events, {latest['kind']} ({latest['what']}) was furthest off, by {1e3 * late_s:.1f} ms"
    return Check(ABOUT.name, 1e3 * late_s, 1e3 * LATE_S, "ms late", abs(late_s) <= LATE_S, detail)
