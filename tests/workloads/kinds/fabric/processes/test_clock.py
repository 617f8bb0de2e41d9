"""The scheduler's clock, as far as its notes tell."""

from __future__ import annotations

import math

import pytest

from testbed.workloads.kinds.fabric.processes.clock import NOTES, Clock


def test_the_fastest_note_tells_how_far_clocks_are_apart() -> None:
    """This clock is 100 s ahead; notes take 20, 1 and 30 ms."""
    clock = Clock()
    for said_s, took_s in ((1.0, 0.020), (2.0, 0.001), (3.0, 0.030)):
        clock.heard(said_s, said_s + 100.0 + took_s)
    assert clock.here_s(3.0) == pytest.approx(103.001)
    assert clock.told_s(103.001) == pytest.approx(3.0)


def test_before_anything_was_said_nothing_is_known() -> None:
    clock = Clock()
    assert clock.told_s(5.0) is None
    assert clock.here_s(5.0) == math.inf


def test_clocks_may_drift_apart() -> None:
    """Old notes are forgotten."""
    clock = Clock()
    clock.heard(0.0, 7.0)
    for number in range(NOTES):
        clock.heard(float(number), number + 7.5)
    assert clock.here_s(1.0) == 8.5
