"""Trees of calls: every scheme's, on small networks, do what each call is for."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.kinds.script.collectives.calls import BARRIER, DTYPES, Call, What
from testbed.workloads.kinds.script.collectives.shapes import fewer, shape
from testbed.workloads.kinds.script.collectives.trees import delivers, of_group, ring_of, rooted, trees
from testbed.workloads.sync.flows import flows
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify

CASES = [
    ("ring", "star(hosts=5)"),
    ("ring", "star(hosts=1)"),
    ("multi_ring(strides=[1,2])", "star(hosts=5)"),
    ("ps", "star(hosts=4)"),
    ("ps(servers=1)", "star(hosts=4)"),
    ("ps(colocated=false,servers=2)", "star(hosts=5)"),
    ("halving_doubling", "star(hosts=6)"),
    ("halving_doubling(remainder=fold)", "star(hosts=5)"),
    ("bcube(base=3)", "star(hosts=6)"),
    ("tree", "star(hosts=7)"),
    ("double_binary_tree", "star(hosts=6)"),
    ("hierarchical_ps", "spine_leaf(racks=2,hosts_per_rack=2,spines=1)"),
    ("hierarchical_ps(across=ring)", "spine_leaf(racks=3,hosts_per_rack=2,spines=1)"),
    ("two_level", "spine_leaf(racks=2,hosts_per_rack=3,spines=1)"),
    ("h_ar", "spine_leaf(racks=2,hosts_per_rack=3,spines=1)"),
    ("bml", "bcube(n=2,k=2)"),
    ("bml", "bcube(n=3,k=2)"),
    ("switchml", "star(hosts=4,ina=all)"),
    ("switchml", "spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=all)"),
    ("atp", "spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=all)"),
    ("rina", "spine_leaf(racks=2,hosts_per_rack=3,spines=1,ina=all)"),
]
WITH_TREES = (What.ALLREDUCE, What.BROADCAST, What.REDUCE, What.REDUCE_SCATTER, What.ALL_GATHER, What.BARRIER)


def built(scheme: str, network: str) -> tuple[Topology, Forest]:
    topology = build_topology(network, rate_bps=10**9)
    return topology, build(scheme, topology, [])


def a_call(what: What, size: int, piece: int, root: int) -> Call:
    if what == What.BARRIER:
        return BARRIER
    adds = what in (What.ALLREDUCE, What.REDUCE, What.REDUCE_SCATTER)
    return Call(
        what, "int32", piece * size, "sum" if adds else "", root if what in (What.BROADCAST, What.REDUCE) else -1
    )


def run(forest: Forest, call: Call, chunk_bytes: int) -> dict[int, np.ndarray]:
    """What each node holds after the call, by simulating the chunks along the trees; -1 where it got nothing."""
    made = shape(forest, call, chunk_bytes, forest.workers[0])
    table, f = made.table, made.forest
    start = {node: np.arange(call.count) * 100 + n + 1 for n, node in enumerate(forest.workers)}
    result = {node: np.full(call.count, -1) for node in forest.workers}
    for k in range(len(table)):
        span, c = slice(table.start[k], table.stop[k]), table.klass[k]
        partial = {node: start[node][span] if node in start else 0 for node in np.flatnonzero(f.reduce[c] != ABSENT)}
        for node in sorted(partial, key=lambda node: -depth(f.reduce[c], node)):
            if f.reduce[c, node] >= 0:
                partial[f.reduce[c, node]] = partial[f.reduce[c, node]] + partial[node]
        root = int(np.flatnonzero(f.reduce[c] == ROOT)[0])
        assert f.broadcast[c, root] == ROOT
        for node in forest.workers:
            if f.broadcast[c, node] != ABSENT:
                assert depth(f.broadcast[c], node) < len(f.nodes)
                result[node][span] = partial[root]
    return result


def depth(parents: np.ndarray, node: int) -> int:
    steps = 0
    while parents[node] >= 0:
        node, steps = parents[node], steps + 1
        assert steps <= len(parents)
    assert parents[node] == ROOT
    return steps


def right(forest: Forest, call: Call, result: dict[int, np.ndarray]) -> None:
    size = len(forest.workers)
    own = [np.arange(call.count) * 100 + n + 1 for n in range(size)]
    piece = call.count // size
    for n, node in enumerate(forest.workers):
        mine = slice(n * piece, (n + 1) * piece)
        match call.what:
            case What.ALLREDUCE | What.BARRIER:
                assert (result[node] == sum(own)).all()
            case What.BROADCAST:
                assert (result[node] == own[call.root]).all()
            case What.REDUCE:
                assert n != call.root or (result[node] == sum(own)).all()
            case What.REDUCE_SCATTER:
                assert (result[node][mine] == sum(own)[mine]).all()
            case What.ALL_GATHER:
                for other in range(size):
                    part = slice(other * piece, (other + 1) * piece)
                    assert (result[node][part] == own[other][part]).all()


@pytest.mark.parametrize(("scheme", "network"), CASES)
def test_every_call_delivers_with_every_scheme(scheme: str, network: str) -> None:
    _, forest = built(scheme, network)
    size = len(forest.workers)
    for what in WITH_TREES:
        for piece in (1, 7, 2000):
            for root in range(size) if what in (What.BROADCAST, What.REDUCE) else (0,):
                call = a_call(what, size, piece, root)
                assert delivers(trees(forest, call), call) == ""
                right(forest, call, run(forest, call, 1000))


@pytest.mark.parametrize(("scheme", "network"), CASES)
def test_allreduces_pass_the_verifier(scheme: str, network: str) -> None:
    topology, forest = built(scheme, network)
    for count in (1, 1000, 100_000):
        call = Call(What.ALLREDUCE, "float32", count, "sum")
        verify(fewer(trees(forest, call), call), topology)
    verify(trees(forest, BARRIER), topology)


@given(
    case=st.sampled_from(CASES), seed=st.integers(0, 10**6), piece=st.integers(1, 400), what=st.sampled_from(WITH_TREES)
)
def test_groups_of_some_members(case: tuple[str, str], seed: int, piece: int, what: What) -> None:
    _, forest = built(*case)
    draw = random.Random(seed)
    members = draw.sample(forest.workers, draw.randint(1, len(forest.workers)))
    group, _ = of_group(forest, members)
    assert group.workers == tuple(members)
    if set(members) != set(forest.workers):
        others = [node for node in range(len(forest.nodes)) if node not in members]
        assert (group.reduce[:, others] == ABSENT).all()
        assert (group.broadcast[:, others] == ABSENT).all()
    call = a_call(what, len(members), piece, draw.randrange(len(members)))
    right(group, call, run(group, call, draw.choice([16, 300, 5000])))


def test_a_group_keeps_the_scheme_where_its_trees_allow_it() -> None:
    _, ps = built("ps", "star(hosts=4)")
    group, scheme = of_group(ps, [2, 0])
    assert scheme
    assert group.classes == 2
    assert group.scheme == "ps"
    _, doubling = built("tree", "star(hosts=7)")
    group, scheme = of_group(doubling, [5, 6, 3])
    assert not scheme
    assert group.scheme == "ring of 3"


def test_a_ring_reduces_and_gathers_with_half_an_allreduce_each() -> None:
    _, ring = built("ring", "star(hosts=4)")
    whole = flows(ring, 4000.0)
    for what in (What.REDUCE_SCATTER, What.ALL_GATHER):
        call = a_call(what, 4, 250, 0)
        made = trees(ring, call)
        assert made.classes == 4
        sent = np.bincount(flows(made, 4000.0).senders, flows(made, 4000.0).count_bytes)
        assert sent.tolist() == (np.bincount(whole.senders, whole.count_bytes) / 2).tolist()


def test_a_broadcast_of_sharded_servers_goes_through_all_of_them() -> None:
    """In place of one rank sending everything to everybody."""
    _, ps = built("ps", "star(hosts=8)")
    made = trees(ps, Call(What.BROADCAST, "float32", 8000, root=3))
    sent = flows(made, 8.0)
    assert max(np.bincount(sent.senders, sent.count_bytes)) < 2 * 8.0


def test_rooting_anew_keeps_the_edges() -> None:
    _, tree = built("tree", "star(hosts=7)")

    def edges(some: np.ndarray) -> set[frozenset[int]]:
        return {frozenset((child, parent)) for child, parent in enumerate(some.tolist()) if parent >= 0}

    for root in range(7):
        anew = rooted(tree.reduce, root)
        assert anew[0, root] == ROOT
        assert edges(anew[0]) == edges(tree.reduce[0])


def test_small_calls_take_few_classes() -> None:
    _, ring = built("ring", "star(hosts=8)")
    for count, classes in ((1, 1), (1024, 2), (100_000, 8)):
        call = Call(What.ALLREDUCE, "float32", count, "sum")
        assert fewer(trees(ring, call), call).classes == classes


def test_what_does_not_deliver_is_told() -> None:
    _, ring = built("ring", "star(hosts=3)")
    call = Call(What.ALLREDUCE, "float32", 99, "sum")
    broken = ring.reduce.copy()
    broken[1, 0] = ABSENT
    assert delivers(replace(ring, reduce=broken), call) == "class 1 misses h0, h2"
    circle = ring.broadcast.copy()
    circle[0] = [1, 2, 0, ABSENT]
    assert delivers(replace(ring, broadcast=circle), call) == "class 0 misses h0, h1, h2"


@given(
    what=st.sampled_from(list(What)),
    dtype=st.sampled_from([name for name, _ in DTYPES]),
    count=st.integers(0, 2**40),
    op=st.sampled_from(["", "sum", "avg"]),
    root=st.integers(-1, 2**20),
)
def test_a_call_is_read_as_it_was_told(what: What, dtype: str, count: int, op: str, root: int) -> None:
    call = Call(what, dtype, count, op, root)
    assert Call.decode(call.encode()) == call


@given(st.binary(max_size=24))
def test_other_bytes_are_no_call(signature: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert Call.decode(signature).encode()[:3] == signature[:3]


def test_descriptions() -> None:
    assert Call(What.ALLREDUCE, "float32", 1024, "sum").describe() == "allreduce of 1,024 float32 (sum)"
    assert Call(What.BROADCAST, "other", 5, root=2).describe() == "broadcast of 5 bytes from rank 2"
    assert Call(What.REDUCE, "int64", 5, "avg", 0).describe() == "reduce of 5 int64 (avg) to rank 0"


def test_a_ring_of_one() -> None:
    _, ring = built("ring", "star(hosts=3)")
    assert ring_of(ring, [1]).reduce.tolist() == [[ABSENT, ROOT, ABSENT, ABSENT]]
