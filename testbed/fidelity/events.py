"""Events that were done to the trial on purpose, against its schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from testbed.base.check import About, Check
from testbed.fidelity.seen import Seen
from testbed.lab.measurements import Interruption

ABOUT = About(
    "events",
    sees="a perturbation that failed, or that began, lasted or ended otherwise than planned, by more than 20 ms",
    misses="whether it had an effect: the timeline and GST show that",
)
LATE_S = 0.02
"""Most by which an injected event is late: they were 0.5 to 2 ms late."""


def checks(seen: Seen) -> Iterator[Check]:
    if on_purpose := [event for event in seen.events if event["kind"] != Interruption.KIND]:
        yield judge(on_purpose)


def judge(done: Sequence[Mapping[str, Any]]) -> Check:
    """Judge injected events against their schedule: each was carried out, when, and for how long the furthest off was
    off.

    An event is due at its planned moment, or, where one had to end before it, then (``free_s``); it is done as long
    after that as it is meant to take (``takes_s``: circuits that move are dark meanwhile). When it began, how long it
    took and when it was done are each held against that.
    """
    failed = [event for event in done if event["error"] or event["done_s"] is None]
    if failed:
        first = failed[0]
        why = first["error"] or "it was not carried out"
        detail = f"{len(failed)} of {len(done)} failed, first {first['kind']} ({first['what']}): {why}"
        return Check(ABOUT.name, None, 1e3 * LATE_S, "ms late", False, detail)
    worst = max(done, key=lambda event: abs(_late_s(event)))
    late_s = _late_s(worst)
    detail = f"of {len(done)} events, {worst['kind']} ({worst['what']}) was furthest off, by {1e3 * late_s:.1f} ms"
    if worst["takes_s"]:
        took_s = worst["done_s"] - worst["begun_s"]
        detail += f": it took {took_s:.3f} s of {worst['takes_s']:g} s"
    return Check(ABOUT.name, 1e3 * late_s, 1e3 * LATE_S, "ms late", abs(late_s) <= LATE_S, detail)


def _late_s(event: Mapping[str, Any]) -> float:
    """Seconds by which an event's begin, its length or its end was off, whichever was most."""
    due_s = event["planned_s"] if event["free_s"] is None else max(event["planned_s"], event["free_s"])
    begin_s = event["begun_s"] - due_s
    longer_s = event["done_s"] - event["begun_s"] - event["takes_s"]
    return float(max((begin_s, longer_s, begin_s + longer_s), key=abs))
