"""Quantities with units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base import units
from testbed.base.errors import SpecError


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.rate_bps, "200 Mbit/s", 200_000_000),
        (units.rate_bps, "1Gbit/s", 1_000_000_000),
        (units.rate_bps, "0.5 kbit/s", 500),
        (units.time_s, "0.3 s", 0.3),
        (units.time_s, "10 ms", 0.01),
        (units.time_s, "0 ms", 0.0),
        (units.time_s, "2 min", 120.0),
        (units.size_bytes, "256 KiB", 262_144),
        (units.size_bytes, "1e3 B", 1000),
        (units.flop_per_s, "10 TFLOP/s", 10e12),
    ],
)
def test_a_number_with_its_unit_is_read(read, text, value) -> None:
    assert read(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("read", "value", "problem"),
    [
        (units.rate_bps, 200, "200 has no unit"),
        (units.rate_bps, "200", "'200' has no unit"),
        (units.rate_bps, "200 mbps", "'200 mbps': 'mbps' is not a unit of rate"),
        (units.rate_bps, "fast", "'fast' is not a rate"),
        (units.rate_bps, True, "true (as yes and on are in YAML) is not a rate"),
        (units.rate_bps, "-1 Mbit/s", "'-1 Mbit/s' is not above 0"),
        (units.rate_bps, "1e999 Mbit/s", "'1e999 Mbit/s' is not a finite number"),
        (units.time_s, "-1 s", "'-1 s' is below 0"),
        (units.time_s, None, "an empty value is not a time"),
        (units.size_bytes, "0 B", "'0 B' is not above 0"),
    ],
)
def test_anything_else_is_refused_with_an_example(read, value, problem) -> None:
    with pytest.raises(SpecError) as error:
        read(value)
    assert error.value.problem == problem
    assert "such as" in (error.value.fix or "")


@given(st.integers(1, 34_000), st.sampled_from(["bit/s", "kbit/s", "Mbit/s"]))
def test_what_is_written_is_read_again(number: int, unit: str) -> None:
    rate = units.rate_bps(f"{number} {unit}")
    assert units.rate_bps(units.rate_text(rate)) == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0, "0 s"), (0.00005, "50 us"), (0.0123, "12.3 ms"), (0.1861, "0.186 s")),
        *((125, "2 min 5 s"), (3599, "59 min 59 s"), (3600, "1 h 0 min"), (67_147, "18 h 39 min")),
    ],
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert units.time_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (0.73, "0.730 s"), (24, "24.0 s"), (0.09999, "100 ms"), (0.012, "12.0 ms")]
)
def test_measured_times_keep_their_zeros(seconds: float, text: str) -> None:
    assert units.time_text(seconds, measured=True) == text
