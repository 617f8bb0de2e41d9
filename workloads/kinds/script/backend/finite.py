"""Search for the origin of numbers that are not finite: an array that a rank gives, or a sum of halves that overflows.

The engine's thread looks at each chunk of what a rank gives just before the chunk leaves, or something is added to it.
So memory is read once for both, and the first bytes of a call do not wait for a look at all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from testbed.workloads.kinds.script.collectives.calls import Call, What


class Look:
    """Search in the numbers of one call. Calls that add nothing are left out, and so are those whose numbers become
    integers: a number that is not finite cannot become one, and ends them."""

    def __init__(
        self, call: Call, numbers: torch.Tensor, tell: Callable[[str], None], *, by_integers: bool = False
    ) -> None:
        """Set up; ``numbers`` are what this rank gives, and later the sum; ``tell`` gets "input" or "sum"."""
        self._call, self._numbers, self._tell = call, numbers, tell
        self.is_needed, self._is_well = bool(call.op) and not by_integers, True

    def at_input(self, first: int, last: int) -> None:
        """Look at these numbers of the array, before anything is added to them."""
        if self._is_well and not is_finite(self._numbers[first:last]):
            self._is_well = False
            self._tell("input")

    def at_sum(self) -> None:
        """Look at a sum of float16, whose largest number is 65,504."""
        overflows = self._call.what == What.ALLREDUCE and self._call.dtype == "float16" and self._is_well
        if overflows and not is_finite(self._numbers):
            self._tell("sum")


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether all numbers of a tensor are finite. One that is not makes their sum not finite, which is looked at
    first."""
    if not tensor.is_floating_point():
        return True
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    return math.isfinite(tensor.sum(dtype=wide).item()) or bool(torch.isfinite(tensor).all())
