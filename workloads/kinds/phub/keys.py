"""Keys of a gradient, and the box, NIC and core that owns each (sections 3.2.3 and 3.2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.kinds.phub.plan import Boxes
from testbed.workloads.sync.chunks import FLOAT_BYTES
from testbed.workloads.sync.schemes.ps import longest_first

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Keys:
    """The K keys of a gradient.

    Attributes:
        edges: int64[K + 1], where each key begins in the flat gradient, in floats, and the last one ends.
        box: int64[K], place of the box that adds it up, or where racks are added, of the one that adds these.
        nic, core: int64[K], the NIC of a box, and the core of that NIC.
    """

    edges: Numbers
    box: Numbers
    nic: Numbers
    core: Numbers

    @property
    def size_bytes(self) -> Numbers:
        """Size of each key."""
        return FLOAT_BYTES * np.diff(self.edges)


def cut(layers: Sequence[int], key_bytes: int, places: int) -> Numbers:
    """Cut a gradient whose ``layers`` have these many floats; return int64[K + 1], as :attr:`Keys.edges`.

    Each layer is cut every ``key_bytes``. With 0, all of the gradient is cut into equal keys, one for each place.
    """
    if not key_bytes:
        found: Numbers = sum(layers) * np.arange(places + 1, dtype=np.int64) // places
        return found
    ends = np.cumsum(layers)
    pieces = [np.arange(end - floats, end, key_bytes // FLOAT_BYTES) for end, floats in zip(ends, layers, strict=True)]
    return np.concatenate([*pieces, ends[-1:]]).astype(np.int64)


def keys(plan: Boxes, layers: Sequence[int]) -> Keys:
    """Cut a gradient, and give its keys to boxes, their NICs and these NICs' cores: at each step the largest first, to
    whichever has least so far."""
    edges = cut(layers, plan.options.key_bytes, plan.places)
    sizes, everything = np.diff(edges), np.zeros(len(edges) - 1, np.int64)
    box = _dealt(sizes, everything, len(plan.boxes))
    nic = _dealt(sizes, everything if plan.adds_racks else box, plan.nics)
    together = nic if plan.adds_racks else box * plan.nics + nic
    return Keys(edges, box, nic, _dealt(sizes, together, plan.options.cores))


def _dealt(sizes: Numbers, groups: Numbers, count: int) -> Numbers:
    """Deal the items of each group to ``count`` bins of its own; return each item's bin."""
    found = np.zeros(len(sizes), np.int64)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        found[members] = longest_first(sizes[members].tolist(), count)
    return found
