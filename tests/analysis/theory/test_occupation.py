"""Rina's bandwidth-occupation model: its worked example, its lemmas, and what they say of its two networks."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.theory.occupation import occupation, to_replace, tree_to
from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.topologies.model import Link, Node, Topology
from testbed.topologies.shortest import ShortestPaths
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.schemes import build as build_forest

RATE_BPS = 10**9


def tree(parent: list[int], hosts: int, rates: dict[int, int] | None = None) -> Topology:
    """A network that is a tree: node i's link leads to ``parent[i]``; the last node has none."""
    used = [0] * (len(parent) + 1)
    links = []
    for node, above in enumerate(parent):
        links.append(Link(node, used[node], above, used[above], (rates or {}).get(node, RATE_BPS)))
        used[node], used[above] = used[node] + 1, used[above] + 1
    nodes = [Node(f"w{h}", "host", 0) for h in range(hosts)]
    nodes += [Node(f"s{s}", "switch", 1) for s in range(len(parent) + 1 - hosts)]
    return Topology("tree", {}, tuple(nodes), tuple(links), ShortestPaths())


def figure_4() -> Topology:
    """PS (host 0) on switch 4; on that INA switch 3 and worker 7; on switch 3 workers 1 and 2, and T1: switch 2 with
    switch 1, which have workers 3 to 6."""
    ps_and_workers = [11, 10, 10, 8, 8, 9, 9, 11]
    return tree([*ps_and_workers, 9, 10, 11], hosts=8)  # switches 1 to 4 are nodes 8 to 11


def test_figure_4() -> None:
    """Section III-B: T1's workers get B1/4, switch 3 leaves B0, switch 4 sets B0/2; altogether B0/4."""
    network = figure_4()
    found = occupation(network, 0, ina={10}, workers=range(1, 8))
    assert found.flows[9] == 4
    assert found.limit[9] == 1 / 4
    assert found.flows[10] == 1
    assert {found.limit[worker] for worker in (1, 2)} == {1}
    assert found.flows[11] == 2
    assert found.limit[11] == 1 / 2
    assert found.share == 1 / 4


@pytest.mark.parametrize(
    ("ina", "share"), [(set(), 1 / 7), ({9, 10}, 1 / 2), ({9, 10, 11}, 1 / 2), ({8, 9, 10, 11}, 1)]
)
def test_figure_4_with_other_switches(ina: set[int], share: float) -> None:
    """Switch 1 holds T1 back (two flows) until it adds, too."""
    assert occupation(figure_4(), 0, ina, range(1, 8)).share == share


@pytest.mark.parametrize("workers", [1, 2, 9])
def test_lemma_1(workers: int) -> None:
    star = build(f"star(hosts={workers + 1})", rate_bps=RATE_BPS)
    assert occupation(star, 0, workers=range(1, workers + 1)).share == 1 / workers
    assert occupation(star, 0).share == 1 / workers, "a co-located worker's gradient passes no link"


@st.composite
def trees(draw: st.DrawFn) -> tuple[Topology, set[int]]:
    """A random tree with the PS on host 0, and random INA switches."""
    hosts, switches = draw(st.integers(2, 12)), draw(st.integers(1, 8))
    choose = random.Random(draw(st.integers(0, 10**6)))
    last = hosts + switches - 1
    parent = [last, *(choose.randrange(hosts, last + 1) for _ in range(1, hosts))]
    parent += [choose.randrange(node + 1, last + 1) for node in range(hosts, last)]
    return tree(parent, hosts), draw(st.sets(st.integers(hosts, last)))


@given(made=trees())
def test_lemmas_2_and_3(made: tuple[Topology, set[int]]) -> None:
    """Replacing a switch never slows any worker; an INA switch is one flow; the most shared link sets the rate."""
    network, ina = made
    found = occupation(network, 0, ina)
    assert all(found.flows[switch] == 1 for switch in ina & found.flows.keys())
    assert found.share == 1 / max(found.flows.values())
    for switch in network.switches:
        assert occupation(network, 0, ina | {switch}).share >= found.share
    assert occupation(network, 0, network.switches).share == 1
    assert occupation(network, 0).share == 1 / (network.host_count - 1)


def test_links_of_unlike_rates_count_by_their_rates() -> None:
    """Four workers over one uplink of twice the PS's rate: half a share each there, a quarter at the PS."""
    network = tree([6, 5, 5, 5, 5, 6], hosts=5, rates={5: 2 * RATE_BPS})
    found = occupation(network, 0)
    assert found.limit[5] == 2 / 4
    assert found.share == 1 / 4
    assert occupation(network, 0, ina={6}).share == 1 / 2


@pytest.mark.parametrize(
    "expression", ["fat_tree(k=4,routing=ecmp)", "spine_leaf(racks=2,hosts_per_rack=2,spines=2,routing=ecmp)"]
)
def test_several_paths_are_refused(expression: str) -> None:
    with pytest.raises(TopologyError) as error:
        occupation(build(expression, rate_bps=RATE_BPS), 0)
    assert "has more than one way to h0, and the model knows one path from each node" in error.value.problem
    assert error.value.fix == "take a routing with one known path, such as by_destination"


def test_a_ps_alone_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"star\(hosts=1\): no host but h0 is a worker"):
        occupation(build("star(hosts=1)", rate_bps=RATE_BPS), 0)


def test_order_on_a_fat_tree() -> None:
    """ToRs, the PS's own first since all pass it; then by workers below: 14, 12, and 4 in each other pod."""
    net = build("fat_tree(k=4,routing=by_destination)", rate_bps=RATE_BPS)
    order = [net.nodes[switch].name for switch in to_replace(net, 0)]
    assert order[:2] == ["e0.0", "e0.1"]
    assert set(order[:8]) == {f"e{p}.{e}" for p in range(4) for e in range(2)}
    assert order[8:] == ["a0.0", "c0", "a1.0", "a2.0", "a3.0"]


def test_order_by_attached_workers() -> None:
    network = tree([6, 5, 5, 5, 6, 6], hosts=5)
    assert to_replace(network, 0) == [5, 6]


@pytest.mark.parametrize("expression", ["fat_tree(k=4,routing=by_destination)", "dragonfly(a=4,g=9,h=2)"])
def test_every_host_sees_the_same(expression: str) -> None:
    """So which host has the PS does not matter for figure 11."""
    net = build(expression, rate_bps=RATE_BPS)
    curves = set()
    for ps in range(0, net.host_count, 5):
        order = to_replace(net, ps)
        curves.add(tuple(occupation(net, ps, set(order[:count])).share for count in range(len(order) + 1)))
    assert len(curves) == 1
    assert len(tree_to(net, 0)) == net.host_count - 1 + len(to_replace(net, 0))


@pytest.mark.parametrize(
    ("expression", "counts"),
    [("fat_tree(k=4,routing=by_destination)", range(14)), ("dragonfly(a=4,g=9,h=2)", (0, 1, 4, 11, 12, 29, 35, 36))],
)
def test_it_is_the_bound_of_atps_forest(expression: str, counts: Sequence[int]) -> None:
    """The paper's model and ours, which knows nothing of it: T_F over the least GST of ``atp`` is the model's share."""
    net = build(expression, rate_bps=RATE_BPS)
    order = to_replace(net, 0)
    for count in counts:
        names = ",".join(net.nodes[switch].name for switch in order[:count])
        adding = build(f"{expression[:-1]},ina=[{names}])" if names else expression, rate_bps=RATE_BPS)
        gst_t_f = cost(build_forest("atp", adding, []), adding, RATE_BPS / 8).bound_s()
        assert occupation(net, 0, set(order[:count])).share == pytest.approx(1 / gst_t_f)
