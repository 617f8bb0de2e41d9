"""Labs of containerlab: kinds, groups, links in both forms, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.topologies.formats import write
from testbed.topologies.model import Topology

LAB = """\
name: small
mgmt: {network: custom}
topology:
  defaults: {kind: linux}
  kinds: {nokia_srlinux: {image: srlinux, type: ixrd3}}
  groups: {leaf: {kind: nokia_srlinux}}
  nodes:
    leaf1: {group: leaf, startup-config: leaf1.cfg}
    leaf2: {kind: ceos}
    client10:
    client2:
  links:
    - endpoints: ["leaf1:e1-10", "leaf2:eth1"]
    - endpoints: ["client10:eth1", "leaf1:e1-9"]
    - type: veth
      endpoints:
        - {node: client2, interface: eth1}
        - {node: leaf2, interface: eth2}
      mtu: 9500
    - endpoints: ["leaf1:e1-3", "host:leaf1"]
    - {type: macvlan, endpoint: {node: leaf1, interface: e1-4}, host-interface: lan}
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def make(text: str, arguments: str = "") -> Topology:
        Path("net.clab.yml").write_text(text)
        return build(f"net.clab.yml({arguments})", rate_bps=10**8)

    return make


def test_nodes_links_and_ports(made) -> None:
    topology = made(LAB)
    assert [(node.name, node.kind, node.level) for node in topology.nodes] == [
        *(("client10", "host", 0), ("client2", "host", 0)),
        *(("leaf1", "switch", 1), ("leaf2", "switch", 1)),
    ]
    assert [(one.a, one.a_port, one.b, one.b_port) for one in topology.links] == [
        *((2, 1, 3, 0), (0, 0, 2, 0)),  # e1-9 comes before e1-10
        (1, 0, 3, 1),
    ]
    assert topology.notes == (
        "left out: endpoint, host-interface, image, mgmt, mtu, startup-config, type",
        "left out: 2 links out of the lab (1 to host, 1 to macvlan)",
        "3 of 3 links have no rate: the spec's is taken",
    )


def test_hosts_may_be_others(made) -> None:
    assert [node.name for node in made(LAB, "hosts=[leaf1,leaf2]").nodes][:2] == ["leaf1", "leaf2"]
    assert made(LAB, "hosts=all").host_count == 4


def test_what_is_written_has_no_images_and_the_interfaces_of_its_kinds() -> None:
    lab = yaml.safe_load(write(build("star(hosts=2)", rate_bps=10**8), "clab"))
    assert lab["topology"]["nodes"]["s0"]["kind"] == "nokia_srlinux"
    assert lab["topology"]["nodes"]["h1"] == {
        "kind": "linux",
        "labels": {"testbed-kind": "host", "testbed-level": "0", "testbed-rack": "0"},
    }
    assert lab["topology"]["links"][1] == {
        "endpoints": ["h1:eth1", "s0:e1-2"],
        "vars": {"rate_bps": 10**8, "delay_s": 0.0},
    }


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("leaf2:eth1", "leaf3:eth1", "link 0 ends at 'leaf3:eth1', and there is no such node"),
        ("leaf1:e1-9", "leaf1:e1-10", "link 1 ends at 'leaf1:e1-10', as one before"),
        (', "leaf2:eth1"', "", "link 0 has no two ends"),
        ("leaf2:eth1", "leaf2", "link 0 has no two ends"),
        ("client2:", "client10:", "'client10' is there twice"),
        ("nodes:", "node:", "topology.nodes: field required"),
        ("{kind: ceos}", "&a {kind: ceos}\n    leaf3: *a", r"has the alias \*a"),
        ("name: small", "name: [", "is no YAML"),
        ("name: small", f"name: {'[' * 40}{']' * 40}", "is nested too deeply"),
        ("{kind: ceos}", "[ceos]", "topology.nodes.leaf2: "),
    ],
)
def test_labs_with_a_mistake(made, old: str, new: str, problem: str) -> None:
    assert old in LAB
    with pytest.raises(TopologyError, match=problem):
        made(LAB.replace(old, new, 1))
