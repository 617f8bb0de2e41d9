"""Sums in fixed point, which some schemes make."""

from __future__ import annotations

from testbed.workloads.job import LARGEST
from testbed.workloads.kinds.parts import Arithmetic
from testbed.workloads.sync.fixed_point import furthest, sum_error
from testbed.workloads.sync.forest import Forest


class FixedPointArithmetic(Arithmetic[Forest]):
    """Fixed point where a plan has it; else floats."""

    def rounding(self, plan: Forest) -> float:
        if plan.fixed is None:
            return 0.0
        world = len(plan.workers)
        return furthest(plan.fixed.scale or (2**31 - 1) / (world * 2 * LARGEST), world, LARGEST)

    def scale(self, plan: Forest) -> float | None:
        return None if plan.fixed is None else plan.fixed.scale

    def sum_error(self, plan: Forest, norms: float, floats: int, chunk_bytes: int) -> float:
        return 0.0 if plan.fixed is None else sum_error(plan.fixed, len(plan.workers), norms, floats, chunk_bytes)
