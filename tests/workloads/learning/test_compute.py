"""When buckets are released: at once, when computed, or at their pace. On a clock of our own, so to the microsecond."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from testbed.workloads.job import Compute
from testbed.workloads.learning import compute
from testbed.workloads.learning.compute import Accelerator
from testbed.workloads.learning.training import Replica

FORWARD_S = 0.1
BACKWARD_S = (0.02, 0.08, 0.2, 0.1)
READY = np.cumsum([FORWARD_S + BACKWARD_S[0], *BACKWARD_S[1:]])
"""0.12, 0.2, 0.4, 0.5: when each layer's gradient is there."""


class Machine:
    """A clock, a model that takes the times above (times ``load``), and an engine that records what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.load = 1.0
        self.slept: list[float] = []
        self.polled: list[float] = []
        self.released: list[tuple[int, float]] = []
        self.computed: list[int] = []
        self.gradient = np.zeros(3, np.float32)
        self.buckets = [(0, 1)] * len(BACKWARD_S)
        self.is_warm = False
        self.on_ready = lambda _bucket: None
        monkeypatch.setattr(
            compute, "time", SimpleNamespace(monotonic=self.clock, thread_time=self.clock, sleep=self._sleep)
        )

    def clock(self) -> float:
        return self.now

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def samples(self, iteration: int, rank: int, world: int) -> tuple[int, int]:
        assert (rank, world) == (2, 3)
        return iteration, 0

    def compute(self, iteration: int, _labels: int) -> float:
        self.computed.append(iteration)
        self.gradient[:] = 10 + iteration
        self.now += FORWARD_S * self.load
        for bucket, seconds in enumerate(BACKWARD_S):
            self.now += seconds * self.load
            self.on_ready(bucket)
        return 100.0 + iteration

    def release(self, bucket: int) -> None:
        self.released.append((bucket, self.now))
        self.now += 0.001  # the engine's time

    def poll(self, seconds: float) -> None:
        self.polled.append(seconds)
        self.now += seconds

    def accelerator(self, mode: str, pace_s: float, layered: bool) -> Accelerator:
        settings = Compute(cast(Any, mode), pace_s)
        return Accelerator(cast(Replica, self), settings, 2, 3, layered, self.release, self.poll)

    def since(self, start: float) -> list[float]:
        return [when - start for _, when in self.released]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("mode", ["real", "paced", "none"])
@pytest.mark.parametrize("layered", [False, True])
def test_buckets_are_released_once_and_in_order(machine: Machine, mode: str, layered: bool) -> None:
    accelerator = machine.accelerator(mode, 1.0, layered)
    assert not machine.released  # preparing releases nothing
    for iteration in range(2):
        machine.released.clear()
        accelerator.run(iteration, machine.now)
        assert [bucket for bucket, _ in machine.released] == ([0, 1, 2, 3] if layered else [0])


def test_real_releases_what_is_computed(machine: Machine) -> None:
    accelerator = machine.accelerator("real", 0.0, layered=False)
    computed = accelerator.run(4, start := machine.now)
    assert machine.since(start) == pytest.approx([0.5])
    assert (computed.loss, computed.compute_s, computed.overrun_s) == (104, pytest.approx(0.5), 0)


def test_real_layers_leave_as_they_come(machine: Machine) -> None:
    accelerator = machine.accelerator("real", 0.0, layered=True)
    computed = accelerator.run(0, start := machine.now)
    assert machine.since(start) == pytest.approx(READY + 0.001 * np.arange(4))
    assert computed.compute_s == pytest.approx(0.5)  # without the engine's time
    assert computed.overrun_s == 0


@pytest.mark.parametrize(
    ("mode", "is_warm", "computes"),
    [("real", False, 1), ("real", True, 0), ("paced", True, 1), ("none", True, 1)],
)
def test_what_is_computed_before_the_first_iteration(machine: Machine, mode: str, is_warm: bool, computes: int) -> None:
    machine.is_warm = is_warm
    machine.accelerator(mode, 1.0, layered=False)
    assert machine.computed == [0] * computes


def test_a_pace_is_slept_out(machine: Machine) -> None:
    accelerator = machine.accelerator("paced", 2.0, layered=False)
    computed = accelerator.run(0, start := machine.now)
    assert machine.since(start) == pytest.approx([2.0])
    assert machine.slept == pytest.approx([1.5])
    assert not machine.polled
    assert (computed.compute_s, computed.overrun_s) == (pytest.approx(0.5), 0)


def test_a_pace_leaves_time_to_rest(machine: Machine) -> None:
    """Half of the least that was left of a pace so far; no iteration is longer for it."""
    accelerator = machine.accelerator("paced", 0.54, layered=False)
    accelerator.run(0, machine.now)
    for load, rest_s in ((1.0, 0.02), (1.04, 0.02), (1.0, 0.01)):
        sum_s, machine.load = machine.now, load
        assert accelerator.rest() == pytest.approx(rest_s)
        assert accelerator.run(1, machine.now, sum_s).overrun_s == 0
        assert machine.released[-1][1] - sum_s == pytest.approx(0.54)


def test_a_rest_is_short(machine: Machine) -> None:
    accelerator = machine.accelerator("paced", 9.0, layered=False)
    accelerator.run(0, machine.now)
    assert accelerator.rest() == compute.REST_S


@pytest.mark.parametrize(("mode", "pace_s"), [("real", 0.0), ("none", 0.0), ("paced", 0.5), ("paced", 0.3)])
def test_where_nothing_is_left_of_a_pace_nobody_rests(machine: Machine, mode: str, pace_s: float) -> None:
    accelerator = machine.accelerator(mode, pace_s, layered=False)
    accelerator.run(0, machine.now)
    before = machine.now
    assert accelerator.rest() == pytest.approx(0, abs=1e-9)
    assert machine.now == pytest.approx(before)


def test_layers_divide_the_pace_as_they_divide_the_real_time(machine: Machine) -> None:
    accelerator = machine.accelerator("paced", 2.0, layered=True)
    computed = accelerator.run(0, start := machine.now)
    assert machine.since(start) == pytest.approx(READY / READY[-1] * 2.0)
    assert len(machine.polled) == 4  # communication goes on meanwhile
    assert not machine.slept
    assert (computed.compute_s, computed.overrun_s) == (pytest.approx(0.5), 0)


@pytest.mark.parametrize("layered", [False, True])
def test_a_missed_pace_is_counted(machine: Machine, layered: bool) -> None:
    accelerator = machine.accelerator("paced", 0.4, layered)
    computed = accelerator.run(0, start := machine.now)
    assert machine.since(start)[-1] >= 0.5
    assert computed.overrun_s == pytest.approx(machine.since(start)[-1] - 0.4)


def test_a_layer_that_is_late_counts_even_if_the_whole_is_not(machine: Machine) -> None:
    accelerator = machine.accelerator("paced", 1.0, layered=True)
    machine.now += 0.3  # the iteration has begun, and something else has the core
    computed = accelerator.run(0, machine.now - 0.3)
    assert computed.overrun_s == pytest.approx(0.3 + 0.12 - 0.24)
    assert computed.compute_s < 1.0


def test_the_profile_is_the_least_of_several_runs(machine: Machine) -> None:
    loads = iter([9.0, 4.0, 1.0, 3.0, 1.0])  # once to warm up, three times to measure, then the iteration
    whole = machine.compute

    def compute_under_load(iteration: int, labels: int) -> float:
        machine.load = next(loads)
        return whole(iteration, labels)

    machine.compute = compute_under_load  # type: ignore[method-assign]
    accelerator = machine.accelerator("paced", 5.0, layered=True)
    accelerator.run(0, start := machine.now)
    assert machine.since(start) == pytest.approx(READY / READY[-1] * 5.0)


def test_none_sends_the_first_gradient_again_and_computes_nothing(machine: Machine) -> None:
    accelerator = machine.accelerator("none", 0.0, layered=False)
    for iteration in range(3):
        machine.gradient[:] = 7  # as the sum overwrites it
        computed = accelerator.run(iteration, start := machine.now)
        assert machine.since(start)[-1] == 0
        assert machine.gradient.tolist() == [10, 10, 10]
        assert (computed.loss, computed.compute_s, computed.overrun_s) == (100, 0, 0)
    assert machine.computed == [0]
