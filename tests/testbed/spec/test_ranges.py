"""Ranges as people write them, and what is no range."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.base.units import rate_bps, share
from testbed.spec.ranges import MOST_VALUES, is_range, values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2..5", [2, 3, 4, 5]),
        ("2..2", [2]),
        ("2..16 step 5", [2, 7, 12]),
        (" 2 .. 6  step  2 ", [2, 4, 6]),
        ("1..64 x2", [1, 2, 4, 8, 16, 32, 64]),
        ("1..100x10", [1, 10, 100]),
        ("3..20 x 2", [3, 6, 12]),
        ("-2..1", [-2, -1, 0, 1]),
        ("0.1..0.3 step 0.1", [0.1, 0.2, 0.3]),
        ("0.5..4 x2", [0.5, 1.0, 2.0, 4.0]),
        ("1e-3..1e-1 x10", [0.001, 0.01, 0.1]),
        ("50..200 step 50 Mbit/s", ["50 Mbit/s", "100 Mbit/s", "150 Mbit/s", "200 Mbit/s"]),
        ("50..200 step 50Mbit/s", ["50 Mbit/s", "100 Mbit/s", "150 Mbit/s", "200 Mbit/s"]),
        ("32..128 x2 KiB", ["32 KiB", "64 KiB", "128 KiB"]),
        ("0.5..1.5 step 0.5 s", ["0.5 s", "1 s", "1.5 s"]),
        ("1..3 %", ["1 %", "2 %", "3 %"]),
        ("1..3%", ["1 %", "2 %", "3 %"]),
    ],
)
def test_what_a_range_stands_for(text: str, expected: list[object]) -> None:
    assert is_range(text)
    found = values(text)
    assert found == expected
    assert [type(one) for one in found] == [type(one) for one in expected]


@given(
    st.integers(-1000, 1000), st.integers(0, 500), st.integers(1, 50), st.sampled_from([Fraction(1), Fraction(1, 100)])
)
def test_steps_meet_both_ends_if_they_can_and_never_go_beyond(
    first: int, count: int, step: int, unit: Fraction
) -> None:
    def written(number: int) -> str:
        return f"{Decimal(number) * Decimal(unit.numerator) / Decimal(unit.denominator):f}"

    last = first + count * step
    found = values(f"{written(first)}..{written(last)} step {written(step)}")
    assert len(found) == count + 1
    assert [Fraction(str(one)) for one in found] == [(first + i * step) * unit for i in range(count + 1)]
    if step > 1:
        assert values(f"{written(first)}..{written(last + step - 1)} step {written(step)}") == found


@given(st.integers(1, 100), st.integers(2, 10), st.integers(0, 12))
def test_factors(first: int, factor: int, count: int) -> None:
    last = first * factor**count
    assert values(f"{first}..{last} x{factor}") == [first * factor**i for i in range(count + 1)]
    assert values(f"{first}..{last * factor - 1} x{factor} B") == [f"{first * factor**i} B" for i in range(count + 1)]


@given(st.integers(1, 300), st.integers(0, 20))
def test_values_with_units_are_right_quantities(first: int, count: int) -> None:
    rates = values(f"{first}..{first + count} Mbit/s")
    assert [rate_bps(one) for one in rates] == [(first + i) * 10**6 for i in range(count + 1)]
    assert share(values("1..3 %")[2]) == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("16..2", "the range '16..2' begins above its end"),
        ("1..2 step 0", "a step of 0 in '1..2 step 0' never gets there"),
        ("1..2 step -1", "a step of -1 in '1..2 step -1' never gets there"),
        ("1..8 x1", "'1..8 x1' never gets there by multiplying"),
        ("0..8 x2", "'0..8 x2' never gets there by multiplying"),
        ("1..8 x0.5", "'1..8 x0.5' never gets there by multiplying"),
        ("0.5..2", "the range '0.5..2' has no step"),
        ("1..1e18", "'1..1e18' has more than 1,000 values"),
        ("1..2 x1.0000001", "'1..2 x1.0000001' has more than 1,000 values"),
        ("1..1e30 x2", "'1..1e30 x2' has a number that no setting can have"),
        ("50 Mbit/s..200 Mbit/s", "cannot read the range '50 Mbit/s..200 Mbit/s'"),
        ("1..2 step", "cannot read the range '1..2 step'"),
        ("1..3 x", "cannot read the range '1..3 x'"),
        ("1..2 step 1 step 1", "cannot read the range '1..2 step 1 step 1'"),
        ("1...5", "cannot read the range '1...5'"),
    ],
)
def test_what_cannot_be_meant(text: str, problem: str) -> None:
    assert is_range(text)
    with pytest.raises(SpecError) as error:
        values(text)
    assert error.value.problem == problem
    assert error.value.fix


def test_a_range_has_an_end() -> None:
    assert len(values(f"1..{MOST_VALUES}")) == MOST_VALUES
    with pytest.raises(SpecError, match="take larger steps"):
        values(f"1..{MOST_VALUES + 1}")


@pytest.mark.parametrize(
    "value", ["star(hosts=2..4)", "../x", "a..b", "..", "1.5", "200 Mbit/s", 7, None, [1], "x" * 999]
)
def test_what_is_no_range(value: object) -> None:
    assert not is_range(value)
