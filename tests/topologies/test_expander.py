"""Random graphs of servers: every one regular, simple and connected, and the same for one seed."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.topologies.describe import bisection_bps
from testbed.topologies.draw import svg, text
from testbed.topologies.model import Topology
from testbed.topologies.prices import bill

JELLYFISH = [(0, 1), (0, 3), (0, 5), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5), (3, 4)]
"""Of six servers with three NICs and seed 1; XPANDER of eight."""
XPANDER = [(0, 2), (0, 5), (0, 7), (1, 3), (1, 4), (1, 6), (2, 5), (2, 6), (3, 4), (3, 7), (4, 7), (5, 6)]


def made(expression: str) -> Topology:
    return build(f"expander({expression})", rate_bps=100 * 10**9)


def graph(topology: Topology) -> nx.Graph:
    """Parallel links and links to itself would be lost here, so there are none if none is missing."""
    found = nx.Graph((link.a, link.b) for link in topology.links)
    assert found.number_of_edges() == len(topology.links)
    assert nx.number_of_selfloops(found) == 0
    return found


@given(st.integers(3, 9), st.integers(1, 12), st.integers(0, 2**70), st.booleans())
def test_a_graph_is_regular_simple_and_connected(degree: int, more: int, seed: int, lifted: bool) -> None:
    servers = more * (degree + 1) if lifted else degree + more + (degree + more) * degree % 2
    kind = "xpander" if lifted else "jellyfish"
    topology = made(f"servers={servers},degree={degree},kind={kind},seed={seed}")
    found = graph(topology)
    assert [count for _, count in sorted(found.degree)] == [degree] * servers
    assert nx.is_connected(found)
    ports = [[topology.head(link) for link in topology.ports[host]] for host in topology.hosts]
    assert ports == [sorted(found[host]) for host in topology.hosts]


def test_an_xpander_has_a_matching_between_each_two_groups_and_no_link_within() -> None:
    found = graph(made("servers=30,degree=5,kind=xpander,seed=3"))
    groups = [range(first, first + 5) for first in range(0, 30, 5)]
    assert all(found.subgraph(group).number_of_edges() == 0 for group in groups)
    for one, other in combinations(groups, 2):
        assert sorted(sum(b in found[a] for b in other) for a in one) == [1] * 5
        assert sorted(sum(a in found[b] for a in one) for b in other) == [1] * 5


@pytest.mark.parametrize("kind", ["jellyfish", "xpander"])
def test_a_graph_that_is_not_connected_is_drawn_again(kind: str) -> None:
    """Of 3-regular graphs on eight servers, some are twice four servers: 50 seeds would meet them."""
    assert all(nx.is_connected(graph(made(f"servers=8,degree=3,kind={kind},seed={seed}"))) for seed in range(50))


def test_one_seed_gives_the_same_links_for_ever() -> None:
    """Ids of trials hold the expression, so what it means must not change."""
    links = [(link.a, link.b) for link in made("servers=6,degree=3,seed=1").links]
    assert links == [(link.a, link.b) for link in made("servers=6,degree=3,seed=1").links]
    assert links != [(link.a, link.b) for link in made("servers=6,degree=3,seed=2").links]
    assert links == JELLYFISH
    lifted = made("servers=8,degree=3,kind=xpander,seed=1")
    assert [(link.a, link.b) for link in lifted.links] == XPANDER


def test_few_hops_join_many_servers() -> None:
    """128 servers with four NICs: a ring of stride 1 and one of 11 have 5.48 hops in the mean, and 9 at most."""
    found = graph(made("servers=128,degree=4"))
    assert nx.average_shortest_path_length(found) < 4.2
    assert nx.diameter(found) < 8


def test_all_servers_of_a_complete_graph_are_neighbours() -> None:
    topology = made("servers=4,degree=3")
    assert all(len(topology.paths(a, b)[0].links) == 1 for a, b in combinations(topology.hosts, 2))
    assert bisection_bps(topology) == 4 * 100 * 10**9


def test_servers_are_drawn_in_a_circle_and_listed_with_their_neighbours() -> None:
    topology = made("servers=4,degree=3")
    assert svg(topology).count("<line") == 6
    assert text(topology).splitlines()[:2] == ["hosts with direct links: 4", "  h0 -- h1 h2 h3"]


def test_no_switch_is_paid_for() -> None:
    parts = {item.name: item.count for item in bill(made("servers=16,degree=4"))}
    assert parts == {"NIC 100 Gbit/s": 64, "transceiver 100 Gbit/s": 64, "cable": 32}
