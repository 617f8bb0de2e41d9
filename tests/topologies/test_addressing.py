"""Subnets are disjoint, as small as they can be, and shared by exactly the ports that reach each other directly."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, ip_address, ip_interface, ip_network
from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies.addressing import Addresses, Route, plan, routes
from testbed.topologies.build import build
from testbed.topologies.circuits import matchings
from testbed.topologies.model import Link, Node, Path, Topology
from testbed.topologies.patch_panel import repatched
from testbed.topologies.shortest import ShortestPaths
from testbed.trial.job_files import peer

EXPRESSIONS = [
    "star(hosts=1)",
    "star(hosts=9)",
    "star(hosts=5,server_nics=3)",
    "star(hosts=62)",
    "star(hosts=63)",
    "bcube(n=3,k=2)",
    "bcube(n=2,k=4)",
    "fat_tree(k=2)",
    "fat_tree(k=4)",
    "fat_tree(k=4,routing=ecmp)",
    "spine_leaf(racks=2,hosts_per_rack=4,spines=1)",
    "dragonfly(a=4,g=9,h=2)",
    "dragonfly(a=1,g=2,h=2)",
    "spine_leaf(racks=3,hosts_per_rack=2,spines=2,routing=ecmp)",
]


def planned(expression: str) -> Addresses:
    return plan(build(expression, rate_bps=1000))


def network(links: list[Link], *, hosts: int, switches: int) -> Topology:
    nodes = [Node(f"h{h}", "host", 0) for h in range(hosts)] + [Node(f"s{s}", "switch", 1) for s in range(switches)]
    return Topology("mine", {}, tuple(nodes), tuple(links), ShortestPaths())


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_port_has_an_address_of_its_own_in_10(expression: str) -> None:
    addresses = planned(expression)
    topology = addresses.topology
    assert set(addresses.host) == {(h, p) for h in topology.hosts for p in range(len(topology.ports[h]))}
    routing = [switch for switch, mode in addresses.mode.items() if mode == "route"]
    assert set(addresses.port) == {(s, p) for s in routing for p in range(len(topology.ports[s]))}
    every = [ip_interface(f"{a}/{length}") for a, length in [*addresses.host.values(), *addresses.port.values()]]
    assert len({each.ip for each in every}) == len(every)
    for each in every:
        assert each.ip in ip_network("10.0.0.0/8")
        if each.network.prefixlen < 31:
            assert each.ip not in (each.network.network_address, each.network.broadcast_address)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_subnets_are_disjoint_and_hold_the_ports_that_reach_each_other(expression: str) -> None:
    addresses = planned(expression)
    topology = addresses.topology
    members: dict[str, set[tuple[int, int]]] = {}
    for port, (address, length) in (addresses.host | addresses.port).items():
        members.setdefault(str(ip_interface(f"{address}/{length}").network), set()).add(port)
    expected = []
    for switch, mode in addresses.mode.items():
        if mode == "bridge":
            expected.append({(topology.head(d), topology.port_at_tail(d ^ 1)) for d in topology.ports[switch]})
    routed = [link for link in topology.links if addresses.mode.get(link.b) != "bridge"]
    expected += [{(link.a, link.a_port), (link.b, link.b_port)} for link in routed]
    assert sorted(map(sorted, members.values())) == sorted(map(sorted, expected))
    subnets = sorted(ip_network(text) for text in members)
    for lower, higher in pairwise(subnets):
        assert lower.broadcast_address < higher.network_address


@pytest.mark.parametrize(("hosts", "length"), [(1, 30), (2, 30), (3, 29), (6, 29), (7, 28), (62, 26), (63, 25)])
def test_a_bridge_has_the_smallest_prefix_that_fits(hosts: int, length: int) -> None:
    assert {prefix for _, prefix in planned(f"star(hosts={hosts})").host.values()} == {length}


def test_modes() -> None:
    assert set(planned("bcube(n=3,k=2)").mode.values()) == {"bridge"}
    assert set(planned("fat_tree(k=4)").mode.values()) == {"route"}
    assert set(planned("spine_leaf(racks=1,hosts_per_rack=4,spines=1)").mode.values()) == {"route"}


def test_a_host_with_two_cables_to_a_switch_makes_it_route() -> None:
    topology = network([Link(0, 0, 2, 0, 1), Link(0, 1, 2, 1, 1), Link(1, 0, 2, 2, 1)], hosts=2, switches=1)
    assert plan(topology).mode == {2: "route"}


def test_hosts_linked_directly_share_a_pair() -> None:
    addresses = plan(network([Link(0, 0, 1, 0, 1)], hosts=2, switches=0))
    assert addresses.host == {(0, 0): ("10.0.0.2", 31), (1, 0): ("10.0.0.3", 31)}
    assert addresses.flow(0, 1) == ("10.0.0.2", "10.0.0.3")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_both_ends_of_a_connection_compute_the_same_addresses(expression: str) -> None:
    addresses = planned(expression)
    topology = addresses.topology
    for src, dst in permutations(topology.hosts, 2):
        flow = addresses.flow(src, dst)
        assert flow == addresses.flow(dst, src)[::-1]
        arrival = topology.paths(src, dst)[0].links[-1] ^ 1
        assert flow[1] == addresses.host[dst, topology.port_at_tail(arrival)][0]


def test_bcube_neighbours_talk_within_the_subnet_of_their_switch() -> None:
    addresses = planned("bcube(n=3,k=2)")
    assert addresses.flow(0, 2) == (addresses.host[0, 0][0], addresses.host[2, 0][0])
    assert addresses.flow(0, 6) == (addresses.host[0, 1][0], addresses.host[6, 1][0])


def test_a_host_has_no_connection_to_itself() -> None:
    with pytest.raises(TopologyError, match=r"no NIC lies between h1 and itself\n  fix: use two different hosts"):
        planned("star(hosts=2)").flow(1, 1)


def test_too_many_addresses() -> None:
    links = [Link(2 * i, 0, 2 * i + 1, 0, 1) for i in range(3)]
    topology = network(links, hosts=6, switches=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("testbed.topologies.addressing._ROOM", 4)
        with pytest.raises(TopologyError, match=r"mine\(\) needs 8 addresses; 10\.0\.0\.0/8 has 4"):
            plan(topology)


SMALL = [
    "star(hosts=5)",
    "star(hosts=5,server_nics=3)",
    "star(hosts=5,server_nics=3,routing=every_nic)",
    *(
        f"spine_leaf(racks={racks},hosts_per_rack=3,spines=2,server_nics={nics},routing={routing})"
        for racks, nics in ((1, 3), (2, 2), (3, 4))
        for routing in ("by_destination", "ecmp", "every_nic")
    ),
    "patch_panel(servers=6,degree=5,rings=[1,1],circuits=[[0-2,3-5]])",
    "patch_panel(servers=8,degree=6,rings=[1,1,3],routing=coin_change)",
    "bcube(n=2,k=2)",
    "bcube(n=3,k=2)",
    "bcube(n=4,k=2)",
    "bcube(n=2,k=3)",
    "bcube(n=3,k=3)",
    "bcube(n=2,k=4)",
    *(f"fat_tree(k={k},routing={routing})" for k in (2, 4, 6) for routing in ("two_level", "by_destination", "ecmp")),
    *(f"fat_tree(k=4,routing={routing},hosts=9)" for routing in ("two_level", "by_destination", "ecmp")),
    *(f"fat_tree(k=4,routing={routing},oversubscription=2)" for routing in ("two_level", "by_destination", "ecmp")),
    *(f"expander(servers=10,degree=4,kind={kind},routing=shortest)" for kind in ("jellyfish", "xpander")),
    "expander(servers=12,degree=3,kind=xpander,seed=7,routing=ecmp)",
    "cloud(rows=1,racks=3,hosts_per_rack=2)",
    "cloud(rows=2,sizes=[3,1,2,2])",
    *(
        f"dragonfly({size},routing={routing})"
        for size in ("a=2,g=3,h=1", "a=1,g=2,h=2", "a=4,g=3,h=2", "a=3,g=4,h=2,p=1")
        for routing in ("minimal", "ecmp")
    ),
    *(
        f"spine_leaf(racks={racks},hosts_per_rack=3,spines={spines},routing={routing})"
        for racks in (1, 2, 3)
        for spines in (1, 2, 3)
        for routing in ("by_destination", "ecmp")
    ),
]


class Kernel:
    """Forwards like Linux: the exact route first, then a connected subnet; bridges are wires."""

    def __init__(self, topology: Topology, installed: list[Route]) -> None:
        self.topology = topology
        self.addresses = plan(topology)
        self.table = {(route.node, route.destination_address): route.hops for route in installed}
        assert len(self.table) == len(installed)
        ports = self.addresses.host | self.addresses.port
        self.owner = {address: node for (node, _), (address, _) in ports.items()}
        self.subnets: dict[int, list[tuple[int, IPv4Network]]] = {}
        for (node, port), (address, length) in ports.items():
            self.subnets.setdefault(node, []).append((port, ip_interface(f"{address}/{length}").network))

    def connected(self, node: int, address: str) -> list[int]:
        return [port for port, subnet in self.subnets[node] if ip_address(address) in subnet]

    def follow(self, node: int, address: str, seen: int = 0, nic: int | None = None) -> Iterator[Path]:
        """Every way that a packet for ``address`` can take from ``node``, sent by a socket that is bound to ``nic``."""
        assert seen <= len(self.topology.nodes), "a loop"
        if self.owner[address] == node:
            yield Path(())
            return
        hops = self.table.get((node, address))
        if hops is None:
            on_link = self.connected(node, address)
            assert len(on_link) == 1, f"{self.topology.nodes[node].name} has no single way to {address}"
            hops = ((on_link[0], None),)
        hops = hops if nic is None else tuple(hop for hop in hops if hop[0] == nic)
        for port, via in hops:
            target = via or address
            assert port in self.connected(node, target), "the next hop is not on this port's subnet"
            taken = self.cross(node, port, self.owner[target])
            for rest in self.follow(self.owner[target], address, seen + 1):
                yield Path((*taken, *rest.links), rest.weight / len(hops))

    def cross(self, node: int, port: int, to: int) -> tuple[int, ...]:
        first = self.topology.ports[node][port]
        head = self.topology.head(first)
        if head == to:
            return (first,)
        assert self.addresses.mode[head] == "bridge"
        return (first, next(d for d in self.topology.ports[head] if self.topology.head(d) == to))


def weights(paths: tuple[Path, ...] | Iterator[Path]) -> dict[tuple[int, ...], float]:
    return {path.links: pytest.approx(path.weight) for path in paths}


def assert_routes_give_paths(topology: Topology, pairs: list[tuple[int, int]]) -> None:
    kernel = Kernel(topology, routes(topology, pairs))
    for a, b in pairs:
        for src, dst in ((a, b), (b, a)):
            for connection, paths in enumerate(topology.connections(src, dst)):
                local, address = kernel.addresses.flow(src, dst, connection)
                whole = sum(path.weight for path in paths)
                bound = peer(kernel.addresses, src, dst, 1, connection).bound
                nic = next(nic for nic, _ in enumerate(topology.ports[src]) if kernel.addresses.of(src, nic) == local)
                ways = kernel.follow(src, address, nic=nic if bound else None)
                assert weights(ways) == {path.links: path.weight / whole for path in paths}


@pytest.mark.parametrize("expression", SMALL)
def test_routes_give_exactly_the_paths(expression: str) -> None:
    topology = build(expression, rate_bps=1000)
    assert_routes_give_paths(topology, list(combinations(topology.hosts, 2)))


@pytest.mark.parametrize("routing", ["two_level", "by_destination", "ecmp"])
def test_routes_over_several_of_the_uplinks_that_are_left(routing: str) -> None:
    topology = build(f"fat_tree(k=8,routing={routing},oversubscription=2)", rate_bps=1000)
    assert_routes_give_paths(topology, [(5, host) for host in (0, 4, 7, 17, 99, 126)])


@pytest.mark.parametrize(
    "expression",
    ["bcube(n=3,k=2)", "bcube(n=2,k=3)", "fat_tree(k=4,routing=ecmp)", "patch_panel(servers=6,degree=4,rings=[1,1])"],
)
def test_every_address_of_a_host_is_reached_by_the_path_to_it(expression: str) -> None:
    topology = build(expression, rate_bps=1000)
    kernel = Kernel(topology, routes(topology, combinations(topology.hosts, 2), every_address=True))
    for src, dst in permutations(topology.hosts, 2):
        for port in range(len(topology.ports[dst])):
            found = weights(kernel.follow(src, kernel.addresses.of(dst, port)))
            assert found == weights(topology.paths_to(src, dst, port))


def test_after_a_move_each_connection_goes_where_theory_has_it() -> None:
    """The addresses of the first circuits, over others: apart, and with other parallel circuits to the same server."""
    first = build("patch_panel(servers=6,degree=5,rings=[1,1])", rate_bps=1000)
    assert first.panels
    for rings in (((0, 2, 4, 1, 3, 5),), (1,), (1, (0, 2, 4, 1, 3, 5)), ((0, 2, 4, 1, 3, 5), 1)):
        moved = repatched(first, first.panels.patch(matchings(6, 5, rings)))
        kernel = Kernel(moved, routes(moved, combinations(moved.hosts, 2), every_address=True))
        for src, dst in permutations(moved.hosts, 2):
            for connection, (path,) in enumerate(moved.connections(src, dst)):
                _, address = plan(first).flow(src, dst, connection)
                assert list(weights(kernel.follow(src, address))) == [path.links]


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    """Connected networks of any shape: multi-homed hosts that forward, bridges, routers, links between hosts."""
    hosts, switches = draw(st.integers(2, 7)), draw(st.integers(0, 5))
    count = hosts + switches
    edges = {(draw(st.integers(0, node - 1)), node) for node in range(1, count)}  # a tree, so that all are connected
    node = st.integers(0, count - 1)
    extra = draw(st.sets(st.tuples(node, node).filter(lambda pair: pair[0] < pair[1]), max_size=8))
    used = [0] * count
    links = []
    for a, b in sorted(edges | extra):
        links.append(Link(a, used[a], b, used[b], 1000))
        used[a], used[b] = used[a] + 1, used[b] + 1
    nodes = [Node(f"h{h}", "host", 0) for h in range(hosts)] + [Node(f"s{s}", "switch", 1) for s in range(switches)]
    return Topology("any", {}, tuple(nodes), tuple(links), ShortestPaths(ecmp=draw(st.booleans())))


@settings(max_examples=80, deadline=None)
@given(networks())
def test_routes_give_exactly_the_shortest_paths_of_any_network(topology: Topology) -> None:
    assert_routes_give_paths(topology, list(combinations(topology.hosts, 2)))


@given(st.data())
@settings(deadline=None)
def test_routes_of_some_pairs_serve_those_pairs(data: st.DataObject) -> None:
    topology = build(data.draw(st.sampled_from(SMALL)), rate_bps=1000)
    host = st.sampled_from(topology.hosts)
    pairs = data.draw(st.lists(st.tuples(host, host).filter(lambda pair: pair[0] != pair[1]), max_size=10))
    assert_routes_give_paths(topology, pairs)


def test_neighbours_need_no_routes() -> None:
    for expression in ("star(hosts=9)", "bcube(n=3,k=1)"):
        topology = build(expression, rate_bps=1000)
        assert routes(topology, combinations(topology.hosts, 2)) == []
    bcube = build("bcube(n=4,k=2)", rate_bps=1000)
    neighbours = [(a, b) for a, b in combinations(bcube.hosts, 2) if a // 4 == b // 4 or a % 4 == b % 4]
    assert routes(bcube, neighbours) == []


def test_order_repetition_and_self_do_not_matter() -> None:
    topology = build("fat_tree(k=4)", rate_bps=1000)
    assert routes(topology, [(0, 9), (9, 0), (0, 9), (3, 3)]) == routes(topology, [(9, 0)])


def test_a_bcube_server_forwards() -> None:
    topology = build("bcube(n=3,k=2)", rate_bps=1000)
    addresses = plan(topology)
    installed = routes(topology, [(0, 4)])
    assert installed == [
        Route(0, addresses.of(4, 0), ((1, addresses.of(3, 1)),)),
        Route(4, addresses.of(0, 0), ((1, addresses.of(1, 1)),)),
    ]


def test_a_crossed_bridge_gets_routes_to_what_is_beyond_its_ports() -> None:
    topology = build("bcube(n=2,k=2)", rate_bps=1)
    switch = topology.index["s1.0"]
    pairs = list(permutations(topology.hosts, 2))
    plain = routes(topology, pairs)
    crossed = routes(topology, pairs, crossed=[switch])
    added = [route for route in crossed if route.node == switch]
    assert [route for route in crossed if route.node != switch] == plain
    hosts = plan(topology).host
    ports = {hosts[topology.head(link), topology.port_at_tail(link ^ 1)][0] for link in topology.ports[switch]}
    assert added
    for route in added:
        ((_, via),) = route.hops
        assert via in ports
        assert route.destination_address not in ports


def test_a_router_that_looks_at_the_source_is_refused() -> None:
    """Two spines, chosen by the source: the leaf of both sources cannot tell them apart."""

    def by_source(topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
        ways = ShortestPaths(ecmp=True)(topology, src, dst)
        return (Path(ways[src % len(ways)].links),)

    leaf = build("spine_leaf(racks=2,hosts_per_rack=2,spines=2)", rate_bps=1000)
    topology = Topology("mine", {}, leaf.nodes, leaf.links, by_source)
    assert routes(topology, [(0, 2)])
    with pytest.raises(TopologyError) as error:
        routes(topology, [(0, 2), (1, 2)])
    assert str(error.value) == (
        "mine(): at leaf0 the way to h2 depends on where traffic comes from\n"
        "  fix: let the router choose each next hop by node and destination only"
    )


def test_weights_that_no_even_split_gives_are_refused() -> None:
    """Two spines, one to carry three times the traffic of the other."""

    def uneven(topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
        low, high = ShortestPaths(ecmp=True)(topology, src, dst)
        return Path(low.links, 0.25), Path(high.links, 0.75)

    leaf = build("spine_leaf(racks=2,hosts_per_rack=1,spines=2)", rate_bps=1000)
    with pytest.raises(TopologyError) as error:
        routes(Topology("mine", {}, leaf.nodes, leaf.links, uneven), [(0, 1)])
    assert str(error.value) == (
        "mine(): a path from h0 to h1 has weight 0.25, but would carry 0.5\n"
        "  fix: split traffic evenly at each node, over hops that some path takes"
    )


def test_unlinked_hosts_have_no_route() -> None:
    nodes = (Node("h0", "host", 0), Node("h1", "host", 0), Node("s0", "switch", 1))
    topology = Topology("mine", {}, nodes, (Link(0, 0, 2, 0, 1000),), ShortestPaths())
    with pytest.raises(TopologyError) as error:
        routes(topology, [(0, 1)])
    assert str(error.value) == ("mine(): no route leads from h0 to h1\n  fix: link them, over switches or directly")
