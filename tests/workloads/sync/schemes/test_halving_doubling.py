"""Binomial trees, and what becomes of hosts beyond a power of two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.flows import flows
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify

Build = Callable[..., Topology]


@pytest.mark.parametrize("hosts", [1, 2, 4, 8, 16])
def test_powers_of_two(topology: Build, hosts: int) -> None:
    net = topology(f"star(hosts={hosts})")
    forest = build("halving_doubling", net, [])
    verify(forest, net)
    found = cost(forest, net, 1e9 / 8)
    assert found.rounds == 2 * (hosts.bit_length() - 1)
    assert found.bound_s() == pytest.approx(2 * (hosts - 1) / hosts)
    assert np.array_equal(forest.reduce, build("halving_doubling(remainder=fold)", net, []).reduce)


def test_halves_go_to_the_neighbour_quarters_further(topology: Build) -> None:
    traffic = flows(build("halving_doubling", topology("star(hosts=8)"), []), 8.0)
    assert {receiver: count for sender, receiver, count in traffic if sender == 0} == {1: 2 * 4, 2: 2 * 2, 4: 2 * 1}


def test_thirteen_hosts_in_blocks_of_eight_four_and_one(topology: Build) -> None:
    """Block 8..11 passes class 5 to host 5 by host 9 (5 mod 4 = 1); block 12 gives it to host 9."""
    net = topology("star(hosts=13)")
    forest = build("halving_doubling", net, [])
    verify(forest, net)
    assert forest.classes == 8
    assert forest.reduce[5].tolist() == [1, 5, 3, 1, 5, -1, 7, 5, 9, 5, 11, 9, 9, -2]
    found = cost(forest, net, 1e9 / 8)
    assert found.rounds == 2 * 3
    assert found.bound_s() == pytest.approx(2)  # host 12 gives its gradient and gets the sum; so do 8 to 11 in all


def test_five_hosts_folded(topology: Build) -> None:
    net = topology("star(hosts=5)")
    forest = build("halving_doubling(remainder=fold)", net, [])
    verify(forest, net)
    assert forest.reduce.tolist() == [
        [1, -1, 1, 1, 3, -2],
        [1, 2, -1, 4, 2, -2],
        [1, 3, 1, -1, 3, -2],
        [1, 2, 4, 4, -1, -2],
    ]
    found = cost(forest, net, 1e9 / 8)
    assert found.rounds == 2 * (2 + 1)
    assert found.bound_s() == pytest.approx(2 * 3 / 4 + 1)  # host 1 carries host 0's gradient on top


@pytest.mark.parametrize("hosts", [3, 5, 6, 7, 9, 12, 23])
def test_blocks_are_never_slower_than_folding(topology: Build, hosts: int) -> None:
    net = topology(f"star(hosts={hosts})")
    blocks = cost(build("halving_doubling", net, []), net, 1e9 / 8)
    fold = cost(build("halving_doubling(remainder=fold)", net, []), net, 1e9 / 8)
    assert blocks.wire_bytes == pytest.approx(fold.wire_bytes)
    assert 2 * (hosts - 1) / hosts <= blocks.bound_s() <= 2 + 1e-9
    assert blocks.bound_s() <= fold.bound_s()
