"""Sums against gradients by sketches, where several processes tell of sums."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from testbed.evidence.sum_check import checked
from testbed.trial.phases import Phase
from testbed.workloads.learning.sketch import Sketch

SPANS = [(0, 700), (700, 1000)]


def phase() -> Phase:
    """Two iterations of two workers of which only the arithmetic and the names are asked."""
    plan = SimpleNamespace(nodes=("h0", "h1"), workers=(0, 1))
    kind = SimpleNamespace(arithmetic=SimpleNamespace(sum_error=lambda *_: 0.0))
    job: Any = SimpleNamespace(plan=plan, workers=("h0", "h1"), kind=kind)
    return Phase(0, 2, job)


def line(
    name: str, gradients: list[np.ndarray[Any, Any]], sums: list[np.ndarray[Any, Any]], told: int
) -> dict[str, Any]:
    """A worker's last line: sketches of its gradients, and of one span of each sum."""

    def part(total: np.ndarray[Any, Any]) -> list[float]:
        sketch = Sketch(total, SPANS)
        sketch.add(told)
        return sketch.values()

    own = [[i, Sketch(one, SPANS).whole()] for i, one in enumerate(gradients)]
    return {"name": name, "own": own, "summed": [[i, part(one)] for i, one in enumerate(sums)]}


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    """Each of two workers tells of one span of the sums."""
    draw = np.random.default_rng(1)
    gradients = draw.standard_normal((2, 2, 1000)).astype(np.float32)
    sums = [*(gradients[0] + gradients[1])]
    return [line("h0", [*gradients[0]], sums, 0), line("h1", [*gradients[1]], sums, 1)]


def test_parts_that_several_tell_of_are_one_sum(lines: list[dict[str, Any]]) -> None:
    found = checked(lines, [phase()], 1000, 1024)
    assert found.count == 2
    assert found.error <= found.allowed


def test_a_wrong_part_is_found(lines: list[dict[str, Any]]) -> None:
    lines[1]["summed"][1][1][1:] = [0.999 * value for value in lines[1]["summed"][1][1][1:]]
    found = checked(lines, [phase()], 1000, 1024)
    assert (found.iteration, found.error > found.allowed) == (1, True)


def test_a_sum_of_which_a_part_is_not_told_is_not_looked_at(lines: list[dict[str, Any]]) -> None:
    lines[1]["summed"].pop()
    assert checked(lines, [phase()], 1000, 1024).count == 1
