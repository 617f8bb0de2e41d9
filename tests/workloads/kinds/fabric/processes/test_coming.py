"""When floats are thought to be here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.kinds.fabric.processes.coming import Coming
from testbed.workloads.kinds.fabric.processes.messages import NEAR_S


def told(coming: Coming, reads: list[tuple[int, float]]) -> list[float]:
    """The moments that were told, as bytes are left at a time."""
    found = [(now_s, coming.ends_in_s(left, now_s)) for left, now_s in reads]
    return [now_s + left_s for now_s, left_s in found if left_s is not None]


@given(st.integers(10, 10**6), st.floats(0.03, 10.0), st.integers(20, 200))
def test_the_end_of_what_comes_at_one_rate_is_told_once_and_exactly(nbytes: int, takes_s: float, reads: int) -> None:
    """With few reads it is told late, or never."""
    at = [(round(nbytes * (1 - part / reads)), takes_s * part / reads) for part in range(1, reads)]
    for end_s in (found := told(Coming(nbytes, 0.0), at)):
        assert end_s == pytest.approx(takes_s, abs=3 * takes_s / reads + takes_s / nbytes * 10)
    assert len(found) == (1 if takes_s / reads < NEAR_S / 2 else len(found)) <= 1


def test_what_comes_first_faster_than_the_rest_does_not_count() -> None:
    """A burst of 60 of 500 bytes, then 6 a millisecond."""
    reads = [(440 - 6 * ms, 0.001 * ms) for ms in range(73)]
    (end_s,) = told(Coming(500, 0.0), reads)
    assert end_s == pytest.approx(440 / 6000, abs=0.001)


def test_of_a_short_transfer_its_first_half_tells() -> None:
    assert told(Coming(100, 1.0), [(80, 1.002), (50, 1.005), (10, 1.009)]) == [pytest.approx(1.01)]
