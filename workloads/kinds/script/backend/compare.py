"""Every so-many-th sum is kept, and compared with Gloo's sum of the same arrays when the script leaves its group."""

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
"""Of what is kept; later sums are not compared."""
HALVES = (torch.float16, torch.bfloat16)
"""Types that Gloo would round anew in each addition."""
MOST = 1e300
"""What is told of a difference that is not finite."""


@dataclass
class Kept:
    """A sum: what this rank added to it, whether it was divided by the number of ranks, the part of it that this rank
    has, and what came of that."""

    own: torch.Tensor
    divided: bool
    part: slice
    row: Row | None = None
    found: torch.Tensor | None = None


class Comparison:
    """The sums of a group that are compared. All ranks keep the same ones, for they count them alike."""

    def __init__(self, every: int, rows: Rows) -> None:
        """``every`` is 0 for none."""
        self._every, self._rows = every, rows
        self._seen = self._bytes = 0
        self._kept: list[Kept] = []

    def keep(self, array: Array, *, divided: bool, part: slice = slice(None)) -> Kept | None:
        """Note what this rank adds, if the sum that is asked for now is one of them; what comes of it is for the caller
        to fill in."""
        self._seen += 1
        nbytes = 2 * array.memory.numel() * array.memory.element_size()
        if self._every == 0 or self._seen % self._every or self._bytes + nbytes > MOST_BYTES:
            return None
        self._bytes += nbytes
        self._kept.append(Kept(array.memory.clone(), divided, part))
        return self._kept[-1]

    def compare(self, gloo: Callable[[], Any], world: int) -> None:
        """Have Gloo make the same sums, on all ranks, and tell the differences."""
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
