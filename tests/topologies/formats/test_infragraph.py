"""InfraGraph: instances as nodes, slices of components, links with rates and delays, and the insides of devices."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import TopologyError
from testbed.topologies.build import build
from testbed.topologies.model import Topology


def _edge(
    first: tuple[str, str], second: tuple[str, str], scheme: str = "one2one", link: str = "wire"
) -> dict[str, Any]:
    return {
        "ep1": dict(zip(("instance", "component"), first, strict=True)),
        "ep2": dict(zip(("instance", "component"), second, strict=True)),
        "scheme": scheme,
        "link": link,
    }


def _inside(first: str, second: str, scheme: str = "many2many") -> dict[str, Any]:
    return {"ep1": {"component": first}, "ep2": {"component": second}, "scheme": scheme, "link": "bus"}


FABRIC: dict[str, Any] = {
    "name": "fabric",
    "devices": [
        {
            "name": "server",
            "components": [
                {"name": "xpu", "count": 2, "choice": "xpu", "xpu": {}},
                {"name": "bridge", "count": 1, "choice": "custom", "custom": {"type": "pcie"}},
                {"name": "card", "count": 2, "choice": "device", "device": {}},
            ],
            "links": [{"name": "bus", "physical": {"bandwidth": {"gigabytes_per_second": 2}}}],
            "edges": [
                _inside("xpu", "bridge"),
                {**_inside("plug[0]", "bridge"), "ep1": {"device": "card[0:2]", "component": "plug[0]"}},
            ],
        },
        {
            "name": "card",
            "components": [
                {"name": "plug", "count": 1, "choice": "port", "port": {}},
                {"name": "nic", "count": 1, "choice": "nic", "nic": {}},
            ],
            "links": [{"name": "bus"}],
            "edges": [_inside("plug", "nic")],
        },
        {
            "name": "switch",
            "components": [
                {"name": "asic", "count": 1, "choice": "cpu", "cpu": {}},
                {"name": "port", "count": 12, "choice": "port", "port": {}},
            ],
            "links": [{"name": "bus"}],
            "edges": [_inside("asic", "port")],
        },
    ],
    "links": [
        {
            "name": "wire",
            "physical": {
                "bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": 0.1},
                "latency": {"choice": "us", "us": 2.5},
            },
        },
        {"name": "lane", "physical": {"bandwidth": {"gigatransfers_per_second": 8}}},
    ],
    "instances": [{"name": "host", "device": "server", "count": 2}, {"name": "leaf", "device": "switch", "count": 2}],
    "edges": [
        _edge(("host[0]", "card[0:2].nic[0]"), ("leaf[0]", "port[::11]")),
        _edge(("host[1]", "card.nic"), ("leaf[1]", "port")),
        _edge(("leaf[0]", "port[4:6]"), ("leaf[1]", "port[8:10]"), "many2many", "lane"),
    ],
}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def make(value: object, arguments: str = "") -> Topology:
        Path("net.json").write_text(json.dumps(value))
        return build(f"net.json({arguments})", rate_bps=10**7, delay_s=0.5)

    return make


@pytest.mark.parametrize("wrapped", [False, True])
def test_each_instance_is_a_node(made, wrapped: bool) -> None:
    topology = made({"infrastructure": FABRIC} if wrapped else FABRIC)
    assert [(node.name, node.kind) for node in topology.nodes] == [
        *(("host0", "host"), ("host1", "host")),
        *(("leaf0", "switch"), ("leaf1", "switch")),
    ]
    ends = [(one.a, one.a_port, one.b, one.b_port) for one in topology.links]
    assert ends[:4] == [(0, 0, 2, 0), (0, 1, 2, 5), (1, 0, 3, 0), (1, 1, 3, 1)]
    assert [end[0::2] for end in ends[4:]] == [(2, 3)] * 4
    assert [(one.rate_bps, one.delay_s) for one in topology.links] == [(10**8, 2.5e-6)] * 4 + [(10**7, 0.5)] * 4
    assert topology.notes == (
        "left out: the insides of devices (cpu, nic, pcie, port, xpu); hosts=xpus has them",
        "4 of 8 links have no rate: the spec's is taken",
    )


def test_each_component_is_a_node(made) -> None:
    topology = made(FABRIC, "hosts=xpus")
    names = [node.name for node in topology.nodes]
    assert names[:5] == ["host0.xpu0", "host0.xpu1", "host1.xpu0", "host1.xpu1", "host0.bridge0"]
    assert topology.host_count == 4
    assert {link.rate_bps for link in topology.links} == {16_000_000_000, 10**8, 10**7}
    passed = [topology.nodes[topology.head(link)].name for link in topology.paths(0, 2)[0].links]
    assert passed[:4] == ["host0.bridge0", "host0.card0.plu", "host0.card0.nic", "leaf0.port0"]
    assert passed[-1] == "host1.xpu0"


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("edges", 0, "ep1", "instance"), "hots[0]", r"edges\.0 names the instance 'hots\[0\]', which is not there"),
        (("edges", 0, "ep1", "component"), "nic", r"edges\.0 names the component 'nic', which is not there"),
        (("edges", 0, "ep1", "instance"), "host[2]", r"edges\.0: host\[2\]: '2' is not in 0 to 1"),
        (("edges", 0, "ep1", "instance"), "host[0:3]", r"edges\.0: host\[0:3\]: '0:3' is not in 0 to 1"),
        (("edges", 0, "ep2", "component"), "port[::0]", r"edges\.0: port\[::0\]: '::0' is not in 0 to 11"),
        (("edges", 0, "ep2", "component"), "port[a]", r"edges\.0: port\[a\]: 'a' is not in 0 to 11"),
        (("edges", 0, "scheme"), "ring", r"edges\.0\.scheme: input should be 'one2one' or 'many2many'"),
        (("edges", 0, "ep1", "component"), "card", r"edges\.0 names the component 'card\.', which is not there"),
        (("instances", 1, "name"), "host", "the instance 'host' is there twice"),
        (("devices", 0, "components", 0, "name"), "card", "the component of server 'card' is there twice"),
        (("instances", 0, "device"), "sever", r"the instance host names the device 'sever'.* \(did you mean 'server'"),
        (("instances", 0, "count"), -1, r"instances\.0\.count: input should be greater"),
        (("instances", 0, "count"), 2**17, r"has more than 262,144 links"),
        (("devices", 0, "components", 2, "name"), "server", "has devices in devices, more than 8"),
        (("instances",), None, "instances: input should be a valid list"),
        (("edges",), [], "has no edge between two instances"),
        (("links", 0, "physical", "latency", "us"), -1, "the link wire has us -1"),
        (("links", 0, "physical", "bandwidth", "gigabits_per_second"), 0, "the link wire has gigabits_per_second 0"),
    ],
)
def test_infrastructures_with_a_mistake(made, path: tuple[Any, ...], value: object, problem: str) -> None:
    fabric = copy.deepcopy(FABRIC)
    at: Any = fabric
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(TopologyError, match=problem):
        made(fabric, "hosts=xpus" if value == 2**17 else "")


def test_what_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text("{")
    with pytest.raises(TopologyError, match="is no JSON"):
        build(str(tmp_path / "net.json"), rate_bps=1)
