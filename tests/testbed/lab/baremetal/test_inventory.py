"""Inventories as Ansible reads them, and what this lab wants of their hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.errors import SpecError
from testbed.lab.baremetal.inventory import InventoryNic, load, understood

pytest.importorskip("ansible_runner")

GROUPS = """\
all:
  vars: {nics: [{name: eth1}]}
  children:
    racks:
      children:
        rack1: {hosts: {"b[1:2]": {}}, vars: {rack: 1}}
        rack0:
          hosts:
            a9: {}
            a1: {nics: [{name: ib0, address: 10.1.0.1/24, rate: 10 Gbit/s}, {name: m, role: storage}]}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "inventory.yml"
    path.write_text(text)
    return path


def test_groups_ranges_and_variables_are_ansibles(tmp_path: Path) -> None:
    found = load(write(tmp_path, GROUPS))
    assert [host.name for host in found.hosts] == ["b1", "b2", "a9", "a1"]
    assert [host.rack for host in found.hosts] == ["1", "1", None, None]
    assert {host.nics for host in found.hosts[:3]} == {(InventoryNic("eth1"),)}
    assert found.hosts[3].nics == (InventoryNic("ib0", "10.1.0.1", 10**10),)
    assert [host.name for host in found.without(["a1"]).hosts] == ["b1", "b2", "a9"]


@pytest.mark.parametrize(
    ("nics", "said"),
    [
        ("eth1", "a has no training NICs"),
        (["eth1"], "'eth1' is no NIC"),
        ([{"name": "eth1", "adress": "10.0.0.1"}], "eth1 has 'adress'"),
        ([{"name": "eth1", "address": "10.0.0.300"}], "'10.0.0.300' is no IPv4 address"),
        ([{"name": "eth1", "rate": 10}], "10 has no unit"),
        ([{"name": "eth1"}, {"name": "eth1"}], "a has the NIC eth1 twice"),
    ],
)
def test_nics_that_make_no_sense_are_refused(nics: object, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        understood(Path("lab.yml"), {"_meta": {"hostvars": {"a": {"nics": nics}}}, "all": {"hosts": ["a"]}})


@pytest.mark.parametrize(
    ("text", "said"),
    [("all: {hosts: {}}", "the inventory has no hosts"), ("all: [", "Ansible cannot read this inventory")],
)
def test_a_file_without_hosts_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        load(write(tmp_path, text))


def test_an_inventory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such inventory"):
        load(tmp_path / "none.yml")
