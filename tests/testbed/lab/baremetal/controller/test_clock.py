"""Where another machine's clock stands: pure arithmetic."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.lab.baremetal.controller.connection import REMEMBERED_S, Clock

delays = st.floats(0, 0.1)


@given(offset_s=st.floats(-1e6, 1e6), there_s=delays, back_s=delays, asked_s=st.floats(0, 1e6))
def test_the_offset_is_within_what_is_said_of_it(
    offset_s: float, there_s: float, back_s: float, asked_s: float
) -> None:
    clock = Clock()
    clock.add(asked_s, asked_s + there_s - offset_s, asked_s + there_s + back_s)
    best = clock.best()
    assert abs(best.offset_s - offset_s) <= best.uncertainty_s + 1e-6
    assert best.uncertainty_s == pytest.approx((there_s + back_s) / 2, abs=1e-6)


def test_the_quickest_exchange_counts() -> None:
    clock = Clock()
    clock.add(10.0, 4.0, 10.5)
    clock.add(11.0, 5.001, 11.002)
    clock.add(12.0, 5.9, 12.3)
    assert clock.local_s(5.001) == pytest.approx(11.001)
    assert clock.best().uncertainty_s == pytest.approx(0.001)


def test_exchanges_of_long_ago_do_not_count_for_clocks_drift() -> None:
    clock = Clock()
    clock.add(10.0, 5.0, 10.0)
    later_s = 10.0 + REMEMBERED_S + 1
    clock.add(later_s, later_s - 6.0, later_s + 0.01)
    assert clock.best().offset_s == pytest.approx(6.005)


def test_a_recent_exchange_is_preferred_to_one_that_was_a_little_quicker() -> None:
    clock = Clock()
    clock.add(10.0, 5.0, 10.0002)
    clock.add(35.0, 29.9, 35.0004)
    assert clock.best().at_s == 35.0004


def test_exchanges_come_while_another_thread_asks() -> None:
    clock = Clock()
    clock.add(0.0, 0.0, 0.0)

    def exchange() -> None:
        for i in range(5000):
            clock.add(0.05 * i, 0.05 * i, 0.05 * i + 0.001)

    with ThreadPoolExecutor(1) as other:
        exchanging = other.submit(exchange)
        while not exchanging.done():
            clock.best()
        exchanging.result()


def test_before_the_first_exchange_nothing_is_known() -> None:
    with pytest.raises(ValueError, match="empty"):
        Clock().best()
