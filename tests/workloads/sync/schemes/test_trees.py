"""One tree, and two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost, depth
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]


@pytest.mark.parametrize(
    ("hosts", "fanout", "steps"), [(1, 2, 0), (2, 2, 1), (8, 2, 3), (9, 3, 2), (10, 3, 2), (64, 4, 3), (5, 9, 1)]
)
def test_depth_of_a_tree(topology: Build, hosts: int, fanout: int, steps: int) -> None:
    """Ten hosts in base 3: host 8 (022) is two steps from the root, and 9 (100) one."""
    net = topology(f"star(hosts={hosts})")
    forest = build(f"tree(fanout={fanout})", net, [])
    verify(forest, net)
    assert cost(forest, net, 1.0).rounds == 2 * steps


def test_a_tree_clears_the_lowest_digit(topology: Build) -> None:
    assert build("tree(fanout=3)", topology("star(hosts=10)"), []).reduce[0, :10].tolist() == [
        *[-1, 0, 0, 0, 3, 3, 0, 6, 6, 0]
    ]


def test_a_fanout_of_one(topology: Build) -> None:
    with pytest.raises(SchemeError) as caught:
        build("tree(fanout=1)", topology("star(hosts=2)"), [])
    assert str(caught.value) == "tree: fanout is 1\n  fix: give fanout 2 or more"


def test_nccls_pictures(topology: Build) -> None:
    """The comments of src/graph/trees.cc draw 14, 12 and 13 ranks."""
    fourteen = build("double_binary_tree", topology("star(hosts=14)"), [])
    assert fourteen.reduce[0, :14].tolist() == [-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12]
    twelve = build("double_binary_tree", topology("star(hosts=12)"), [])
    assert twelve.reduce[0, :12].tolist() == [-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 8, 10]
    assert twelve.reduce[1, :12].tolist() == [1, 3, 1, 11, 5, 7, 5, 3, 9, 7, 9, -1]
    thirteen = build("double_binary_tree", topology("star(hosts=13)"), [])
    assert thirteen.reduce[1, :13].tolist() == [9, -1, 3, 5, 3, 9, 7, 5, 7, 1, 11, 0, 11]


def test_labels_of_trees_are_permuted_by_strides(topology: Build) -> None:
    """TopoOpt, Appendix A: the same trees with host 3 h (mod 8) in place of host h."""
    net = topology("star(hosts=8)")
    forest = build("double_binary_tree(strides=[1,3])", net, [])
    verify(forest, net)
    assert forest.share.tolist() == [1, 1, 1, 1]
    assert forest.reduce[:2].tolist() == build("double_binary_tree", net, []).reduce.tolist()
    for tree, other in ((0, 2), (1, 3)):
        for host in range(8):
            parent = int(forest.reduce[tree, host])
            assert forest.reduce[other, 3 * host % 8] == (parent if parent < 0 else 3 * parent % 8)


def test_strides_of_trees_that_cannot_be(topology: Build) -> None:
    for strides, text in {
        "[1,2]": "double_binary_tree: the stride 2 misses some of the 8 hosts of star(hosts=8)\n"
        "  fix: take strides that are coprime to 8: 1, 3, 5, 7",
        "[]": "double_binary_tree: strides is empty\n  fix: write it as double_binary_tree(strides=[1,3])",
    }.items():
        with pytest.raises(SchemeError) as caught:
            build(f"double_binary_tree(strides={strides})", topology("star(hosts=8)"), [])
        assert str(caught.value) == text


@pytest.mark.parametrize("hosts", range(2, 40))
def test_a_leaf_of_one_tree_or_the_other(topology: Build, hosts: int) -> None:
    net = topology(f"star(hosts={hosts})")
    forest = build("double_binary_tree", net, [])
    verify(forest, net)
    inner = [set(trees[trees >= 0].tolist()) for trees in forest.reduce]
    assert inner[0] & inner[1] <= ({0} if hosts % 2 else set())
    assert max(np.bincount(trees[trees >= 0]).max() for trees in forest.reduce) <= 2
    assert depth(forest.reduce).max() <= int(np.ceil(np.log2(hosts))) + 1
    assert cost(forest, net, 1e9 / 8).bound_s() <= 2 + 1e-9


@pytest.mark.parametrize("scheme", ["tree", "tree(fanout=5)", "double_binary_tree"])
@pytest.mark.parametrize("hosts", [2, 3, 8, 17, 64])
def test_the_window_lets_a_chunk_go_up_and_come_back(topology: Build, scheme: str, hosts: int) -> None:
    """Fewer chunks than hops there and back would leave links idle."""
    net = topology(f"star(hosts={hosts})")
    forest = build(scheme, net, [])
    assert forest.window >= cost(forest, net, 1.0).rounds + 2
