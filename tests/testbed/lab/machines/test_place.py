from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import SpecError
from testbed.experiment.planning import plan, text
from testbed.lab.baremetal.preparing import inventory
from testbed.lab.baremetal.preparing.inventory import Host, Inventory, InventoryNic
from testbed.spec import Source, load

from ...conftest import SPEC

PLACE = "machines.place={h1: node1, s0: node2}"


@pytest.fixture(autouse=True)
def two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, "node1", "node2")


def known(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have every inventory be of these machines, with one NIC each."""
    hosts = tuple(Host(name, (InventoryNic("eth1", None),), None, "/", {}) for name in names)
    monkeypatch.setattr(inventory, "load", lambda path: Inventory(path, hosts))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "spec.yaml").write_text(SPEC)
    return load(tmp_path / "spec.yaml", ["lab=machines", PLACE])


def test_a_plan_says_which_nodes_each_machine_has_and_what_crosses(source: Source, tmp_path: Path) -> None:
    found = plan(source, inventory=tmp_path)
    assert found["trials"][0]["machines"] == [
        {"machine": "node1", "nodes": ("h1",), "crossing_bps": 200_000_000},
        {"machine": "node2", "nodes": ("h0", "h2", "s0"), "crossing_bps": 200_000_000},
    ]
    lines = [line.split() for line in text(found).splitlines()]
    assert ["node2", "3", "h0,", "h2,", "s0", "200", "Mbit/s"] in lines
    assert not [one for one in found["warnings"] if "--inventory" in one]


def test_without_an_inventory_a_plan_says_how_to_name_machines(source: Source) -> None:
    found = plan(source)
    assert "machines" not in found["trials"][0]
    assert found["warnings"][-1].endswith("name the machines, --inventory FILE")


def test_a_place_on_no_machine_is_refused_by_a_plan(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    source = load(tmp_path / "spec.yaml", ["lab=machines", "machines.place={h0: node3}"])
    with pytest.raises(SpecError, match="h0 is placed on 'node3', which is no machine"):
        plan(source, inventory=tmp_path)


def test_a_plan_for_machines_that_are_hosts_names_each_and_refuses_too_few(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    source = load(tmp_path / "spec.yaml", ["lab=baremetal"])
    with pytest.raises(SpecError, match=r"star\(hosts=3\) has 3 hosts, and .* 2\n"):
        plan(source, inventory=tmp_path)
    known(monkeypatch, "a", "b", "c", "d")
    assert plan(source, inventory=tmp_path)["trials"][-1]["machines"] == [
        {"machine": name, "nodes": (host,), "crossing_bps": 200_000_000}
        for name, host in (("a", "h0"), ("b", "h1"), ("c", "h2"))
    ]
    losing = load(tmp_path / "spec.yaml", ["lab=baremetal", "links.loss=0.01"])
    with pytest.raises(SpecError, match=r"links with a loss of 0\.01: the lab baremetal has the delays"):
        plan(losing, inventory=tmp_path)
