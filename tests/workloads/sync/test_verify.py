"""Every forest of every scheme is accepted; every way to break one is refused, with class and node."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.base.errors import SchemeError, TopologyError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Path, Topology
from testbed.workloads.sync.forest import FixedPoint, Forest
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]
RandomForest = Callable[[int, int, int, int], Forest]

NETWORKS = st.one_of(
    st.builds("star(hosts={})".format, st.integers(1, 12)),
    st.builds("bcube(n={},k={})".format, st.integers(2, 4), st.integers(1, 3)),
    st.sampled_from(["fat_tree(k=2)", "fat_tree(k=4)", "spine_leaf(racks=2,hosts_per_rack=3,spines=2)"]),
)


def sums_exactly(forest: Forest) -> bool:
    """An oracle that shares nothing with the verifier: push one token a worker up, and the tokens down again."""
    workers = set(forest.workers)
    for reduce, broadcast in zip(forest.reduce.tolist(), forest.broadcast.tolist(), strict=True):
        arrived: dict[int, list[int]] = {}
        for worker in forest.workers:
            node = worker
            for _ in range(len(reduce)):
                if reduce[node] < 0:
                    break
                node = reduce[node]
            if reduce[node] != -1:
                return False
            arrived.setdefault(node, []).append(worker)
        reached = {node for node, parent in enumerate(broadcast) if parent == -1}
        if set(arrived) != reached or len(reached) != 1:
            return False
        for _ in range(len(broadcast)):
            reached |= {node for node, parent in enumerate(broadcast) if parent in reached}
        if not workers <= reached:
            return False
    return True


@given(network=NETWORKS, scheme=st.sampled_from(["ps", "ps(place=tensor)", "ring", "bml"]), data=st.data())
@settings(deadline=None, max_examples=60)
def test_forests_of_schemes_are_right(network: str, scheme: str, data: st.DataObject) -> None:
    net = build_topology(network, rate_bps=10**9)
    scheme = "ps" if scheme == "bml" and net.family != "bcube" else scheme
    sizes = data.draw(st.lists(st.integers(1, 10**6), min_size=1, max_size=20))
    forest = build(scheme, net, sizes)
    verify(forest, net)
    assert sums_exactly(forest)


@given(seed=st.integers(0, 2**32), hosts=st.integers(2, 9), data=st.data())
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_verifier_and_oracle_agree_on_mutants(
    random_forest: RandomForest, seed: int, hosts: int, data: st.DataObject
) -> None:
    """One parent of a right forest is overwritten; where tokens get lost, the verifier must have refused."""
    net = build_topology(f"star(hosts={hosts})", rate_bps=10**9)
    forest = random_forest(seed, hosts, data.draw(st.integers(1, hosts)), 2)
    verify(forest, net)
    trees = data.draw(st.sampled_from([forest.reduce, forest.broadcast]))
    trees[data.draw(st.integers(0, 1)), data.draw(st.integers(0, hosts - 1))] = data.draw(st.integers(-2, hosts - 1))
    try:
        verify(forest, net)
        accepted = True
    except SchemeError:
        accepted = False
    assert sums_exactly(forest) or not accepted


def mutated(forest: Forest, which: str, c: int, node: int, parent: int) -> Forest:
    trees = getattr(forest, which).copy()
    trees[c, node] = parent
    return replace(forest, **{which: trees})


@pytest.mark.parametrize(
    ("which", "node", "parent", "text"),
    [
        (
            "reduce",
            3,
            2,
            "scheme ring, class 1: h2 does not reach the root h1 in its reduce-tree: "
            "it runs in a circle, h2 -> h3 -> h2\n  fix: lead every node to the root",
        ),
        (
            "broadcast",
            0,
            -1,
            "scheme ring, class 1: its broadcast-tree has 2 roots: h0, h1\n  fix: mark exactly one node ROOT",
        ),
        ("reduce", 1, 0, "scheme ring, class 1: its reduce-tree has 0 roots\n  fix: mark exactly one node ROOT"),
        (
            "broadcast",
            2,
            -2,
            "scheme ring, class 1: the worker h2 is absent from its broadcast-tree\n  fix: give it a parent",
        ),
        (
            "reduce",
            0,
            4,
            "scheme ring, class 1: h0 does not reach the root h1 in its reduce-tree: "
            "it ends at s0, which is absent, h0 -> s0\n  fix: lead every node to the root",
        ),
        (
            "reduce",
            0,
            9,
            "scheme ring, class 1: the reduce-parent of h0 is 9\n  fix: use a node, 0 to 4, ROOT (-1) or ABSENT (-2)",
        ),
    ],
)
def test_texts(topology: Build, which: str, node: int, parent: int, text: str) -> None:
    net = topology("star(hosts=4)")
    with pytest.raises(SchemeError) as caught:
        verify(mutated(build("ring", net, []), which, 1, node, parent), net)
    assert str(caught.value) == text


def test_shares_of_another_type_are_refused(topology: Build) -> None:
    net = topology("star(hosts=3)")
    halves = replace(build("ps", net, []), share=np.ones(3) / 2)
    with pytest.raises(SchemeError, match=r"scheme ps: its shares are float64\[3\]"):
        verify(halves, net)


def test_different_roots(topology: Build) -> None:
    net = topology("star(hosts=3)")
    forest = build("ps", net, [])
    shifted = replace(forest, broadcast=np.roll(forest.broadcast, 1, axis=0))
    with pytest.raises(SchemeError, match="class 0: its reduce-tree ends at h0 but its broadcast-tree starts from h2"):
        verify(shifted, net)


def test_a_switch_cannot_add(topology: Build) -> None:
    net = topology("star(hosts=2)")
    trees = np.array([[2, 2, -1]], np.int32)
    forest = Forest("mine", ("h0", "h1", "s0"), (0, 1), np.array([1]), trees, trees)
    with pytest.raises(SchemeError, match="class 0: s0 is a switch that only forwards"):
        verify(forest, net)
    able = topology("star(hosts=2,ina=all)")
    with pytest.raises(
        SchemeError, match="class 0: s0 is a switch, which adds integers, and gradients travel as floats"
    ):
        verify(forest, able)
    verify(replace(forest, fixed=FixedPoint(1e6, 4), window=4), able)


@pytest.mark.parametrize(
    ("fixed", "window", "problem"),
    [
        (FixedPoint(0.0, 4), 4, "its scale is 0.0"),
        (FixedPoint(float("nan"), 4), 4, "its scale is nan"),
        (FixedPoint(1.0, 0), 0, "has 0 slots in a switch for 1 chunk classes"),
        (FixedPoint(1.0, 3), 4, "has 3 slots in a switch for 1 chunk classes with 4 chunks of each on the way"),
        (FixedPoint(1.0, 4), 0, "has slots and no window"),
        (None, -1, "its window is -1 chunks"),
    ],
)
def test_what_a_switch_has_room_for(topology: Build, fixed: FixedPoint | None, window: int, problem: str) -> None:
    net = topology("star(hosts=2,ina=all)")
    forest = replace(build("switchml", net, []), fixed=fixed, window=window)
    with pytest.raises(SchemeError, match=re.escape(problem)):
        verify(forest, net)


def test_sums_that_go_around_a_switch(topology: Build) -> None:
    """h1 sends to s0, which passes the sum on to h0 alone: h1's next chunk may come before the sum has left."""
    net = topology("star(hosts=2,ina=all)")
    reduce, broadcast = np.array([[2, 2, -1]], np.int32), np.array([[2, 0, -1]], np.int32)
    forest = Forest("mine", ("h0", "h1", "s0"), (0, 1), np.array([1]), reduce, broadcast, False, FixedPoint(1.0, 4), 4)
    with pytest.raises(SchemeError, match="class 0: h1 sends to s0, which passes the sum on, but not to h1"):
        verify(forest, net)
    with pytest.raises(SchemeError, match="agrees on block exponents, and its sums do not go back the way they came"):
        verify(replace(forest, fixed=FixedPoint(None, 4)), net)


def test_an_edge_without_a_route(topology: Build) -> None:
    def router(net: Topology, src: int, dst: int) -> tuple[Path, ...]:
        raise TopologyError(f"no route from {net.nodes[src].name} to {net.nodes[dst].name}")

    net = replace(topology("star(hosts=2)"), router=router)
    with pytest.raises(SchemeError, match="class 0: h0 sends to h1, but no route from h0 to h1"):
        verify(build("ring", topology("star(hosts=2)"), []), net)


def test_arrays_that_do_not_fit(topology: Build) -> None:
    net = topology("star(hosts=3)")
    forest = build("ring", net, [])
    broken = [
        (replace(forest, reduce=forest.reduce[:2]), r"its reduce array is int32\[2, 4\]"),
        (replace(forest, broadcast=forest.broadcast.astype(np.float32)), r"its broadcast array is float32\[3, 4\]"),
        (replace(forest, share=np.array([1, -1, 1])), "class 1: its share is -1"),
        (replace(forest, share=np.array([0, 0, 0])), "no class has a share"),
        (replace(forest, workers=(0, 1, 1)), "has the workers 0, 1, 1"),
        (replace(forest, workers=(0, 3)), "has the workers 0, 3"),
        (replace(forest, workers=()), "has the workers"),
        (replace(forest, nodes=("a", "b", "c", "d")), "are not the 4 of star"),
    ]
    for each, text in broken:
        with pytest.raises(SchemeError, match=text):
            verify(each, net)


def test_long_circles_are_shortened(topology: Build) -> None:
    net = topology("star(hosts=12)")
    forest = mutated(build("ring", net, []), "reduce", 0, 11, 2)
    with pytest.raises(SchemeError, match=r"h1 -> h2 -> h3 -> h4 -> h5 -> ... -> h2"):
        verify(forest, net)
