"""Bytes by link of every kind of collective, by the trees that the engine takes."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.topologies.build import build
from testbed.workloads.kinds.ranks import Call
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.kinds.script.ways import Ways
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.schemes import build as build_forest
from tests.workloads.kinds.script.made import call

STAR = build("star(hosts=4)", rate_bps=10**9, delay_s=0.0)
RING = scripted(build_forest("ring", STAR, [1]))
SIZE = 4_000_000


def sent(
    one: Call,
    plan: object = RING,
    topology: object = STAR,
    groups: dict[int, tuple[int, ...]] | None = None,
    rank: int = 0,
) -> float:
    """What all nodes together send."""
    return Ways(plan, topology, groups or {}).moved([(rank, one)])[1]  # type: ignore[arg-type]


def test_a_sum_takes_what_its_scheme_says_and_several_add_up() -> None:
    once = cost(RING, STAR, SIZE)
    links, wire = Ways(RING, STAR, {}).moved([(0, call(0, SIZE, 1.0, ranks=4)), (0, call(1, SIZE, 2.0, ranks=4))])
    np.testing.assert_allclose(links, 2 * once.link_bytes)
    assert wire == pytest.approx(2 * once.wire_bytes)


@pytest.mark.parametrize(
    ("op", "share"),
    [("allreduce", 6.0), ("reduce_scatter", 3.0), ("all_gather", 3.0), ("broadcast", 3.0), ("reduce", 3.0)],
)
def test_around_a_ring_of_four_each_half_of_a_sum_takes_three_times_the_array(op: str, share: float) -> None:
    root = 1 if op in ("broadcast", "reduce") else None
    assert sent(call(0, SIZE, 1.0, op=op, ranks=4, root=root)) == pytest.approx(share * SIZE)


def test_a_barrier_takes_next_to_nothing() -> None:
    assert sent(call(0, 4, 1.0, op="barrier", dtype="int32", ranks=4)) < 100


def test_of_what_gloo_moves_only_sums_are_known_and_none_is_sent_by_our_engine() -> None:
    """As those that sums are compared with: what nodes count has none of them, and links carry them."""
    links, wire = Ways(RING, STAR, {}).moved([(0, call(0, SIZE, 1.0, by="gloo", ranks=4))])
    assert links.sum() == pytest.approx(2 * 6.0 * SIZE)  # from host to switch and on
    assert wire == 0
    links, wire = Ways(RING, STAR, {}).moved([(0, call(0, SIZE, 1.0, op="broadcast", root=0, by="gloo", ranks=4))])
    assert (links.sum(), wire) == (0, 0)


def test_a_group_of_two_has_a_ring_of_its_own() -> None:
    of_two = call(0, SIZE, 1.0, ranks=2, group=5, by="ring")
    assert sent(of_two, groups={5: (1, 3)}) == pytest.approx(2 * SIZE)
    links, _ = Ways(RING, STAR, {5: (1, 3)}).moved([(1, of_two)])
    busy = {STAR.nodes[STAR.tail(link)].name for link in np.flatnonzero(links).tolist()}
    assert busy == {"h1", "h3", "s0"}


def test_halves_are_widened_where_switches_add_and_wide_numbers_go_around() -> None:
    star = build("star(hosts=4,ina=all)", rate_bps=10**9, delay_s=0.0)
    switch = scripted(build_forest("switchml", star, [1]))
    whole = sent(call(0, SIZE, 1.0, ranks=4), switch, star)
    assert sent(call(0, SIZE, 1.0, ranks=4, dtype="bfloat16"), switch, star) == pytest.approx(2 * whole)
    assert sent(call(0, SIZE, 1.0, ranks=4, dtype="float64", by="ring"), switch, star) == pytest.approx(6.0 * SIZE)


@pytest.mark.parametrize(
    ("op", "root", "of_rank_0", "of_rank_1"),
    [
        ("send", 2, 1.0, 1.0),
        ("recv", 2, 0.0, 0.0),
        ("all_to_all", None, 0.75, 0.75),
        ("gather", 0, 0.0, 0.25),
        ("scatter", 0, 0.75, 0.0),
    ],
)
def test_what_goes_directly_is_what_each_rank_sends(
    op: str, root: int | None, of_rank_0: float, of_rank_1: float
) -> None:
    one = call(0, SIZE, 1.0, op=op, ranks=4, root=root, by="direct")
    assert [sent(one, rank=rank) for rank in (0, 1)] == [of_rank_0 * SIZE, of_rank_1 * SIZE]
