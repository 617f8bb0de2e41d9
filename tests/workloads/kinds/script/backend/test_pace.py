"""Backward passes that are slowed down ask for their sums evenly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from testbed.workloads.kinds.script.backend import pace as module
from testbed.workloads.kinds.script.backend.pace import Pace


class _Clock:
    """Time that passes only by sleeping and computing."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Clock]:
    found = _Clock()
    monkeypatch.setattr(module, "time", found)
    theirs = torch.autograd.backward
    yield found
    torch.autograd.backward = theirs


def passes(
    clock: _Clock, pace_s: float, each: list[list[int]], computing_s: float
) -> tuple[list[list[float]], list[float]]:
    """When sums of these sizes were asked for in each backward pass, from its beginning; and what was late."""
    late: list[float] = []
    pace = Pace(pace_s, late.append)
    asked: list[float] = []

    def hook(nbytes: list[int]) -> None:
        for one in nbytes:
            clock.sleep(computing_s)
            pace.ask(one)
            asked.append(clock.now_s)

    pace.wrap()
    found = []
    for sizes in each:
        begun_s = clock.now_s
        asked.clear()
        leaf = torch.ones(1, requires_grad=True)
        leaf.register_hook(lambda _, sizes=sizes: hook(sizes))
        (2 * leaf).backward()
        found.append([round(at_s - begun_s, 6) for at_s in asked] + [round(clock.now_s - begun_s, 6)])
    return found, [round(one, 6) for one in late]


def test_from_the_second_pass_on_sums_are_asked_for_in_proportion_to_their_size(clock: _Clock) -> None:
    found, late = passes(clock, 1.0, [[100, 300]] * 3, computing_s=0.01)
    assert found[1:] == [[0.25, 1.0, 1.0], [0.25, 1.0, 1.0]]
    assert late == [0.0, 0.0, 0.0]


def test_in_the_first_pass_the_first_sum_waits_for_the_whole_time(clock: _Clock) -> None:
    """As of DDP, whose first pass has one sum: its first iteration would be shorter than its pace."""
    (first, _), late = passes(clock, 1.0, [[400]] * 2, computing_s=0.01)
    assert first == [1.0, 1.0]
    assert late == [0.0, 0.0]


def test_a_pass_without_sums_ends_at_its_pace(clock: _Clock) -> None:
    found, late = passes(clock, 0.5, [[], [400], []], computing_s=0.1)
    assert found == [[0.5], [0.5, 0.5], [0.5]]
    assert late == [0.0, 0.0, 0.0]


def test_a_pass_that_takes_longer_is_told_with_by_how_much(clock: _Clock) -> None:
    found, late = passes(clock, 0.5, [[100, 100]] * 2, computing_s=0.4)
    assert found == [[0.5, 0.9, 0.9], [0.4, 0.8, 0.8]]
    assert late == [0.0, 0.3]


def test_outside_of_a_backward_pass_nobody_waits(clock: _Clock) -> None:
    Pace(5.0, lambda _: None).ask(1000)
    assert clock.now_s == 100.0
