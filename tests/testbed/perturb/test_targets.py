"""Hosts, switches and links by the names that a spec gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.base.errors import SpecError
from testbed.perturb import targets
from testbed.topologies.build import build

STAR = build("star(hosts=3)", rate_bps=10**8)
BCUBE = build("bcube(n=2,k=2)", rate_bps=10**8)


def labels(topology, names, direction="both") -> list[str]:
    return [targets.label(topology, link) for link in targets.links(topology, names, direction)]


def test_without_names_every_nic_of_every_host_is_meant() -> None:
    assert len(targets.links(STAR, None, "both")) == 6
    assert labels(STAR, None, "out") == ["h0:eth0 -> s0", "h1:eth0 -> s0", "h2:eth0 -> s0"]
    assert labels(STAR, None, "in") == ["s0:eth0 -> h0", "s0:eth1 -> h1", "s0:eth2 -> h2"]


def test_a_node_stands_for_all_its_links() -> None:
    assert labels(BCUBE, ["h0"], "out") == ["h0:eth0 -> s0.0", "h0:eth1 -> s1.0"]
    assert labels(STAR, ["s0"], "in") == labels(STAR, None, "out")


def test_one_nic_and_one_link() -> None:
    assert labels(BCUBE, ["h0:eth1"], "out") == ["h0:eth1 -> s1.0"]
    assert labels(STAR, ["h1-s0"]) == ["h1:eth0 -> s0", "s0:eth1 -> h1"]
    assert labels(STAR, ["s0-h1"], "out") == ["s0:eth1 -> h1"]


def test_names_of_nodes_may_have_dashes() -> None:
    nodes = tuple(replace(one, name=name) for one, name in zip(STAR.nodes, ("a", "a-b", "b", "b-c"), strict=True))
    topology = replace(STAR, nodes=nodes)
    assert labels(topology, ["a-b-b-c"], "out") == ["a-b:eth0 -> b-c"]
    assert labels(topology, ["b-c-b"], "in") == ["b:eth0 -> b-c"]
    assert labels(topology, ["a-b"], "out") == ["a-b:eth0 -> b-c"]  # the node, and no link between a and b


def test_what_is_named_twice_is_meant_once() -> None:
    assert labels(STAR, ["h0", "h0:eth0", "h0-s0"], "out") == ["h0:eth0 -> s0"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("h9", "star(hosts=3) has no node 'h9'"),
        ("h0:eth4", "h0 has no NIC 'eth4'"),
        ("h0-h1", "no link joins h0 and h1"),
        ("h0-s7", "star(hosts=3) has no node 's7'"),
        ("", "star(hosts=3) has no node ''"),
    ],
)
def test_names_that_mean_nothing(name: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        targets.links(STAR, [name], "both")
    assert caught.value.problem == problem
    assert caught.value.fix


def test_a_switch_is_no_host() -> None:
    with pytest.raises(SpecError, match="s0 is a switch"):
        targets.hosts(STAR, ["s0"])


def test_racks_and_levels() -> None:
    racks = build("spine_leaf(racks=2,hosts_per_rack=1,spines=1)", rate_bps=10**8)
    assert labels(racks, ["rack 1"], "out") == ["h1:eth0 -> leaf1"]
    assert labels(racks, ["level 1"], "in") == ["leaf0:eth0 -> h0", "leaf1:eth0 -> h1"]
    assert labels(racks, ["level 2"], "out") == ["leaf0:eth1 -> spine0", "leaf1:eth1 -> spine0"]


@pytest.mark.parametrize(
    ("expression", "name", "problem", "fix"),
    [
        ("bcube(n=2,k=2)", "rack 2", "bcube(n=2,k=2) has no rack 2", "it has rack 0, rack 1"),
        ("star(hosts=2)", "level 0", "star(hosts=2) has no links up to a level 0", "it has level 1"),
        (
            "patch_panel(servers=4,degree=2)",
            "rack 0",
            "patch_panel(servers=4,degree=2) has no rack 0",
            "it has no racks: name nodes, such as h0",
        ),
    ],
)
def test_racks_and_levels_that_are_not_there(expression: str, name: str, problem: str, fix: str) -> None:
    with pytest.raises(SpecError) as caught:
        targets.named(build(expression, rate_bps=10**8), name)
    assert (caught.value.problem, caught.value.fix) == (problem, fix)
