"""Expressions, a user's own builder, and the text of every error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from testbed.base.errors import SpecError, TopologyError
from testbed.base.extras import install
from testbed.topologies.build import build, families
from testbed.topologies.parameters import at_most

FAMILIES = (
    "use one of star, bcube, fat_tree, spine_leaf, dragonfly, patch_panel, expander, cloud, ./FILE.py:FUNCTION for "
    "your own, or a file: .graphml, .gml, .clab.yml, .clab.yaml, .json"
)
SPINE_LEAF = "spine_leaf(racks=2,hosts_per_rack=4,spines=1,oversubscription="
BCUBE = "write it as bcube(n=...,k=...)"

GOLDEN = {
    "stra(hosts=3)": ("there is no topology 'stra' (did you mean 'star'?)", FAMILIES),
    "hypercube": ("there is no topology 'hypercube'", FAMILIES),
    "bcube(n=3)": ("bcube needs a value for k", BCUBE),
    "bcube": ("bcube needs a value for n and k", BCUBE),
    "bcube(n=3,kk=2)": ("bcube has no parameter 'kk' (did you mean 'k'?)", BCUBE),
    "fat_tree(pods=4)": (
        "fat_tree has no parameter 'pods'",
        "write it as fat_tree(k=...,routing=two_level,oversubscription=1,[hosts=...])",
    ),
    "bcube(n=three,k=2)": ("bcube: n is three", "give n an integer"),
    "bcube(n=3.5,k=2)": ("bcube: n is 3.5", "give n an integer"),
    "bcube(n=true,k=2)": ("bcube: n is true", "give n an integer"),
    "bcube(n=1,k=2)": ("bcube: n is 1", "give n at least 2"),
    "bcube(n=3,k=0)": ("bcube: k is 0", "give k at least 1"),
    "star(hosts=0)": ("star: hosts is 0", "give hosts at least 1"),
    "fat_tree(k=0)": ("fat_tree: k is 0", "give k at least 2"),
    "fat_tree(k=4,hosts=17)": ("fat_tree: hosts is 17, and k=4 gives 16 hosts", "give hosts 1 to 16"),
    "fat_tree(k=4,hosts=0)": ("fat_tree: hosts is 0, and k=4 gives 16 hosts", "give hosts 1 to 16"),
    "fat_tree(k=3)": ("fat_tree: k is 3, which is odd", "give k an even number: 2 or 4"),
    "fat_tree(k=4,routing=emcp)": (
        "fat_tree: routing is emcp (did you mean 'ecmp'?)",
        "give routing one of two_level, by_destination, ecmp",
    ),
    "fat_tree(k=8,oversubscription=3)": (
        "fat_tree: oversubscription is 3, and k=8 gives an edge switch 4 uplinks",
        "give oversubscription a divisor of k/2: 1, 2, 4",
    ),
    "fat_tree(k=2,oversubscription=2)": (
        "fat_tree: oversubscription is 2, and k=2 gives an edge switch 1 uplink",
        "give oversubscription a divisor of k/2: 1",
    ),
    "fat_tree(k=4,oversubscription=0)": (
        "fat_tree: oversubscription is 0, and k=4 gives an edge switch 2 uplinks",
        "give oversubscription a divisor of k/2: 1, 2",
    ),
    "cloud(racks=0)": ("cloud: racks is 0", "give racks at least 1"),
    "cloud(sizes=[7,0])": ("cloud: one of its sizes is 0", "give each rack at least 1 host"),
    "cloud(sizes=[3,3],racks=2)": (
        "cloud: sizes says how many racks there are, and how many hosts each has",
        "leave out racks and hosts_per_rack, or sizes",
    ),
    "cloud(rows=2,sizes=[1,2,3])": (
        "cloud: 3 racks cannot be divided evenly among 2 rows",
        "give as many sizes as a multiple of 2",
    ),
    "cloud(rack_delay_s=-1)": ("cloud: rack_delay_s is -1.0", "give rack_delay_s at least 0"),
    "cloud(oversubscription=0)": ("cloud: oversubscription is 0.0", "give oversubscription a number above 0"),
    "cloud(rows=99999999)": (
        "cloud with rows=99999999, racks=4, hosts_per_rack=4 has more than 262,144 links, the most that can be built",
        "make it smaller",
    ),
    "expander(servers=8,degree=2)": ("expander: degree is 2", "give degree at least 3"),
    "expander(servers=8,degree=3,seed=-1)": ("expander: seed is -1", "give seed at least 0"),
    "expander(servers=8,degree=3,kind=xpandr)": (
        "expander: kind is xpandr (did you mean 'xpander'?)",
        "give kind one of jellyfish, xpander",
    ),
    "expander(servers=4,degree=4)": (
        "expander: 4 servers cannot have 4 neighbours each",
        "give 5 servers or more, or a smaller degree",
    ),
    "expander(servers=9,degree=3)": (
        "expander: 9 servers with 3 ports each have 27 ports, an odd number",
        "make servers or degree even",
    ),
    "expander(servers=16,degree=4,kind=xpander)": (
        "expander: an Xpander has degree + 1 = 5 groups of as many servers, and 16 servers are no multiple of that",
        "give 15 or 20 servers, or take kind=jellyfish",
    ),
    "expander(servers=99999999999,degree=4)": (
        "expander with servers=99999999999, degree=4 has more than 262,144 links, the most that can be built",
        "make it smaller",
    ),
    "spine_leaf(racks=2,hosts_per_rack=4,spines=0)": ("spine_leaf: spines is 0", "give spines at least 1"),
    SPINE_LEAF + "0)": ("spine_leaf: oversubscription is 0.0", "give oversubscription a number above 0"),
    SPINE_LEAF + "nan)": ("spine_leaf: oversubscription is nan", "give oversubscription a number"),
    SPINE_LEAF + "1e30)": ("spine_leaf: oversubscription 1e+30 leaves an uplink less than 1 bit/s", "make it smaller"),
    "bcube(n=100,k=100)": (
        "bcube with n=100, k=100 has more than 262,144 links, the most that can be built",
        "make it smaller",
    ),
    "star(hosts=99999999999)": (
        "star with hosts=99999999999 has more than 262,144 links, the most that can be built",
        "make it smaller",
    ),
    "mine.py": ("'mine.py' does not name both a file and a function in it", "write it as ./FILE.py:FUNCTION"),
}


def error_of(expression: str) -> str:
    with pytest.raises(SpecError) as error:
        build(expression, rate_bps=1000)
    return str(error.value)


@pytest.mark.parametrize("expression", GOLDEN)
def test_errors_name_the_thing_and_the_fix(expression: str) -> None:
    problem, fix = GOLDEN[expression]
    assert error_of(expression) == f"{problem}\n  fix: {fix}"


@pytest.mark.parametrize("expression", ["", "star(1,2,by_destination,4)", "star(hosts=)", "star(hosts=3)x"])
def test_an_unreadable_expression_shows_a_right_one(expression: str) -> None:
    with pytest.raises(SpecError, match=r"^cannot read .*\n  fix: write it as bcube\(n=3,k=2\)$"):
        build(expression, rate_bps=1000)


def test_a_bracket_that_nothing_closes_is_named() -> None:
    fix = "add ')' at the end, as in bcube(n=3,k=2)"
    assert error_of("star(hosts=3") == f"cannot read 'star(hosts=3': nothing closes '(', character 5\n  fix: {fix}"


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("star(4)", "star(hosts=4)"),
        ("bcube(3,k=2)", "bcube(n=3,k=2)"),
        ("star(4, 2)", "star(hosts=4,server_nics=2)"),
    ],
)
def test_values_without_names_are_told_their_names(written: str, right: str) -> None:
    assert error_of(written).endswith(f"\n  fix: write it as {right}")


@pytest.mark.parametrize(
    ("rate_bps", "delay_s", "text"),
    [
        (0, 0.0, "the link rate is 0 bit/s\n  fix: give links a rate above 0"),
        (-5, 0.0, "the link rate is -5 bit/s\n  fix: give links a rate above 0"),
        (1, -0.1, "the link delay is -0.1 s\n  fix: give links a delay of 0 or more"),
        (1, float("nan"), "the link delay is nan s\n  fix: give links a delay of 0 or more"),
    ],
)
def test_impossible_links(rate_bps: int, delay_s: float, text: str) -> None:
    with pytest.raises(TopologyError) as error:
        build("star(hosts=3)", rate_bps=rate_bps, delay_s=delay_s)
    assert str(error.value) == text


def test_families_describe_themselves() -> None:
    known = families()
    assert list(known) == ["star", "bcube", "fat_tree", "spine_leaf", "dragonfly", "patch_panel", "expander", "cloud"]
    assert all(family.doc.endswith(".") for family in known.values())
    assert [(p.name, p.kind, p.required) for p in known["bcube"].parameters] == [
        ("n", "an integer", True),
        ("k", "an integer", True),
    ]
    routing = known["fat_tree"].parameters[1]
    assert (routing.name, routing.choices, routing.default) == (
        "routing",
        ("two_level", "by_destination", "ecmp"),
        "two_level",
    )


def test_the_expression_leaves_defaults_out() -> None:
    assert build("fat_tree( k = 4 , routing = two_level )", rate_bps=1).expression == "fat_tree(k=4)"
    assert build("fat_tree(routing=ecmp,k=4)", rate_bps=1).expression == "fat_tree(k=4,routing=ecmp)"
    assert build(SPINE_LEAF + "2)", rate_bps=1000).expression == SPINE_LEAF + "2.0)"


MINE = """
from testbed.topologies.model import Link, Node, Path, Topology
from testbed.topologies.shortest import ShortestPaths

def pair(rate_bps, delay_s, *, spare: bool = False, names="h"):
    nodes = (Node(f"{names}0", "host", 0), Node(f"{names}1", "host", 0))
    links = [Link(0, 0, 1, 0, rate_bps, delay_s)]
    if spare:
        links.append(Link(0, 1, 1, 1, rate_bps, delay_s))
    return Topology("pair", {}, nodes, tuple(links), ShortestPaths(ecmp=True))

def number(rate_bps, delay_s):
    return 3

def breaks(rate_bps, delay_s, hosts: int = 0):
    return 1 // hosts

def no_arguments():
    return None

def switch_first(rate_bps, delay_s):
    nodes = (Node("s0", "switch", 1), Node("h0", "host", 0))
    return Topology("odd", {}, nodes, (Link(0, 0, 1, 0, rate_bps),), ShortestPaths())

def long_name(rate_bps, delay_s):
    return Topology("odd", {}, (Node("a" * 16, "host", 0),), (), ShortestPaths())

def twice(rate_bps, delay_s):
    return Topology("odd", {}, (Node("h0", "host", 0), Node("h0", "host", 0)), (), ShortestPaths())

def port_gap(rate_bps, delay_s):
    nodes = (Node("h0", "host", 0), Node("h1", "host", 0))
    return Topology("odd", {}, nodes, (Link(0, 1, 1, 0, rate_bps),), ShortestPaths())

def no_rate(rate_bps, delay_s):
    nodes = (Node("h0", "host", 0), Node("h1", "host", 0))
    return Topology("odd", {}, nodes, (Link(0, 0, 1, 0, 0),), ShortestPaths())

def nowhere(rate_bps, delay_s):
    return Topology("odd", {}, (Node("h0", "host", 0),), (Link(0, 0, 7, 0, rate_bps),), ShortestPaths())

def no_host(rate_bps, delay_s):
    return Topology("odd", {}, (Node("s0", "switch", 1),), (), ShortestPaths())

def server(rate_bps, delay_s):
    return Topology("odd", {}, (Node("h0", "server", 0),), (), ShortestPaths())

def text(rate_bps, delay_s):
    nodes = (Node("h0", "host", 0), Node("h1", "host", 0))
    return Topology("odd", {}, nodes, (Link(0, 0, 1, 0, "fast"),), ShortestPaths())

def _routed(rate_bps, router):
    nodes = (Node("h0", "host", 0), Node("h1", "host", 0))
    return Topology("odd", {}, nodes, (Link(0, 0, 1, 0, rate_bps),), router)

def no_router(rate_bps, delay_s):
    return _routed(rate_bps, None)

def lost(rate_bps, delay_s):
    return _routed(rate_bps, lambda topology, src, dst: {}[src])

def numbers(rate_bps, delay_s):
    return _routed(rate_bps, lambda topology, src, dst: [0])

def wrong_way(rate_bps, delay_s):
    return _routed(rate_bps, lambda topology, src, dst: (Path((0,)),))

def apart(rate_bps, delay_s):
    return Topology("odd", {}, (Node("h0", "host", 0), Node("h1", "host", 0)), (), ShortestPaths())
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.mark.usefixtures("mine")
def test_a_builder_of_ones_own() -> None:
    topology = build("./mine.py:pair(spare=true)", rate_bps=7000, delay_s=0.5)
    assert topology.expression == "./mine.py:pair(spare=true)"
    assert [(link.rate_bps, link.delay_s) for link in topology.links] == [(7000, 0.5)] * 2
    assert [path.weight for path in topology.paths(0, 1)] == [0.5, 0.5]
    assert build("mine.py:pair", rate_bps=7000).expression == "mine.py:pair()"
    assert build("mine.py:pair()", rate_bps=7000).host_count == 2
    assert build("mine.py:apart", rate_bps=7000).host_count == 2  # a scheme that needs a route says that there is none


GOLDEN_MINE = {
    "none.py:f": ("there is no file 'none.py' (looked in {here})", "correct the path before the colon"),
    "mine.py:piar": (
        "mine.py has no function 'piar' (did you mean 'pair'?)",
        "name a function of that file: it has pair, number, breaks, no_arguments, switch_first, long_name, twice, "
        "port_gap, no_rate, nowhere, no_host, server, text, no_router, lost, numbers, wrong_way, apart",
    ),
    "mine.py:number": (
        "mine.py:number returned int, not a Topology",
        "end the function with: return testbed.topologies.model.Topology(...)",
    ),
    "mine.py:breaks": (
        "mine.py:breaks failed: ZeroDivisionError: integer division or modulo by zero (mine.py, line 16)",
        "mend that line",
    ),
    "mine.py:breaks(hosts=few)": ("mine.py:breaks: hosts is few", "give hosts an integer"),
    "mine.py:breaks(host=3)": (
        "mine.py:breaks has no parameter 'host' (did you mean 'hosts'?)",
        "write it as mine.py:breaks(hosts=0)",
    ),
    "mine.py:no_arguments": (
        "the signature of mine.py:no_arguments cannot be used: too many positional arguments",
        "write it as: def my_net(rate_bps, delay_s, racks=2)",
    ),
    "mine.py:switch_first": (
        "mine.py:switch_first lists a switch before a host",
        "put every host before the first switch",
    ),
    "mine.py:long_name": (
        "mine.py:long_name has a node named 'aaaaaaaaaaaaaaaa'",
        "use a letter, then up to 14 letters, digits, dots, dashes or underscores",
    ),
    "mine.py:twice": ("mine.py:twice has 2 nodes named 'h0'", "give each node a name of its own"),
    "mine.py:port_gap": ("mine.py:port_gap: h0 uses the ports 1", "number its ports 0 to 0, one link each"),
    "mine.py:no_rate": (
        "mine.py:no_rate: link 0 has 0 bit/s and 0.0 s of delay",
        "give it a rate above 0 and a delay of 0 or more",
    ),
    "mine.py:nowhere": ("mine.py:nowhere: link 0 ends at node 7", "use nodes 0 to 0"),
    "mine.py:no_host": ("mine.py:no_host has no host", 'give it nodes of kind "host"'),
    "mine.py:server": ("mine.py:server has a node of kind 'server'", 'give it the kind "host" or "switch"'),
    "mine.py:text": (
        "mine.py:text: link 0 has the rate 'fast' and the delay 0.0",
        "give it the numbers rate_bps and delay_s that the function gets, or numbers made of them",
    ),
    "mine.py:no_router": (
        "mine.py:no_router: its router is None",
        "give it ShortestPaths() of testbed.topologies.shortest, or a function of (topology, src, dst)",
    ),
    "mine.py:lost": ("mine.py:lost: its router failed: KeyError: 0 (mine.py, line 60)", "mend that line"),
    "mine.py:numbers": (
        "mine.py:numbers: its router returns [0] for the way from h0 to h1",
        "return a tuple of testbed.topologies.model.Path, one or more",
    ),
    "mine.py:wrong_way": (
        "mine.py:wrong_way: the links (0,) of a path do not lead from h1 to h0",
        "list directed links in order: link i is 2 * i from a to b, and 2 * i + 1 from b to a",
    ),
}


@pytest.mark.parametrize("expression", GOLDEN_MINE)
def test_errors_in_a_builder_of_ones_own(expression: str, mine: Path) -> None:
    problem, fix = GOLDEN_MINE[expression]
    assert error_of(expression) == f"{problem.format(here=mine.parent)}\n  fix: {fix}"


def test_a_file_that_imports_a_package_that_is_not_installed(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.write_text("import nothing_of_this_name")
    assert error_of("mine.py:f") == (
        "mine.py fails to run: ModuleNotFoundError: No module named 'nothing_of_this_name' (mine.py, line 1)\n"
        "  fix: correct the import, or install the package: pip install nothing_of_this_name, "
        "if that is its name on the index"
    )
    (mine.parent / "nothing_of_this_name.py").touch()
    assert error_of("mine.py:f").endswith(
        "fix: write what is needed of nothing_of_this_name into mine.py: a file is loaded without those beside it"
    )
    for name in ("mininet", "mininet.topo"):  # as where it is not installed
        monkeypatch.setitem(sys.modules, name, None)
    mine.write_text("from mininet.topo import Topo")
    assert error_of("mine.py:f").endswith("fix: correct the import, or install the package: " + install("mininet"))


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def f(:", "SyntaxError: invalid syntax (mine.py, line 1)"),
        ("raise SystemExit(4)", "SystemExit: 4 (mine.py, line 1)"),
    ],
)
def test_a_file_that_fails_to_run(mine: Path, source: str, problem: str) -> None:
    mine.write_text(source)
    assert error_of("mine.py:f") == f"mine.py fails to run: {problem}\n  fix: mend that line"


@pytest.mark.parametrize(
    "expression",
    [
        *("star(hosts=4,server_nics=3)", "bcube(n=2,k=3)", "spine_leaf(racks=2,hosts_per_rack=4,spines=2)"),
        *("fat_tree(k=4)", "fat_tree(k=4,oversubscription=2)", "fat_tree(k=4,hosts=1)", "fat_tree(k=4,hosts=4)"),
        *("fat_tree(k=4,hosts=6)", "fat_tree(k=6,hosts=20,oversubscription=3)"),
        *("dragonfly(a=4,g=9,h=2,p=2)", "dragonfly(a=3,g=2,h=1,p=1)", "patch_panel(servers=6,degree=2)"),
        *("cloud(racks=4,hosts_per_rack=4)", "cloud(sizes=[3,5,8,4],rows=2)", "expander(servers=8,degree=3)"),
    ],
)
def test_a_network_may_have_as_many_links_as_it_has_and_no_fewer(expression: str) -> None:
    """A report builds a network again with the links that were recorded as the limit."""
    links = len(build(expression, rate_bps=1000).links)
    with at_most(links):
        assert len(build(expression, rate_bps=1000).links) == links
    with at_most(links - 1), pytest.raises(TopologyError, match=f"has more than {links - 1} links"):
        build(expression, rate_bps=1000)
