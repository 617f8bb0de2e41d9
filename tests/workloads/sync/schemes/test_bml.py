"""BML's digit-correcting trees against the paper's own example and algorithm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testbed.topologies.model import Topology
from testbed.workloads.sync.schemes.bml import bml

Build = Callable[..., Topology]


def test_the_papers_example(topology: Build) -> None:
    """BML section 3.2: thread 0 of [0,0] sends <0,*,1> to [0,1] and <0,*,2> to [0,2], then <0,1,0> to [1,0]."""
    forest = bml(topology("bcube(n=3,k=2)"), [])
    assert forest.classes == 18
    for high in range(3):
        assert forest.reduce[3 * high + 1, 0] == 1
        assert forest.reduce[3 * high + 2, 0] == 2
    assert forest.reduce[3 * 1 + 0, 0] == 3
    assert forest.reduce[3 * 2 + 0, 0] == 6


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 2), (2, 3), (4, 3), (5, 2)])
def test_against_the_algorithm_written_out(topology: Build, n: int, k: int) -> None:
    """CheckDigits: in step w, thread t of server a sends piece g to the neighbour s of level (t + w) mod k if g and s
    agree in the digits t .. t + w; until then a holds g only if it agrees with g in the digits t .. t + w - 1."""
    forest = bml(topology(f"bcube(n={n},k={k})"), [])
    count = n**k
    expected = np.full((k * count, count), -1)
    for t in range(k):
        for q in range(count):
            for a in range(count):
                digits = [(t + w) % k for w in range(k)]
                differing = [d for d in digits if a // n**d % n != q // n**d % n]
                if differing:
                    d = differing[0]
                    expected[t * count + q, a] = a + (q // n**d % n - a // n**d % n) * n**d
    assert np.array_equal(forest.reduce[:, :count], expected)
    assert np.array_equal(forest.broadcast, forest.reduce)
    assert (forest.reduce[:, count:] == -2).all()


def test_a_step_of_a_thread_uses_one_level_only(topology: Build) -> None:
    net = topology("bcube(n=3,k=2)")
    forest = bml(net, [])
    for row in range(forest.classes):
        for a in net.hosts:
            parent = int(forest.reduce[row, a])
            if parent >= 0:
                assert len(net.paths(a, parent)[0].links) == 2, "a parent is one switch away"
