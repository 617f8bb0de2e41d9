"""Checks of a script's numbers.

Every so-many-th sum is kept, and compared with Gloo's sum of the same arrays when the script leaves its group.

The origin of numbers that are not finite is an array that a rank gives, or a sum of halves that overflows. The engine's
thread looks at each chunk of what a rank gives just before the chunk leaves, or something is added to it. So memory is
read once for both, and the first bytes of a call do not wait for a look at all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from testbed.workloads.kinds.script.backend.rows import Row, Rows
from testbed.workloads.kinds.script.backend.tensors import Array, divide
from testbed.workloads.kinds.script.collectives.calls import Call, What

MOST_BYTES = 2**28
"""Limit on the bytes that are kept; later sums are not compared."""
HALVES = (torch.float16, torch.bfloat16)
"""Types that Gloo would round anew in each addition."""
MOST = 1e300
"""Number that stands for a difference that is not finite."""


@dataclass
class Kept:
    """A sum that is to be compared: the array that this rank added to it, whether it was divided by the number of
    ranks, the part of it that this rank has, and the result in that part."""

    own: torch.Tensor
    divided: bool
    part: slice
    row: Row | None = None
    found: torch.Tensor | None = None


class Comparison:
    """The sums of a group that are compared. All ranks keep the same ones, for they count them alike."""

    def __init__(self, every: int, rows: Rows) -> None:
        """Set up; ``every`` is 0 for no comparison."""
        self._every, self._rows = every, rows
        self._seen = self._bytes = 0
        self._kept: list[Kept] = []

    def keep(self, array: Array, *, divided: bool, part: slice = slice(None)) -> Kept | None:
        """Keep the array that this rank adds, if the sum that is asked for now is to be compared; the caller fills in
        the result."""
        if self._every == 0:
            return None
        self._seen += 1
        nbytes = 2 * array.memory.numel() * array.memory.element_size()
        if self._seen % self._every or self._bytes + nbytes > MOST_BYTES:
            return None
        self._bytes += nbytes
        self._kept.append(Kept(array.memory.clone(), divided, part))
        return self._kept[-1]

    def compare(self, gloo: Callable[[], Any], world: int) -> None:
        """Have Gloo make the same sums, on all ranks, and report the differences."""
        for one in self._kept:
            wide = one.own.to(torch.float32) if one.own.dtype in HALVES else one.own
            gloo().allreduce([wide], dist.AllreduceOptions()).wait()
            if one.divided:
                divide(wide, world)
            if one.found is not None and one.row is not None:
                self._tell(one.row, one.found, wide[one.part])
        self._kept.clear()

    def _tell(self, row: Row, found: torch.Tensor, expected: torch.Tensor) -> None:
        apart = float((found.to(expected.dtype) - expected).abs().max()) if found.numel() else 0.0
        largest = float(expected.abs().max()) if found.numel() else 0.0
        share = apart / largest if largest else float(apart > 0)
        told = {"group": row.group, "seq": row.sequence, "dtype": str(found.dtype).removeprefix("torch.")}
        self._rows.say("check", **told, largest_relative=share if math.isfinite(share) else MOST)


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
