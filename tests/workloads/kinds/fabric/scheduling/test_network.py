"""Residual rates: what a transfer takes of its path, and what is left."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SchemeError
from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.scheduling.model import Transfer
from testbed.workloads.kinds.fabric.scheduling.network import Load, Network
from testbed.workloads.kinds.fabric.scheduling.residual import Residual, flow, less, send, when
from tests.workloads.kinds.fabric.scheduling.networks import MBIT, SIZE_BYTES, star


def steps(*known: tuple[float, float]) -> Residual:
    return Residual([at for at, _ in known] + [math.inf], [rate for _, rate in known])


def fig_4() -> Network:
    """30 MB over 2 MB/s for 1 s, 4 MB/s for 2 s, then 5 MB/s."""
    megabyte = 8 * MBIT
    out = [(0.0, 2 * megabyte), (1.0, 4 * megabyte), (3.0, 5 * megabyte)]
    return Network(build("star(hosts=2)", rate_bps=100 * megabyte), {0: out})


RATES = st.integers(0, 5).map(lambda n: float(20 * MBIT * n))
MOMENTS = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 1.0, 1.7, 2.0])
LINKS = st.lists(st.tuples(MOMENTS, RATES), max_size=4)
LOADS = st.builds(Load, st.integers(0, 3), st.integers(0, 3), st.sampled_from([1e5, 1e6 / 3, 1e6, 7e6]), MOMENTS)


def test_a_transfer_uses_what_the_bottleneck_has_left():
    assert fig_4().end_s(Load(0, 1, 30e6)) == 7.0


def test_what_is_reserved_is_taken_away():
    network = fig_4()
    sent = network.reserve(Load(0, 1, 30e6, members=(5,), shard=1, is_replica=True))
    assert sent == Transfer(0, 1, 0.0, 7.0, 30e6, (5,), 1, ((0.0, 16e6), (1.0, 32e6), (3.0, 40e6)), True)
    assert network.residual(0) == Residual([0.0, 7.0, math.inf], [0.0, 40e6])
    assert network.residual(3) == steps((0.0, 784e6), (1.0, 768e6), (3.0, 760e6), (7.0, 800e6))
    assert network.end_s(Load(0, 1, 5e6)) == 8.0


def test_a_copy_is_another_state():
    network = fig_4()
    copy = network.copy()
    copy.reserve(Load(0, 1, 30e6))
    assert network.end_s(Load(0, 1, 30e6)) == 7.0
    assert copy.end_s(Load(0, 1, 30e6)) == 13.0


def test_two_transfers_do_not_overlap_on_their_bottleneck():
    network = star(3)
    first, second = network.reserve(Load(0, 2, SIZE_BYTES)), network.reserve(Load(1, 2, SIZE_BYTES))
    assert (first.start_s, first.end_s, second.start_s, second.end_s) == (0.0, 1.0, 1.0, 2.0)


def test_a_slow_transfer_leaves_the_rest_to_others():
    network = star(3, out={0: 10})
    assert network.reserve(Load(0, 2, SIZE_BYTES)).end_s == 10.0
    second = network.reserve(Load(1, 2, SIZE_BYTES))
    assert (second.start_s, second.end_s) == (0.0, pytest.approx(100 / 90))


def test_a_transfer_waits_until_it_is_ready_and_leaves_the_time_before():
    network = star(3)
    assert network.reserve(Load(0, 2, SIZE_BYTES, ready_s=2.0)).start_s == 2.0
    before = network.reserve(Load(1, 2, 1.5 * SIZE_BYTES))
    assert (before.start_s, before.end_s) == (0.0, 1.5)
    around = network.reserve(Load(1, 2, SIZE_BYTES))
    assert around.rates == ((1.5, 100e6), (2.0, 0.0), (3.0, 100e6))
    assert around.end_s == 3.5


def test_a_transfer_that_may_not_be_interrupted_begins_after_what_is_reserved():
    """The link is free from 1.5 to 2 s and from 3 s on."""
    network = star(3)
    network.reserve(Load(0, 2, 1.5 * SIZE_BYTES))
    network.reserve(Load(0, 2, SIZE_BYTES, ready_s=2.0))
    before = network.residual(5)
    assert network.reserve(Load(1, 2, SIZE_BYTES)).resumed_s == 3.0
    network = star(3)
    network.reserve(Load(0, 2, 1.5 * SIZE_BYTES))
    network.reserve(Load(0, 2, SIZE_BYTES, ready_s=2.0))
    whole = network.reserve_whole(Load(1, 2, SIZE_BYTES))
    assert (whole.start_s, whole.end_s, whole.resumed_s) == (3.0, 4.0, None)
    assert network.reserve_whole(Load(1, 2, SIZE_BYTES / 2)).start_s == 1.5, "it fits into what is free"
    network.release(whole)
    assert network.residual(5).rates_bps[-1] == before.rates_bps[-1]


@given(st.dictionaries(st.integers(0, 7), LINKS), st.lists(LOADS, max_size=8))
def test_none_is_interrupted_where_none_may_be(rates: dict[int, list[tuple[float, float]]], loads: list[Load]):
    network = Network(build("star(hosts=4)", rate_bps=100 * MBIT), rates)
    for load in loads:
        made = network.reserve_whole(load)
        assert made.end_s == math.inf or made.resumed_s is None
        assert made.end_s >= load.ready_s
        assert all(min(network.residual(link).rates_bps) >= 0 for link in range(8))
        check_bytes(made)


def test_a_node_reaches_itself_at_once():
    network = star(2)
    assert network.reserve(Load(0, 0, SIZE_BYTES, ready_s=1.0)) == Transfer(0, 0, 1.0, 1.0, SIZE_BYTES)


def test_a_transfer_that_never_ends_ends_at_infinity():
    network = Network(build("star(hosts=2)", rate_bps=100 * MBIT), {0: [(0.0, 10e6), (2.0, 0.0)]})
    assert network.end_s(Load(0, 1, SIZE_BYTES)) == math.inf
    sent = network.reserve(Load(0, 1, SIZE_BYTES))
    assert (sent.start_s, sent.end_s, sent.rates) == (0.0, math.inf, ((0.0, 10e6), (2.0, 0.0)))
    assert network.residual(3) == steps((0.0, 90e6), (2.0, 100e6))
    assert star(2, out={0: 0}).reserve(Load(0, 1, 1.0)) == Transfer(0, 1, math.inf, math.inf, 1.0)


def test_a_link_has_the_rate_of_its_topology_before_the_first_that_is_given():
    network = Network(build("star(hosts=2)", rate_bps=100 * MBIT), {0: [(1.0, 50e6), (0.5, 0.0)]})
    assert network.residual(0) == steps((0.0, 100e6), (0.5, 0.0), (1.0, 50e6))


def test_rates_are_whole_bits_a_second():
    assert star(2, out={0: 1e-6 / 3}).residual(0) == steps((0.0, 0.0))


def test_several_paths_are_refused():
    network = Network(build("fat_tree(k=4,routing=ecmp)", rate_bps=MBIT))
    with pytest.raises(SchemeError, match=r"4 paths from h0 to h15 \(ecmp\)") as told:
        network.end_s(Load(0, 15, 1.0))
    assert told.value.fix == "use a topology with one path between two hosts: leave out ecmp"


def test_what_was_promised_before_rates_fell_leaves_nothing():
    sent = star(2).reserve(Load(0, 1, SIZE_BYTES))
    network = star(2, out={0: 30})
    network.take(sent)
    assert network.residual(0) == steps((0.0, 0.0), (1.0, 30e6))
    assert network.residual(3) == steps((0.0, 0.0), (1.0, 100e6))


@given(st.dictionaries(st.integers(0, 7), LINKS), st.lists(LOADS, max_size=8))
def test_links_carry_what_they_can_and_give_it_back(rates: dict[int, list[tuple[float, float]]], loads: list[Load]):
    network = Network(build("star(hosts=4)", rate_bps=100 * MBIT), rates)
    before = [network.residual(link) for link in range(8)]
    sent = []
    for load in loads:
        said_s = network.end_s(load)
        sent.append(network.reserve(load))
        assert sent[-1].end_s == said_s
        assert all(min(network.residual(link).rates_bps) >= 0 for link in range(8))
        check_bytes(sent[-1])
    for transfer in reversed(sent):
        network.release(transfer)
    assert [network.residual(link) for link in range(8)] == before


def check_bytes(sent: Transfer) -> None:
    if sent.end_s == math.inf or sent.source == sent.target:
        return
    ends = [at for at, _ in sent.rates[1:]] + [sent.end_s]
    bits = sum(rate * (end - at) for (at, rate), end in zip(sent.rates, ends, strict=True))
    assert bits == pytest.approx(8 * sent.size_bytes, rel=1e-6)
    assert sent.rates[0][0] == sent.start_s
    assert sent.rates[0][1] > 0
    assert all(a != b for (_, a), (_, b) in pairwise(sent.rates))


@given(LINKS.filter(bool), st.sampled_from([1e5, 1e6, 3e7]), MOMENTS)
def test_a_flow_leaves_no_step_without_time_and_no_change_without_a_change(
    known: list[tuple[float, float]], bits: float, ready_s: float
):
    residual = Network(build("star(hosts=2)", rate_bps=100 * MBIT), {0: known}).residual(0)
    taken, end_s = flow([residual], bits, ready_s)
    left = less(residual, taken, end_s) if taken else residual
    assert all(a < b for a, b in pairwise(left.times_s))
    assert all(a != b for a, b in pairwise(left.rates_bps))


def link(known: list[tuple[float, float]]) -> Residual:
    return Network(build("star(hosts=2)", rate_bps=100 * MBIT), {0: known}).residual(0)


@given(LINKS, st.lists(st.tuples(LINKS, st.sampled_from([1e6, 1e7, 3e7, 1e8 / 3]), MOMENTS), max_size=12))
def test_the_second_of_two_links_is_taken_in_place_as_any_other(
    known: list[tuple[float, float]], sent: list[tuple[list[tuple[float, float]], float, float]]
):
    slow = link(known)
    fast = Residual(slow.times_s.copy(), slow.rates_bps.copy())
    for before, bits, ready_s in sent:
        taken, end_s = flow([link(before), slow], bits, ready_s)
        slow = less(slow, taken, end_s) if taken else slow
        assert send(fast, link(before), bits, ready_s) == end_s
        assert fast == slow


@given(LINKS, RATES, st.sampled_from([1e6, 1e7, 3e7, 1e8 / 3]), MOMENTS)
def test_behind_a_constant_rate_a_transfer_ends_as_any_other(
    known: list[tuple[float, float]], most_bps: float, bits: float, ready_s: float
):
    assert when(link(known), most_bps, bits, ready_s) == flow([steps((0.0, most_bps)), link(known)], bits, ready_s)[1]
