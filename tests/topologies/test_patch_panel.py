"""Patch panels: circuits are matchings, rings become circuits, routes reach everyone."""

from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import TopologyError
from testbed.topologies import draw
from testbed.topologies.addressing import plan, routes
from testbed.topologies.build import build
from testbed.topologies.check import check
from testbed.topologies.circuits import matchings
from testbed.topologies.describe import describe
from testbed.topologies.model import Topology
from testbed.topologies.panels import RECONFIGURATION_S, Matching, Panels
from testbed.topologies.patch_panel import repatched

COUNTS = st.integers(2, 25)


def make(arguments: str) -> Topology:
    return build(f"patch_panel({arguments})", rate_bps=10**8)


def strides(servers: int) -> list[int]:
    """Those of different rings."""
    return [p for p in range(1, max(2, servers // 2 + 1)) if math.gcd(p, servers) == 1]


def is_matching(pairs: Matching) -> bool:
    ends = [server for pair in pairs for server in pair]
    return len(set(ends)) == len(ends) and all(a < b for a, b in pairs) and list(pairs) == sorted(pairs)


@st.composite
def rings(draw_: st.DrawFn) -> tuple[int, list[int]]:
    servers = draw_(COUNTS)
    return servers, draw_(st.lists(st.sampled_from(strides(servers)), min_size=1, max_size=4, unique=True))


@given(rings())
def test_rings_become_matchings_that_hold_each_of_their_circuits_once(case: tuple[int, list[int]]) -> None:
    servers, chosen = case
    found = matchings(servers, 2 * len(chosen) + 4, tuple(chosen))
    assert all(map(is_matching, found))
    wanted = [tuple(sorted((s, (s + p) % servers))) for p in chosen for s in range(servers)]
    assert sorted(pair for pairs in found for pair in pairs) == sorted(wanted)
    if servers % 2 == 0:
        assert not any(found[2 * len(chosen) :])


@given(st.permutations(range(7)), st.permutations(range(8)))
def test_a_ring_may_have_any_order(odd: list[int], even: list[int]) -> None:
    for order, degree in ((odd, 3), (even, 2)):
        found = matchings(len(order), degree, (tuple(order),))
        assert all(map(is_matching, found))
        assert {pair for pairs in found for pair in pairs} == {
            tuple(sorted(pair)) for pair in zip(order, (*order[1:], order[0]), strict=True)
        }


@given(rings())
def test_routes_reach_everyone_over_as_few_circuits_as_coins_make_the_distance(case: tuple[int, list[int]]) -> None:
    servers, chosen = case
    topology = make(f"servers={servers},degree={2 * len(chosen) + 4},rings=[{','.join(map(str, chosen))}]")
    fewest = {0: 0}  # coin change modulo n (TopoOpt, Appendix C), with coins in both directions
    reached = [0]
    for here in reached:
        for coin in (*chosen, *(-p for p in chosen)):
            there = (here + coin) % servers
            if there not in fewest:
                fewest[there] = fewest[here] + 1
                reached.append(there)
    for src in topology.hosts:
        for dst in topology.hosts:
            path = topology.paths(src, dst)[-1]
            assert len(path.links) == 2 * fewest[(dst - src) % servers]
            here = src
            for into, out in zip(path.links[::2], path.links[1::2], strict=True):
                assert topology.tail(into) == here
                assert topology.circuits[into] == out
                here = topology.head(out)
            assert here == dst


@given(rings(), st.booleans())
def test_a_circuit_leads_back_as_it_leads_there(case: tuple[int, list[int]], look_ahead: bool) -> None:
    servers, chosen = case
    words = f"servers={servers},degree={2 * len(chosen) + 4},rings=[{','.join(map(str, chosen))}]"
    topology = make(f"{words},look_ahead={str(look_ahead).lower()}")
    assert all(topology.circuits[out ^ 1] == into ^ 1 for into, out in topology.circuits.items())
    check("it", topology)
    assert build(topology.expression, rate_bps=10**8) == topology


def test_the_default_is_one_ring_on_two_panels_and_the_rest_is_dark() -> None:
    topology = make("servers=6,degree=3")
    assert topology.panels
    assert topology.panels.lit == (((0, 1), (2, 3), (4, 5)), ((0, 5), (1, 2), (3, 4)), ())
    told = describe(topology)
    assert (told["switches"], told["patch_panels"], told["circuits"], told["dark_ports"]) == (0, 3, 6, 6)


def test_matchings_come_on_the_panels_after_the_rings() -> None:
    topology = make("servers=6,degree=4,rings=[1],circuits=[[0-3,1-4,5-2]]")
    assert topology.panels
    assert topology.panels.lit[2:] == (((0, 3), (1, 4), (2, 5)), ())


def test_given_routes_are_taken_and_all_others_are_the_shortest() -> None:
    topology = make("servers=6,degree=2,rings=[1],routes=[0-5-4-3-2]")
    hosts = [topology.tail(link) for link in topology.paths(0, 2)[0].links[::2]]
    assert hosts == [0, 5, 4, 3]
    assert len(topology.paths(2, 0)[0].links) == 4
    assert len(topology.paths(5, 2)[0].links) == 6, (
        "a route is one of every server on it, since these go by destination"
    )


def test_reconfiguration_takes_what_the_technology_takes_unless_said_otherwise() -> None:
    for technology, seconds in RECONFIGURATION_S.items():
        panels = make(f"servers=4,degree=2,technology={technology}").panels
        assert panels
        assert panels.reconfiguration_s == seconds
    panels = make("servers=4,degree=2,reconfiguration_s=0.5").panels
    assert panels
    assert panels.reconfiguration_s == 0.5


def looking_ahead() -> Panels:
    panels = make("servers=4,degree=2,look_ahead=true").panels
    assert panels
    return panels


def test_a_flip_lights_what_was_patched_ahead() -> None:
    panels, other = looking_ahead(), matchings(4, 2, ((0, 2, 1, 3),))
    ahead = panels.patch(other, look_ahead=True)
    assert ahead.lit == panels.lit
    assert ahead.flip().lit == other
    assert ahead.flip().flip().lit == panels.lit


def test_one_jobs_servers_flip_without_the_others() -> None:
    panels = looking_ahead().patch((((0, 1), (2, 3)), ((0, 1), (2, 3)))).patch((((0, 1),), ()), look_ahead=True)
    half = panels.flip([0, 1])
    assert half.lit == (((0, 1), (2, 3)), ((2, 3),))
    assert panels.flip([0]).lit == (((2, 3),), ((2, 3),)), "light needs both ends to look at the same panel"
    with pytest.raises(TopologyError, match="circuit 1-2: the 1x2 switches of the two servers are set differently"):
        half.patch((((1, 2),), ()))
    kept = half.patch((((0, 1),), ((2, 3),)))
    assert kept.lit == (((0, 1),), ((2, 3),))


@given(st.lists(st.sampled_from(range(4)), max_size=4), st.permutations(range(4)), st.booleans())
def test_whatever_is_patched_and_flipped_stays_a_matching(flipped: list[int], order: list[int], ahead: bool) -> None:
    panels = looking_ahead().flip(flipped) if flipped else looking_ahead()
    try:
        panels = panels.patch(matchings(4, 2, (tuple(order),)), look_ahead=ahead)
    except TopologyError:
        assert 0 < len(set(flipped)) < 4
    assert all(is_matching(pairs) for side in panels.sides for pairs in side)
    assert all(is_matching(pairs) for pairs in panels.lit)


def test_a_move_keeps_ports_and_changes_ways() -> None:
    topology = make("servers=6,degree=2")
    assert topology.panels
    other = repatched(topology, topology.panels.patch(matchings(6, 2, ((0, 2, 4, 1, 3, 5),))))
    assert replace(other, panels=topology.panels) == topology
    assert (len(topology.paths(0, 2)[0].links), len(other.paths(0, 2)[0].links)) == (4, 2)


def test_parallel_circuits_are_connections_between_other_nics() -> None:
    topology = make("servers=4,degree=5,rings=[1,1],circuits=[[0-2]]")
    addresses = plan(topology)
    assert [path.weight for path in topology.paths(0, 1)] == [0.5, 0.5]
    assert [len(topology.connections(*pair)) for pair in ((0, 1), (1, 0), (0, 2), (1, 3))] == [2, 2, 1, 1]
    for connection, (there,) in enumerate(topology.connections(0, 1)):
        ((back,),) = topology.connections(1, 0)[connection : connection + 1]
        assert [link ^ 1 for link in reversed(there.links)] == list(back.links)
        ports = [topology.port_at_tail(link) for link in (there.links[0], back.links[0])]
        assert addresses.flow(0, 1, connection) == (addresses.of(0, ports[0]), addresses.of(1, ports[1]))
        assert addresses.flow(1, 0, connection) == addresses.flow(0, 1, connection)[::-1]
    assert {burst.src_link for burst in topology.bursts} == set(topology.circuits), "every lit NIC is measured"


def test_a_way_that_is_given_in_one_direction_leaves_one_connection() -> None:
    topology = make("servers=4,degree=4,rings=[1,1],routes=[0-3-2-1]")
    assert [len(path.links) for path in topology.paths(0, 1)] == [6]
    assert [len(path.links) for path in topology.paths(1, 0)] == [2]


TWO_WAYS = "servers=4,degree=2,routes=[0-1-2@1,0-3-2@0,2-3-0@1,2-1-0@0]"


def test_two_ways_to_two_nics_are_two_connections() -> None:
    """In a ring of four, half of what opposite servers send goes around each side; acknowledgements, too."""
    topology = make(TWO_WAYS)
    addresses = plan(topology)
    passed = {
        pair: [[topology.head(link) for link in path.links[1::2]] for path in topology.paths(*pair)]
        for pair in ((0, 2), (2, 0))
    }
    assert passed == {(0, 2): [[1, 2], [3, 2]], (2, 0): [[3, 0], [1, 0]]}
    assert [path.weight for path in topology.paths(0, 2)] == [0.5, 0.5]
    assert len(topology.paths(0, 1)) == len(topology.paths(1, 3)) == 1
    flows = [addresses.flow(0, 2, connection) for connection in (0, 1)]
    assert flows == [(addresses.of(0, 1), addresses.of(2, 1)), (addresses.of(0, 0), addresses.of(2, 0))]
    hops = {(one.node, one.destination_address): one.hops for one in routes(topology, [(0, 2)])}
    assert {(node, at): [port for port, _ in hops[node, at]] for node, at in hops if node in (0, 2)} == {
        (0, addresses.of(2, 1)): [topology.port_at_tail(topology.paths(0, 2)[0].links[0])],
        (0, addresses.of(2, 0)): [topology.port_at_tail(topology.paths(0, 2)[1].links[0])],
        (2, addresses.of(0, 1)): [topology.port_at_tail(topology.paths(2, 0)[0].links[0])],
        (2, addresses.of(0, 0)): [topology.port_at_tail(topology.paths(2, 0)[1].links[0])],
    }
    hosts = range(4)
    routes(topology, [(i, j) for i in hosts for j in hosts], every_address=True)  # no two next hops contradict


def test_ways_end_with_the_circuits_that_they_were_given_for() -> None:
    """Connections stay, and take what routes there are."""
    topology = make(TWO_WAYS)
    assert topology.panels
    moved = repatched(topology, topology.panels.patch(matchings(4, 2, ((0, 2, 1, 3),))))
    assert moved.panels
    assert moved.panels.ways == ()
    assert [len(path.links) for path in moved.paths(0, 2)] == [2, 2]
    job = topology.panels.among((1,), ((), ()))
    assert job.ways == (), "a way of each of the two passes server 1"
    assert "ways" not in repr(moved.panels), "identities are as before"


def test_connections_stay_when_circuits_move() -> None:
    topology = make("servers=4,degree=4,rings=[1,1]")
    assert topology.panels
    met = [plan(topology).flow(0, 1, connection) for connection in (0, 1)]
    apart = repatched(topology, topology.panels.patch(matchings(4, 4, ((0, 2, 1, 3),))))
    assert [path.links for path in apart.paths(0, 1)] == 2 * [apart.paths(0, 1)[0].links]
    assert len(apart.paths(0, 2)) == 1
    together = repatched(apart, topology.panels.patch(matchings(4, 4, ((0, 2, 1, 3), (0, 2, 1, 3)))))
    assert len(together.paths(0, 2)) == 1, "a connection is not added in the middle of a trial"
    again = repatched(together, topology.panels)
    assert again.paths(0, 1) == topology.paths(0, 1)
    assert [plan(topology).flow(0, 1, connection) for connection in (0, 1)] == met


@pytest.mark.parametrize(
    ("arguments", "problem", "fix"),
    [
        (
            "servers=6,degree=3,rings=[1,[0,2,4,1,3,5]]",
            "patch_panel: of the 3 ports that degree=3 gives each server, rings take 4",
            "give degree=4, or fewer rings: each takes two ports",
        ),
        (
            "servers=5,degree=2",
            "patch_panel: of the 2 ports that degree=2 gives each server, rings take 3",
            "give degree=3, or fewer rings: each takes two ports, and all together one more where the number of "
            "servers is odd",
        ),
        (
            "servers=12,degree=4,rings=[1,11]",
            "patch_panel: rings holds 1 and 11, which are the same circuits",
            "leave 11 out: circuits are full duplex, and carry the ring in both directions; or write 1 twice for "
            "parallel circuits",
        ),
        (
            "servers=12,degree=4,rings=[2]",
            "patch_panel: rings holds 2; a ring of that stride misses some of the 12 servers",
            "take strides that are coprime to 12: 1, 5",
        ),
        (
            "servers=4,degree=2,rings=[[0,1,4]]",
            "patch_panel: ring [0,1,4] does not name two or more of the 4 servers once each",
            "order servers of 0 to 3; a ring may leave some out",
        ),
        (
            "servers=6,degree=1,circuits=[[0-3,3-1]]",
            "patch_panel: the port of server 3 is used twice in panel 0 of circuits",
            "move circuit 3-1 to another panel: a server has one port at each",
        ),
        (
            "servers=6,degree=1,circuits=[[0-6]]",
            "patch_panel: circuits holds 0-6, and there is no server 6",
            "name servers 0 to 5",
        ),
        (
            "servers=6,degree=1,circuits=[[2-2]]",
            "patch_panel: circuit 2-2 does not join two servers",
            "write it as 0-1",
        ),
        (
            "servers=6,degree=1,circuits=[0-1]",
            "patch_panel: circuits is 0-1",
            "write it as circuits=[[0-1,2-3],[1-2,3-0]], a list for each panel",
        ),
        (
            "servers=4,degree=2,routes=[0-2]",
            "patch_panel(servers=4,degree=2,routes=[0-2]): route 0-2 goes from 0 to 2, which no circuit joins",
            "join them, or route over servers that are joined",
        ),
        (
            "servers=4,degree=2,routes=[0-1-2,1-0-3-2]",
            "patch_panel(servers=4,degree=2,routes=[0-1-2,1-0-3-2]): route 1-0-3-2 leaves server 1 otherwise than "
            "another route to server 2 does",
            "give one next hop for each server and destination: servers forward by destination",
        ),
        (
            "servers=4,degree=2,routes=[0-1-2@2]",
            "patch_panel: route 0-1-2@2 ends at interface 2, and there is no such one",
            "name interfaces 0 to 1",
        ),
        (
            "servers=4,degree=2,routes=[0-1-0@1]",
            "patch_panel: route 0-1-0 passes a server twice",
            "name each server once",
        ),
        (
            "servers=4,degree=2,routes=[0-1-2@0]",
            "patch_panel(servers=4,degree=2,routes=[0-1-2@0]): route 0-1-2@0 ends at interface 0 of server 2, which no "
            "circuit joins with server 1",
            "end it at interface 1",
        ),
        (
            "servers=4,degree=2,routes=[0-1-2@1,0-3-2@0]",
            "patch_panel(servers=4,degree=2,routes=[0-1-2@1,0-3-2@0]): routes has 2 ways from 0 to 2 that end at an "
            "interface, and 1 back",
            "give as many in both directions: a connection has a way in each",
        ),
        (
            "servers=4,degree=4,rings=[1,[0,1,3,2]],routes=[0-1-2@1,0-3-1-2@1]",
            "patch_panel(servers=4,degree=4,rings=[1,[0,1,3,2]],routes=[0-1-2@1,0-3-1-2@1]): route 0-3-1-2@1 leaves "
            "server 0 otherwise than another route to interface 1 of server 2 does",
            "give one next hop for each server and interface of a destination: servers forward by address",
        ),
        (
            "servers=4,degree=2,routes=[0-1-2@1,0-1-2@1]",
            "patch_panel(servers=4,degree=2,routes=[0-1-2@1,0-1-2@1]): routes has two ways from 0 to 2 that end at "
            "interface 1",
            "end each at another interface",
        ),
        (
            "servers=4,degree=2,technology=mems",
            "patch_panel: technology is mems (did you mean 'mems_3d'?)",
            "give technology one of patch_panel, mems_3d, mems_2d, rotornet, silicon_photonics, tunable_lasers",
        ),
        ("servers=4,degree=2,reconfiguration_s=-1", "patch_panel: reconfiguration_s is -1", "give 0 or more"),
        ("servers=4,degree=2,ina=all", "patch_panel(servers=4,degree=2) has no switch that could add", "remove ina"),
    ],
)
def test_errors_name_the_thing_and_the_fix(arguments: str, problem: str, fix: str) -> None:
    with pytest.raises(TopologyError) as error:
        make(arguments)
    assert str(error.value) == f"{problem}\n  fix: {fix}"


def test_a_server_that_no_circuits_lead_to() -> None:
    topology = make("servers=6,degree=2,circuits=[[0-1,2-3],[1-2]]")
    with pytest.raises(TopologyError) as error:
        topology.paths(0, 4)
    assert str(error.value) == (
        "patch_panel(servers=6,degree=2,circuits=[[0-1,2-3],[1-2]]): no circuits lead from h0 to h4, which is joined "
        "with no other server\n  fix: add circuits that join them, such as rings=[1]"
    )


def test_pictures_show_servers_and_circuits() -> None:
    topology = make("servers=6,degree=3")
    plain = ElementTree.fromstring(draw.svg(topology))
    titles = [title.text for title in plain.iter("{http://www.w3.org/2000/svg}title")]
    assert "h0 – h5 over p1: 100 Mbit/s" in titles
    assert not any(title and title.startswith("p") for title in titles)
    lines = [line[0].text for line in plain.iter("{http://www.w3.org/2000/svg}line")]
    assert len(lines) == 6 + 6 + 2, "circuits, dark ports, and what colours mean"
    assert lines[6:7] + lines[-2:] == ["h0: dark at p2", "ring of stride 1", "dark port"]
    loaded = draw.svg(topology, dict.fromkeys(range(36), 1.0))
    assert loaded.count("h0 → h1 over p0: 1") == 1
    assert "  p1 -- h0-h5 h1-h2 h3-h4\n  p2 -- dark: h0 h1 h2 h3 h4 h5" in draw.text(topology)
