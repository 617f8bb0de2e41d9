"""Which links of a path may limit a transfer."""

from __future__ import annotations

import random

import pytest

from testbed.workloads.kinds.fabric.scheduling.cases import Funnel, Limits
from testbed.workloads.kinds.fabric.scheduling.network import Load, Network
from testbed.workloads.kinds.fabric.scheduling.residual import flow
from tests.workloads.kinds.fabric.scheduling.networks import MBIT, SIZE_BYTES, racks, star

SERVER, REPLICA = 9, 10


def test_around_one_switch_both_links_limit() -> None:
    limits = Limits(star(4), (0, 1), (3,))
    assert limits.of(0, 3) == (0, 7)
    assert limits.of(3, 3) == ()
    assert limits.funnel(3) == Funnel(7, frozenset({0, 1}))


def shared() -> int:
    """The link from the spine to the last rack."""
    return racks(4, 1.0).path(0, SERVER)[2]


@pytest.mark.parametrize("busy", [False, True])
def test_links_of_racks_that_carry_all_of_their_hosts_limit_nothing(busy: bool) -> None:
    """Server and replica share a link of 100 Mbit/s. Unless the replica has some of it, the server's own has no more
    left, and one of them is enough."""
    network = racks(4, 100 * MBIT)
    if busy:
        network.reserve(Load(0, REPLICA, SIZE_BYTES))
    limits = Limits(network, range(9), (SERVER, 4))
    own = network.path(10, SERVER)[-1]
    assert limits.funnel(SERVER) == Funnel(shared() if busy else own, frozenset(range(9)))
    assert limits.of(0, 4) == (network.path(0, 4)[0], network.path(0, 4)[-1])


def test_a_link_of_a_rack_that_carries_less_is_left_in() -> None:
    assert shared() in Limits(racks(4, 50 * MBIT), range(9), (SERVER, REPLICA)).of(0, SERVER)


def test_there_is_no_funnel_where_two_nodes_share_a_slow_link() -> None:
    limits = Limits(racks(4, 150 * MBIT), range(9), (SERVER, REPLICA))
    assert limits.funnel(SERVER) is None


@pytest.mark.parametrize("seed", range(8))
def test_transfers_end_as_on_the_whole_path_whatever_is_reserved(seed: int) -> None:
    chance = random.Random(seed)
    network = racks(4, chance.choice([50, 100, 300]) * MBIT)
    for _ in range(4):
        send(network, chance, range(12))
    targets = (SERVER, 1, 4, 8)
    limits = Limits(network, range(9), targets)
    for _ in range(20):
        load = send(network, chance, targets)
        left = [network.residual(link) for link in limits.of(load.source, load.target)]
        assert not left or flow(left, 8 * load.size_bytes, 0.0)[1] == pytest.approx(network.end_s(load))


def send(network: Network, chance: random.Random, targets: range | tuple[int, ...]) -> Load:
    load = Load(chance.randrange(9), chance.choice(targets), chance.uniform(0.1, 1) * SIZE_BYTES)
    network.reserve(load)
    return load
