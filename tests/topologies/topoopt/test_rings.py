"""CoinChangeMod: as few hops as over circuits, and steps that depend on the destination alone."""

from __future__ import annotations

import math

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies.addressing import routes
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.topologies.topoopt.rings import both_ways, coins_of, fewest, first_coins, order, rings, totient_perms


@st.composite
def coprime(draw: st.DrawFn) -> tuple[int, list[int]]:
    servers = draw(st.integers(2, 60))
    strides = [p for p in range(1, servers) if math.gcd(p, servers) == 1]
    return servers, draw(st.lists(st.sampled_from(strides), min_size=1, max_size=4, unique=True))


def test_the_papers_twelve_servers_with_rings_1_and_5() -> None:
    coins = both_ways(12, [1, 5])
    assert coins == (1, 5, 7, 11)
    assert fewest(12, coins)[1:] == [1, 2, 3, 2, 1, 2, 1, 2, 3, 2, 1]
    assert first_coins(12, coins) == [0, 1, 1, 1, 5, 5, 1, 7, 1, 1, 5, 11]


@given(coprime())
def test_hops_are_those_of_a_breadth_first_search(case: tuple[int, list[int]]) -> None:
    servers, strides = case
    hops = nx.single_source_shortest_path_length(nx.circulant_graph(servers, strides), 0)
    coins = both_ways(servers, strides)
    count, first = fewest(servers, coins), first_coins(servers, coins)
    assert count == [hops[server] for server in range(servers)]
    for difference in range(1, servers):
        paying = [coin for coin in coins if count[(difference - coin) % servers] == count[difference] - 1]
        assert first[difference] == min(paying)


@given(coprime())
def test_coins_are_read_from_circuits(case: tuple[int, list[int]]) -> None:
    servers, strides = case
    circuits = [(s, (s + p) % servers) for p in strides for s in range(servers)]
    assert coins_of(servers, circuits) == both_ways(servers, strides)


def test_a_ring_that_lacks_a_circuit_is_no_coin() -> None:
    ring = [(s, (s + 1) % 6) for s in range(6)]
    assert coins_of(6, ring) == (1, 5)
    assert coins_of(6, [*ring[1:], (0, 3), (1, 4), (2, 5)]) == (3,)


def test_what_no_coins_pay() -> None:
    assert fewest(6, (2, 4)) == [0, -1, 1, -1, 1, -1]
    assert first_coins(6, (2, 4)) == [0, 0, 2, 0, 4, 0]


def made(arguments: str) -> Topology:
    return build(f"patch_panel({arguments},routing=coin_change)", rate_bps=10**9)


def passed(topology: Topology, src: int, dst: int) -> list[int]:
    return [src, *(topology.head(link) for link in topology.paths(src, dst)[0].links[1::2])]


@settings(max_examples=20)
@given(coprime())
def test_patch_panels_route_by_coins_and_the_kernel_can_hold_the_routes(case: tuple[int, list[int]]) -> None:
    servers, strides = case
    servers, strides = (servers, strides) if servers <= 20 else (16, [3, 5])
    kept = sorted({min(p, servers - p) for p in strides})
    topology = made(f"servers={servers},degree={2 * len(kept) + 4},rings=[{','.join(map(str, kept))}]")
    assert build(topology.expression, rate_bps=10**9) == topology
    coins = both_ways(servers, kept)
    count, first = fewest(servers, coins), first_coins(servers, coins)
    pairs = [(src, dst) for src in range(servers) for dst in range(servers) if src != dst]
    for src, dst in pairs:
        path = passed(topology, src, dst)
        assert len(path) - 1 == count[(dst - src) % servers]
        assert path[1] == (src + first[(dst - src) % servers]) % servers
    routes(topology, pairs)  # refuses what the kernel could not forward by destination


def test_circuits_to_the_destination_itself_and_given_routes_come_before_coins() -> None:
    topology = made("servers=12,degree=3,rings=[1],circuits=[[0-6,3-9]],routes=[2-1-0-6]")
    assert passed(topology, 0, 6) == [0, 6]
    assert passed(topology, 1, 6) == [1, 0, 6], "on the way of a given route"
    assert passed(topology, 2, 6) == [2, 1, 0, 6]
    assert passed(topology, 3, 6) == [3, 4, 5, 6]
    assert passed(topology, 11, 5) == [11, 0, 1, 2, 3, 4, 5], "MP circuits are no coins"


def test_rings_by_stride_are_needed() -> None:
    with pytest.raises(TopologyError) as error:
        made("servers=4,degree=2,rings=[[0,1,3,2]]").paths(0, 3)
    assert str(error.value) == (
        "patch_panel(servers=4,degree=2,rings=[[0,1,3,2]],routing=coin_change): no circuit joins h0 and h3, and no "
        "rings over all servers lead there\n  fix: give rings by stride, such as rings=[1], or take routing=shortest"
    )


def test_the_papers_twelve_servers_have_four_permutations_and_two_rings() -> None:
    assert totient_perms(12) == [1, 5, 7, 11]
    assert rings(12) == [1, 5]


def test_fifteen_servers() -> None:
    assert totient_perms(15) == [1, 2, 4, 7, 8, 11, 13, 14]
    assert rings(15) == [1, 2, 4, 7]


def test_only_primes_from_1024_members_on() -> None:
    assert totient_perms(1023)[:4] == [1, 2, 4, 5]
    assert totient_perms(1024)[:5] == [3, 5, 7, 11, 13]
    assert totient_perms(1026)[:4] == [5, 7, 11, 13]
    assert len(totient_perms(1024)) == 171  # the 172 primes below 1,024 without 2
    assert rings(1024)[0] == 3


@given(st.sets(st.integers(0, 99), min_size=2, max_size=30))
def test_each_permutation_passes_each_member_once_and_p_is_the_reverse_of_k_minus_p(chosen: set[int]) -> None:
    members = sorted(chosen)
    for p in totient_perms(len(members)):
        passed = order(members, p)
        assert sorted(passed) == members
        back = order(members, len(members) - p)
        assert back == (passed[0], *passed[:0:-1])
    assert len(rings(len(members))) == max(1, sum(math.gcd(p, len(members)) == 1 for p in range(1, len(members))) // 2)
