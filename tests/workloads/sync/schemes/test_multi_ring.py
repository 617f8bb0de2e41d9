"""Several rings at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.flows import pairs
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]


def test_twelve_servers_have_four_rings(topology: Build) -> None:
    """TopoOpt: for n = 12 the strides 1, 5, 7 and 11."""
    net = topology("star(hosts=12)")
    forest = build("multi_ring(strides=[1,5,7,11])", net, [])
    verify(forest, net)
    assert forest.classes == 4 * 12
    assert pairs(forest) == sorted((h, (h + p) % 12) for h in range(12) for p in (1, 5, 7, 11))
    assert cost(forest, net, 1e9 / 8).bound_s() == pytest.approx(2 * 11 / 12)


def test_the_first_stride_is_the_ring(topology: Build) -> None:
    net = topology("star(hosts=5)")
    one, ring = build("multi_ring(strides=[1])", net, []), build("ring", net, [])
    assert np.array_equal(one.reduce, ring.reduce)
    assert np.array_equal(one.broadcast, ring.broadcast)


def test_permutations(topology: Build) -> None:
    net = topology("star(hosts=4)")
    forest = build("multi_ring(permutations=[[0,1,2,3],[0,2,1,3]])", net, [])
    verify(forest, net)
    assert pairs(forest) == [(0, 1), (0, 2), (1, 2), (1, 3), (2, 1), (2, 3), (3, 0)]
    assert forest.reduce[4 + 1].tolist() == [2, -1, 1, 0, -2]
    assert forest.broadcast[4 + 1].tolist() == [3, -1, 0, 1, -2]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            "multi_ring",
            "multi_ring takes either strides or permutations\n"
            "  fix: write it as multi_ring(strides=[1,5]), for example",
        ),
        (
            "multi_ring(strides=[1,3])",
            "multi_ring: the stride 3 misses some of the 12 hosts of star(hosts=12)\n"
            "  fix: take strides that are coprime to 12: 1, 5, 7, 11",
        ),
        (
            "multi_ring(permutations=[[0,1,2]])",
            "multi_ring: a permutation of 3 hosts does not name each host of star(hosts=12) once\n  fix: order 0 to 11",
        ),
        (
            "multi_ring(strides=5)",
            "multi_ring: strides is 5\n  fix: give strides a list of integers, such as [1,5]",
        ),
    ],
)
def test_texts(topology: Build, form: str, text: str) -> None:
    with pytest.raises(SchemeError) as caught:
        build(form, topology("star(hosts=12)"), [])
    assert str(caught.value) == text
