"""Learning rates by hand."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.base.errors import SchemeError
from testbed.workloads.kinds.fabric.rates import rule

ASKED: dict[str, Any] = {"learning_rate": 0.1, "c": 2, "delay_bound": 4}


@pytest.mark.parametrize(
    ("name", "iteration", "delay", "rate"),
    [
        ("constant", 1, 0, 0.1),
        ("constant", 900, 30, 0.1),
        ("worst_case", 1, 0, 0.05),  # 0.1 / sqrt(4 x 1)
        ("worst_case", 25, 3, 0.01),  # 0.1 / sqrt(4 x 25), whatever the delay
        ("adaptive", 1, 0, 1 / 12),  # 1 / (10 + 2 sqrt(1))
        ("adaptive", 16, 9, 0.05),  # 1 / (10 + 2 sqrt(25))
        ("adaptive", 25, 0, 0.05),  # as stale as it is late
    ],
)
def test_a_rate(name: str, iteration: int, delay: int, rate: float) -> None:
    assert rule(name, **ASKED)(iteration, delay) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        (
            "adaptiv",
            ASKED,
            "rate=adaptiv is not one of: constant, worst_case, adaptive\n  fix: did you mean 'adaptive'?",
        ),
        (
            "worst_case",
            {"learning_rate": 0.1},
            "rate=worst_case needs the largest delay that an update may have\n  fix: give a delay_bound",
        ),
        (
            "adaptive",
            {"learning_rate": 0.1, "c": float("nan")},
            "rate=adaptive with a learning rate of 0.1 and c of nan is impossible\n"
            "  fix: give both as finite numbers above 0",
        ),
    ],
)
def test_what_makes_no_rate(name: str, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemeError) as error:
        rule(name, **asked)
    assert str(error.value) == said
