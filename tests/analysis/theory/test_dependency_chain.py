"""Rina's equation 3, and members of its ring."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.theory.dependency_chain import (
    Overheads,
    rina_share,
    rina_steps,
    ring_members,
    ring_steps,
    scatter_reduce_s,
)
from testbed.topologies.build import build

part = st.floats(1e-6, 10)


@given(n=st.integers(1, 2000), overhead=part, jitter=part)
def test_it_grows_with_workers_and_with_jitter(n: int, overhead: float, jitter: float) -> None:
    now = scatter_reduce_s(n, overhead, 1.0, jitter)
    assert scatter_reduce_s(n + 1, overhead, 1.0, jitter) > now
    assert scatter_reduce_s(n + 1, overhead, 1.0, 2 * jitter) > scatter_reduce_s(n + 1, overhead, 1.0, jitter)
    assert now == pytest.approx(n * overhead + 1 + n * jitter * math.sqrt(2 * math.log(n)))


@pytest.mark.parametrize(("n", "least"), [(16, 0.7), (72, 0.8), (1000, 0.85)])
def test_against_drawn_times(n: int, least: float) -> None:
    """Equation 3's step from the expected maximum to mu + sigma sqrt(2 ln n) is above it for any n, by 15 to 30 % of
    the term for such n: an upper bound, as drawing N rounds of N normal times shows."""
    overhead_s, transfer_s, sigma_s = 0.001, 1.0, 0.01
    drawn = np.random.default_rng(1).normal(transfer_s / n, sigma_s, (400, n))
    time_s = n * overhead_s + n * drawn.max(axis=1).mean()
    calm_s = n * overhead_s + transfer_s
    jitter = (time_s - calm_s) / (scatter_reduce_s(n, overhead_s, transfer_s, sigma_s) - calm_s)
    assert least <= jitter <= 1


def test_members() -> None:
    net = build("spine_leaf(racks=3,hosts_per_rack=4,spines=1)", rate_bps=10**9)
    leaf, spine = net.index["leaf0"], net.index["spine0"]
    assert ring_members(net, ()) == 12
    assert ring_members(net, {leaf}) == 9
    assert ring_members(net, {leaf, leaf + 1, leaf + 2}) == 3
    assert ring_members(net, {leaf, spine}) == 9, "a switch without hosts is in no rack"
    alone = build("spine_leaf(racks=3,hosts_per_rack=1,spines=1)", rate_bps=10**9)
    assert ring_members(alone, alone.switches) == 3


@cache
def members_by_racks(network: str) -> list[int]:
    """Members of the ring when so many racks aggregate."""
    net = build(network, rate_bps=10**9)
    racks = [switch for switch in net.switches if net.nodes[switch].level == 1]
    return [ring_members(net, racks[:count]) for count in range(len(racks) + 1)]


@pytest.mark.parametrize("network", ["fat_tree(k=4)", "dragonfly(a=4,g=9,h=2)"])
@given(overheads=st.builds(Overheads, part, part))
def test_each_rack_pays(network: str, overheads: Overheads) -> None:
    """Any overhead above 0: each further rack raises the share; all of them at most 2.31 times."""
    shares = [rina_share(members, overheads) for members in members_by_racks(network)]
    assert all(later > earlier for earlier, later in itertools.pairwise(shares))
    assert shares[-1] < 1
    assert shares[-1] / shares[0] < 2.31


def test_steps() -> None:
    """Section IV-B2: racks of eight make G = N/8. In racks of two, Rina's two phases are as many steps as a ring's."""
    assert ring_steps(64) == 126
    assert rina_steps(64 // 8) == 15
    assert 2 * rina_steps(36) == ring_steps(72)
