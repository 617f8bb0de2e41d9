"""Checks of some sums: every so-many-th one is kept, and compared with Gloo's sum of the same arrays when the script
leaves its group."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from testbed.workloads.kinds.script.backend.rows import Row, Rows
from testbed.workloads.kinds.script.backend.tensors import Array, divide

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
