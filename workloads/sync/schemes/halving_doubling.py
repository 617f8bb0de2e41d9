"""Recursive halving and doubling: binomial trees, one per piece of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import Forest, Parents
from testbed.workloads.sync.trees import digit_trees, over


def halving_doubling(
    topology: Topology, tensor_sizes: Sequence[int], *, remainder: Literal["blocks", "fold"] = "blocks"
) -> Forest:
    """Recursive vector halving with distance doubling, for any number of hosts.

    Class c of N = 2^m: a host's parent has its lowest bit that differs from c's set to c's, so hosts exchange half of
    the gradient with their neighbour, a quarter at distance 2, and so on; m steps each way.

    Where N is no power of two, ``remainder`` says what happens to the others:

    - ``blocks``, as Gloo does it: hosts form blocks of the powers of two in N, the largest first. Each block reduces
      among itself; the host of a block that then holds class c passes it to the host of the next larger block that
      does. The largest block's size is the number of classes.
    - ``fold``, as MPICH does it: of the first 2r hosts, where r = N - 2^m, each even one gives all its gradient to the
      next host and gets all the sum from it. That host's link carries the gradient once more each way.

    Source: PHub thesis section 1.1.5; Thakur, Rabenseifner, Gropp 2005 (fold); Rabenseifner, Traeff 2004 (blocks);
    Gloo, gloo/allreduce_halving_doubling.h.
    """
    return over(topology, (_blocks if remainder == "blocks" else _fold)(topology.host_count))


def _blocks(count: int) -> Parents:
    sizes = [1 << bit for bit in reversed(range(count.bit_length())) if count >> bit & 1]
    klass = np.arange(sizes[0], dtype=np.int32)
    trees: list[Parents] = []
    larger_owner, offset = np.full_like(klass, -1), 0  # -1 is ROOT: the largest block's owners are the roots
    for size in sizes:
        owner = klass % size
        parents = digit_trees([2] * (size.bit_length() - 1))[owner] + np.int32(offset)
        parents[klass, owner] = larger_owner
        trees.append(parents)
        larger_owner, offset = owner + np.int32(offset), offset + size
    return np.concatenate(trees, axis=1)


def _fold(count: int) -> Parents:
    power = 1 << count.bit_length() - 1
    rest = count - power
    taking_part = np.array([*range(1, 2 * rest, 2), *range(2 * rest, count)], dtype=np.int32)
    among = digit_trees([2] * (power.bit_length() - 1))
    trees = np.empty((power, count), dtype=np.int32)
    trees[:, taking_part] = np.where(among >= 0, taking_part[among], among)
    trees[:, 0 : 2 * rest : 2] = np.arange(1, 2 * rest, 2)
    return trees
