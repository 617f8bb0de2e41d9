"""What links could carry while events changed them, and the least time of bytes on them."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.control.conductor import Record, timeline
from testbed.lab.base import LinkChange
from testbed.perturb.capacity import capacity
from testbed.topologies.build import build

STAR = build("star(hosts=3)", rate_bps=8_000)  # a byte a millisecond
LINKS = 2 * len(STAR.links)


def event(begun_s: float, done_s: float | None, error: str | None = None, **change: Any) -> Record:
    """What the conductor notes of a change of directed link 2 (and of others, which must not matter)."""
    links = (LinkChange(2, **change), LinkChange(5, **change))
    return Record("rate", "", begun_s, begun_s, done_s, error, links=links)


def bytes_on(**counts: float) -> np.ndarray:
    found = np.zeros(LINKS)
    for name, count in counts.items():
        found[int(name.removeprefix("l"))] = count
    return found


def test_links_that_nothing_happened_to_have_the_rates_that_they_were_built_with() -> None:
    rates = capacity(STAR, timeline([event(1, 2, queue_bytes=10_000)], 0))
    assert rates.changed == {}
    assert rates.least_s(bytes_on(l0=1000, l3=3000), 7.0) == 3
    assert rates.least_s(bytes_on(l0=1000), 7.0, goodput=0.5) == 2
    assert rates.least_s(bytes_on(), 7.0) == 0
    assert rates.least_s(bytes_on(l1=500), np.array([1.0, 2.0])).tolist() == [0.5, 0.5]


def test_half_the_rate_for_a_while_and_then_the_whole() -> None:
    rates = capacity(STAR, timeline([event(10.0, 10.5, rate_bps=4_000), event(20.0, 20.5, rate_bps=8_000)], 0))
    assert list(rates.changed) == [2, 5]
    assert rates.changed[2].at_s.tolist() == [10, 10.5, 20, 20.5]
    # The larger of both while it is being changed.
    assert rates.changed[2].values.tolist() == [8_000, 8_000, 4_000, 8_000, 8_000]
    load = bytes_on(l2=3000)
    assert rates.least_s(load, 1.0) == 3
    assert rates.least_s(load, 9.5) == 1 + 4
    assert rates.least_s(load, 11.0) == 6
    assert rates.least_s(load, 18.0) == 2 + 2
    assert rates.least_s(load, np.array([1.0, 9.5, 11.0, 18.0, 30.0])).tolist() == [3, 5, 6, 4, 3]
    assert rates.least_s(load + bytes_on(l4=4500), np.array([1.0, 11.0])).tolist() == [4.5, 6]  # the slowest link


def test_a_blocked_link_carries_nothing_until_it_is_opened() -> None:
    closed, open_again = event(10.0, 10.0, blocked=True), event(20.0, 20.0, blocked=False)
    slower = event(12.0, 12.0, rate_bps=2_000)
    load = bytes_on(l2=3000)
    assert capacity(STAR, timeline([closed, open_again], 0)).least_s(load, 9.0) == 1 + 10 + 2
    assert capacity(STAR, timeline([closed, slower, open_again], 0)).least_s(load, 9.0) == 1 + 10 + 8
    assert capacity(STAR, timeline([closed], 0)).least_s(load, 9.0) == inf
    assert capacity(STAR, timeline([closed], 0)).least_s(load, 7.0) == 3
    assert capacity(STAR, timeline([closed], 0)).least_s(bytes_on(l3=1000), 9.0) == 1


@pytest.mark.parametrize(
    "unsure", [event(10.0, 10.1, "the kernel refused", rate_bps=4_000), event(10, None, rate_bps=4_000)]
)
def test_after_an_event_that_failed_or_never_ended_the_faster_rate_is_possible(unsure: Record) -> None:
    assert capacity(STAR, timeline([unsure], 0)).least_s(bytes_on(l2=3000), 11.0) == 3
    then = event(20.0, 20.0, rate_bps=2_000)
    assert capacity(STAR, timeline([unsure, then], 0)).least_s(bytes_on(l2=3000), 21.0) == 12
    slow = event(5.0, 5.0, rate_bps=1_000)
    assert capacity(STAR, timeline([slow, unsure], 0)).least_s(bytes_on(l2=3000), 11.0) == 6


def test_old_records_and_what_never_began_change_nothing() -> None:
    old = {"kind": "rate", "what": "", "planned_s": 1.0, "begun_s": 1.0, "done_s": 1.0, "error": None}
    never = Record("rate", "", links=(LinkChange(2, rate_bps=1),))
    assert capacity(STAR, [old, *timeline([never], 0)]).changed == {}


CHANGES = st.fixed_dictionaries(
    {"waits": st.integers(0, 5), "lasts": st.integers(0, 3), "failed": st.booleans()},
    optional={"rate_bps": st.integers(1, 10).map(lambda n: 800 * n), "blocked": st.booleans()},
)


@pytest.mark.hypothesis
@given(st.lists(CHANGES, max_size=6), st.integers(0, 20), st.integers(1, 20))
def test_the_least_time_is_what_counting_tick_by_tick_finds(
    drawn: list[dict[str, Any]], from_s: int, load: int
) -> None:
    events, now = [], 0
    for one in drawn:
        begun_s = now + one["waits"]
        now = begun_s + one["lasts"]
        change = {name: one[name] for name in ("rate_bps", "blocked") if name in one}
        events.append(event(begun_s, now, "refused" if one["failed"] else None, **change))
    found = capacity(STAR, timeline(events, 0)).least_s(bytes_on(l2=100.0 * load), np.array([from_s, from_s + 0.5]))
    assert found.tolist() == pytest.approx([counted_s(events, at_s, 800 * load) for at_s in (from_s, from_s + 0.5)])


def counted_s(events: list[Record], from_s: float, bits: float) -> float:
    """Seconds until the link has carried ``bits``, by going through time in steps in which its rate is constant."""
    tick, at_s = 0.5, from_s
    while at_s < 200:
        rate_bps = best(events, at_s, "rate_bps", 8_000) * best(events, at_s, "blocked", True)
        if rate_bps * tick >= bits:
            return at_s + bits / rate_bps - from_s
        bits -= rate_bps * tick
        at_s += tick
    return inf


def best(events: list[Record], at_s: float, name: str, first: float) -> float:
    """The largest value that can hold, of those that were set; an open link counts as 1."""
    possible = [first]
    for one in events:
        value = getattr(one.links[0], name)
        if value is None or one.begun_s > at_s:
            continue
        value = not value if name == "blocked" else value
        sure = one.error is None and one.done_s <= at_s
        possible = [value] if sure else [*possible, value]
    return max(possible)
