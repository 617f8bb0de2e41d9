"""Some hosts of a network as a network of their own."""

from __future__ import annotations

import pytest

from testbed.topologies.build import build
from testbed.topologies.part import Part, passed

RATE_BPS = 10**8


@pytest.mark.parametrize(
    "text",
    [
        "star(hosts=5)",
        "spine_leaf(racks=2,hosts_per_rack=3,spines=2)",
        "bcube(n=3,k=2)",
        "patch_panel(servers=6,degree=2,rings=[1])",
    ],
)
def test_paths_are_those_of_the_whole_network(text: str) -> None:
    whole = build(text, rate_bps=RATE_BPS)
    part = Part(whole, (3, 0, 4))
    found = part.topology
    assert [found.nodes[host].name for host in found.hosts] == [whole.nodes[host].name for host in part.hosts]
    assert sorted(part.nodes) == list(range(len(whole.nodes)))
    for a in found.hosts:
        for b in found.hosts:
            assert found.paths(a, b) == whole.paths(part.hosts[a], part.hosts[b])
    for link in range(2 * len(whole.links)):
        assert part.nodes[found.head(link)] == whole.head(link)
        assert part.nodes[found.tail(link)] == whole.tail(link)


def test_all_hosts_in_their_order_are_the_network_itself() -> None:
    whole = build("bcube(n=2,k=2)", rate_bps=RATE_BPS)
    assert Part(whole, tuple(whole.hosts)).topology is whole
    assert Part(whole, (1, 0, 2, 3)).topology.family == "4 hosts of bcube"


def test_a_part_says_what_it_is() -> None:
    assert Part(build("star(hosts=5)", rate_bps=RATE_BPS), (1, 2)).topology.expression == "2 hosts of star(hosts=5)"


def test_hosts_that_traffic_passes() -> None:
    chain = build("patch_panel(servers=4,degree=2,rings=[1])", rate_bps=RATE_BPS)
    assert passed(chain, [(0, 1)]) == set()
    assert len(passed(chain, [(0, 2)])) == 1
    assert passed(build("star(hosts=4)", rate_bps=RATE_BPS), [(0, 2), (1, 3)]) == set()
