"""The hosts: an ordinary Ansible inventory, read by Ansible itself, so that groups, ranges and vaults work as ever.

What this lab needs of a host, beside what Ansible needs to reach it, is its training NICs::

    all:
      vars: {ansible_user: lab, ansible_become: true}
      hosts:
        node1:
          ansible_host: 192.168.1.11
          rack: 0
          nics:
            - {name: eth1, address: 10.10.0.11, rate: 10 Gbit/s}
            - {name: eth2}                # no address: it gets one while a trial runs
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from testbed.base.errors import SpecError
from testbed.base.units import rate_bps
from testbed.lab.baremetal.preparing.ansible import (
    ADDRESS,
    PORT,
    VAULT_FIX,
    check_installed,
    complaint,
    given,
    is_locked,
    passwords,
    program,
    resolved,
)

TRAINING = "training"
READ_TIMEOUT_S = 60.0
HOME = "/var/lib/testbed"
"""Folder of everything of ours on a host, unless ``testbed_home`` says otherwise."""


@dataclass(frozen=True)
class InventoryNic:
    """A training NIC; ``address`` is None where the lab is to give it one, ``rate_bps`` where nobody said."""

    name: str
    address: str | None = None
    rate_bps: int | None = None


@dataclass(frozen=True)
class Host:
    """A machine as the inventory has it; ``variables`` are all of Ansible's, resolved as :mod:`.ansible` says."""

    name: str
    nics: tuple[InventoryNic, ...]
    rack: str | None
    home: str
    variables: Mapping[str, Any]


@dataclass(frozen=True)
class Inventory:
    """A file, its hosts in its order (which is Ansible's), and variables of the environment that open its vaults."""

    path: Path
    hosts: tuple[Host, ...]
    passwords: Mapping[str, str] = field(default_factory=dict)

    def without(self, names: Sequence[str]) -> Inventory:
        """Copy the inventory without some hosts."""
        return replace(self, hosts=tuple(host for host in self.hosts if host.name not in names))


def load(path: Path) -> Inventory:
    """Read an inventory. Raises SpecError: it cannot be read, or a host's entry makes no sense or cannot be resolved;
    MissingToolError: Ansible or its playbooks are not installed."""
    listed, environment = _read(path)
    return replace(understood(path, listed), passwords=environment)


def to_log_in(path: Path) -> list[Host]:
    """Read of an inventory only how to log in to its hosts. Raises errors as :func:`load` does."""
    listed, _ = _read(path)
    variables = listed["_meta"]["hostvars"]
    return [Host(name, (), None, HOME, variables.get(name, {})) for name in _names(path, listed)]


def _read(path: Path) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return what ``ansible-inventory --list`` says of a file, with its variables resolved, and the passwords."""
    check_installed()
    if not path.is_file():
        raise SpecError(f"{path}: there is no such inventory", fix="give the inventory's file")
    listed, environment = _list(path), passwords()
    variables = resolved(path, listed["_meta"]["hostvars"], environment)
    return {**listed, "_meta": {"hostvars": variables}}, environment


def understood(path: Path, listed: Mapping[str, Any]) -> Inventory:
    """Make an inventory from what ``ansible-inventory --list`` says of its file. Raises SpecError as :func:`load`
    does."""
    variables = listed["_meta"]["hostvars"]
    hosts = (_host(path, name, variables.get(name, {})) for name in _names(path, listed))
    found = Inventory(path.resolve(), tuple(hosts))
    _check_distinct(found)
    return found


def _names(path: Path, listed: Mapping[str, Any]) -> list[str]:
    names = list(dict.fromkeys(_in_order(listed, "all")))
    if not names:
        raise SpecError(
            f"{path}: the inventory has no hosts", fix="add some, see testbed/lab/baremetal/preparing/inventory.py"
        )
    return names


def _list(path: Path) -> dict[str, Any]:
    words = [program("ansible-inventory"), "-i", str(path), "--list"]
    environment = {**os.environ, "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true", "ANSIBLE_NOCOLOR": "1"}
    environment["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"] = "true"
    done = subprocess.run(words, capture_output=True, text=True, timeout=READ_TIMEOUT_S, env=environment)
    if done.returncode:
        said = complaint(done)
        fix = VAULT_FIX if is_locked(done.stderr) else "correct it, as YAML"
        raise SpecError(f"{path}: Ansible cannot read this inventory: {said}", fix=fix)
    return dict(json.loads(done.stdout))


def _in_order(listed: Mapping[str, Any], group: str) -> Iterator[str]:
    one = listed.get(group, {})
    yield from one.get("hosts", ())
    for child in one.get("children", ()):
        yield from _in_order(listed, child)


def _host(path: Path, name: str, variables: Mapping[str, Any]) -> Host:
    given = variables.get("nics")
    if not isinstance(given, list) or not given:
        raise SpecError(
            f"{path}: {name} has no training NICs", fix="add them, such as nics: [{name: eth1}]; not the one SSH uses"
        )
    nics = [_nic(f"{path}: {name}", one) for one in given]
    training = tuple(nic for nic, role in nics if role == TRAINING)
    names = [nic.name for nic in training]
    twice = {one for one in names if names.count(one) > 1}
    if twice:
        raise SpecError(f"{path}: {name} has the NIC {twice.pop()} twice", fix="name each once")
    rack = variables.get("rack")
    home = str(variables.get("testbed_home", HOME))
    return Host(name, training, None if rack is None else str(rack), home, variables)


def _nic(where: str, raw: object) -> tuple[InventoryNic, str]:
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        raise SpecError(f"{where}: {raw!r} is no NIC", fix="write it as {name: eth1}")
    unknown = raw.keys() - {"name", "address", "rate", "role"}
    if unknown:
        raise SpecError(f"{where}: {raw['name']} has {min(unknown)!r}", fix="a NIC has name, address, rate and role")
    address = raw.get("address")
    try:
        text = None if address is None else str(ipaddress.IPv4Interface(str(address)).ip)
    except ValueError:
        raise SpecError(f"{where}: {raw['name']}: {address!r} is no IPv4 address", fix="write 10.0.0.1") from None
    try:
        rate = None if raw.get("rate") is None else rate_bps(raw["rate"])
    except SpecError as error:
        raise SpecError(f"{where}: {raw['name']}: {error.problem}", fix=error.fix) from None
    return InventoryNic(raw["name"], text, rate), str(raw.get("role", TRAINING))


def _check_distinct(inventory: Inventory) -> None:
    """Raises SpecError: two hosts have one address."""
    owners: dict[str, list[str]] = defaultdict(list)
    for host in inventory.hosts:
        reached, port = given(host.variables, ADDRESS) or host.name, str(given(host.variables, PORT) or 22)
        owners[f"{reached} (port {port})" if port != "22" else str(reached)].append(host.name)
        for nic in host.nics:
            if nic.address is not None:
                owners[nic.address].append(f"{host.name}'s {nic.name}")
    for address, names in owners.items():
        if len(names) > 1:
            raise SpecError(
                f"{inventory.path}: {names[0]} and {names[1]} have one address, {address}",
                fix="correct one of the two in the inventory",
            )
