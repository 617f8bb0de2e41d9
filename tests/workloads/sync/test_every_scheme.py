"""Every scheme, over random sizes, racks, groups and networks: each contribution once, everyone gets the sum."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import SchemeError
from testbed.topologies.build import build as build_topology
from testbed.topologies.ina import mark
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.flows import flows
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.schemes import build, schemes
from testbed.workloads.sync.verify import verify

MPI_ALGORITHMS = ["default", "basic_linear", "nonoverlapping", "recursive_doubling"]
MPI_ALGORITHMS += ["ring", "segmented_ring", "rabenseifner"]


@st.composite
def networks(draw: Callable[..., int]) -> Topology:
    """Of up to 36 hosts."""
    kind = draw(st.sampled_from(["star", "spine_leaf", "bcube", "fat_tree", "dragonfly"]))
    if kind == "star":
        text = f"star(hosts={draw(st.integers(1, 36))})"
    elif kind == "spine_leaf":
        racks, hosts = draw(st.integers(1, 6)), draw(st.integers(1, 6))
        text = f"spine_leaf(racks={racks},hosts_per_rack={hosts},spines={draw(st.integers(1, 3))})"
    elif kind == "bcube":
        n, k = draw(st.sampled_from([(2, 1), (5, 1), (2, 2), (3, 2), (5, 2), (6, 2), (2, 3), (3, 3), (2, 5)]))
        text = f"bcube(n={n},k={k})"
    elif kind == "fat_tree":
        routing = draw(st.sampled_from(["two_level", "by_destination", "ecmp"]))
        text = f"fat_tree(k={draw(st.sampled_from([2, 4]))},routing={routing})"
    else:
        a, g, h, p = draw(st.sampled_from([(2, 3, 1, 1), (4, 3, 2, 2), (4, 9, 2, 1), (3, 4, 1, 3), (1, 2, 1, 1)]))
        text = f"dragonfly(a={a},g={g},h={h},p={p},routing={draw(st.sampled_from(['minimal', 'ecmp']))})"
    net = build_topology(text, rate_bps=10**9)
    able = draw(st.sampled_from(["none", "all", "some"]))
    if able == "none":
        return net
    some = draw(st.sets(st.sampled_from([net.nodes[switch].name for switch in net.switches])))
    return mark(net, tuple(sorted(some)) if able == "some" and some else "all")


def _text(value: object) -> str:
    return re.sub(r"\s", "", str(value))


def _groups(hosts: int) -> st.SearchStrategy[str]:
    of = st.lists(st.integers(0, 5), min_size=hosts, max_size=hosts)
    return of.map(lambda of: _text([[host for host in range(hosts) if of[host] == g] for g in sorted(set(of))]))


def _strides(hosts: int) -> st.SearchStrategy[str]:
    coprime = [p for p in range(1, 2 * hosts) if math.gcd(p, hosts) == 1]
    return st.lists(st.sampled_from(coprime), min_size=1, max_size=4).map(_text)


def _orders(hosts: int) -> st.SearchStrategy[str]:
    return st.lists(st.permutations(range(hosts)), min_size=1, max_size=3).map(_text)


def expressions(name: str, hosts: int) -> st.SearchStrategy[str]:
    """A scheme with every kind of arguments that it takes on so many hosts."""
    place, yes_or_no = st.sampled_from(["chunk", "tensor", "lpt"]), st.sampled_from(["true", "false"])
    known = {
        "ps": st.builds("ps(place={},servers={})".format, place, st.integers(0, hosts))
        | st.builds("ps(place={},colocated=false,servers={})".format, place, st.integers(0, max(0, hosts - 1))),
        "multi_ring": st.builds("multi_ring(strides={})".format, _strides(hosts))
        | st.builds("multi_ring(permutations={})".format, _orders(hosts)),
        "halving_doubling": st.sampled_from(["halving_doubling", "halving_doubling(remainder=fold)"]),
        "bcube": st.builds("bcube(base={})".format, st.integers(2, 7)),
        "tree": st.builds("tree(fanout={})".format, st.integers(2, 7)),
        "double_binary_tree": st.just("double_binary_tree")
        | st.builds("double_binary_tree(strides={})".format, _strides(hosts)),
        "hierarchical_ps": st.builds(
            "hierarchical_ps(across={},colocated={})".format, st.sampled_from(["ps", "ring"]), yes_or_no
        ),
        "atp": st.builds("atp(servers={})".format, st.integers(0, hosts)),
        "async_ps": st.builds("async_ps(servers={})".format, st.integers(1, max(1, hosts - 1))),
        "ssp": st.builds("ssp(staleness={},servers={})".format, st.integers(0, 5), st.integers(1, max(1, hosts - 1))),
        "gloo": st.sampled_from(["gloo", "gloo(algorithm=reduce_broadcast)"]),
        "openmpi": st.builds("openmpi(algorithm={},segment_bytes=65536)".format, st.sampled_from(MPI_ALGORITHMS)),
        "two_level": st.just("two_level")
        | st.builds("two_level(groups={},classes={})".format, _groups(hosts), st.integers(0, 40))
        | st.builds("two_level(groups=random,draw={})".format, st.integers(0, 99)),
    }
    return known.get(name, st.just(name))


def may_be_refused(scheme: str, net: Topology, floats: int) -> bool:
    """What a scheme cannot use: said by its docstring, and checked in its own tests."""
    racks = [net.nodes[host].rack for host in net.hosts]
    servers = int(found[1]) if (found := re.search(r"servers=(\d+)", scheme)) else 1
    return (
        (scheme == "hierarchical" and net.family != "fat_tree")
        or (scheme == "bml" and net.family != "bcube")
        or scheme.startswith("bcube(")
        or (scheme.startswith("ps") and "colocated=false" in scheme and net.host_count == 1)
        or (scheme.startswith(("async_ps", "ssp")) and (net.host_count == 1 or floats < servers))
        or (scheme.startswith("atp") and net.params.get("routing") == "ecmp")
        or (scheme == "switchml" and not all(net.nodes[switch].ina for switch in net.switches))
        or (scheme == "switchml" and net.family == "bcube")
        or (scheme.startswith(("gloo", "openmpi")) and any(len(net.ports[host]) > 1 for host in net.hosts))
        or (scheme.startswith("hierarchical_ps") and min(map(racks.count, racks)) < 2)
    )


FORESTS = [name for name, one in schemes().items() if inspect.signature(one.function).return_annotation == "Forest"]
"""Others have plans that are no forests, and tests of their own."""


@pytest.mark.parametrize("name", FORESTS)
@given(net=networks(), data=st.data())
@settings(max_examples=15)
def test_a_forest_is_right_or_refused(name: str, net: Topology, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 10**6), min_size=1, max_size=12))
    scheme = data.draw(expressions(name, net.host_count))
    try:
        forest = build(scheme, net, sizes)
    except SchemeError:
        assert may_be_refused(scheme, net, sum(sizes))
        return
    verify(forest, net)
    assert adds_up(forest)
    shares_are_right(forest, scheme, sizes)
    bytes_are_right(forest, net)


def adds_up(forest: Forest) -> bool:
    """Sums random integers along the trees, children before parents, and hands the sums down again."""
    gradient = np.random.default_rng(0).integers(-99, 99, len(forest.nodes))
    helpers = [node for node in range(len(forest.nodes)) if node not in forest.workers]
    gradient[helpers] = 0
    for up, down in zip(forest.reduce.tolist(), forest.broadcast.tolist(), strict=True):
        partial = gradient.copy()
        for node in sorted(range(len(up)), key=lambda node: -_depth(up, node)):
            if up[node] >= 0:
                partial[up[node]] += partial[node]
        result = np.zeros_like(gradient)
        for node in sorted(range(len(down)), key=lambda node: _depth(down, node)):
            if down[node] != ABSENT:
                result[node] = partial[node] if down[node] == ROOT else result[down[node]]
        if not (result[list(forest.workers)] == gradient.sum()).all():
            return False
    return True


def _depth(parents: list[int], node: int) -> int:
    steps = 0
    while parents[node] >= 0:
        node, steps = parents[node], steps + 1
    return steps


def shares_are_right(forest: Forest, scheme: str, sizes: list[int]) -> None:
    """Whole tensors in order where they are placed whole, else equal shares."""
    if forest.aligned:
        assert scheme.startswith(("ps(place=tensor", "ps(place=lpt"))
        assert forest.share.tolist() == sizes
    else:
        assert set(forest.share.tolist()) == {1}


def bytes_are_right(forest: Forest, net: Topology) -> None:
    """Each class goes once over each edge of its two trees, and no less than there is no way around."""
    found = cost(forest, net, 1000.0)
    edges = np.count_nonzero(forest.reduce >= 0, axis=1) + np.count_nonzero(forest.broadcast >= 0, axis=1)
    assert found.wire_bytes == pytest.approx(1000.0 * (edges * forest.share).sum() / forest.share.sum())
    assert (edges >= 2 * (len(forest.workers) - 1)).all()
    traffic = flows(forest, 1000.0)
    helped = len(forest.workers) < net.host_count
    least = 1000.0 if helped or forest.fixed else 1000.0 * 2 * (len(forest.workers) - 1) / len(forest.workers)
    busiest = max(
        np.bincount(ends, traffic.count_bytes).max(initial=0.0) for ends in (traffic.senders, traffic.receivers)
    )
    assert busiest >= least - 1e-6 or len(forest.workers) == 1
