"""Masters of 2LHA (PHub thesis, section 4.2.2) as a value: the host that is the global master (GM) of each class, and
the host that is its local master (LM) in each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.sync.forest import ROOT, Parents
from testbed.workloads.sync.schemes.two_level import hierarchy

Hosts = NDArray[np.float64]
"""A number for each host, float64[hosts]."""
Pairs = NDArray[np.float64]
"""A number from each host (row) to each other one (column), float64[hosts, hosts]."""


@dataclass(frozen=True, eq=False)
class Masters:
    """Masters of each class.

    Attributes:
        groups: hosts of each group, by number; each host is in one.
        gm: int32[classes], the GM of each class.
        lm: int32[groups, classes], its LM in each group: in the GM's group, the GM itself.
    """

    groups: tuple[tuple[int, ...], ...]
    gm: NDArray[np.int32]
    lm: NDArray[np.int32]

    @property
    def hosts(self) -> int:
        return sum(map(len, self.groups))

    @property
    def parents(self) -> Parents:
        """Trees of the masters, int32[classes, hosts]."""
        return hierarchy(self.groups, self.gm, self.lm)

    def sent_bytes(self, class_bytes: float) -> Hosts:
        """Compute the bytes that each host sends in an iteration: sums up each tree, and the total to each child."""
        trees = self.parents
        children = np.bincount(trees[trees != ROOT], minlength=self.hosts)
        sent: Hosts = class_bytes * ((trees != ROOT).sum(axis=0) + children)
        return sent

    @property
    def globals(self) -> NDArray[np.int64]:
        """Number of classes of which each host is the GM, int64[hosts]."""
        return np.bincount(self.gm, minlength=self.hosts)

    @property
    def locals(self) -> NDArray[np.int64]:
        """Number of classes of which each host is an LM, int64[hosts]. A GM is an LM, too."""
        return np.bincount(self.lm.ravel(), minlength=self.hosts)

    def group(self, host: int) -> int:
        """Return the number of a host's group."""
        return next(number for number, members in enumerate(self.groups) if host in members)


def of_trees(groups: Sequence[Sequence[int]], parents: Parents) -> Masters:
    """Read the masters from their trees, int32[classes, hosts], as :attr:`Masters.parents` makes them."""
    gm = (parents == ROOT).argmax(axis=1).astype(np.int32)
    below = parents == gm[:, None]
    lm = [np.where(np.isin(gm, group), gm, np.asarray(group)[below[:, list(group)].argmax(axis=1)]) for group in groups]
    return Masters(tuple(map(tuple, groups)), gm, np.array(lm, dtype=np.int32))
