"""Playbooks over a whole inventory, by name: what ``testbed hosts`` does."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.base.errors import HostError
from testbed.base.python import PACKAGE
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.connection import end_shared
from testbed.lab.baremetal.preparing import inventory as inventories
from testbed.lab.baremetal.preparing.bundle import bundle
from testbed.lab.baremetal.preparing.playbook import Played, Tell, play

PACKAGES = ("torch", "numpy", "scikit-learn")
"""Packages that workers import, beside our code."""


@dataclass(frozen=True)
class OnAll:
    """A playbook's outcome, and the hosts that it was for."""

    hosts: tuple[str, ...]
    outcome: Played


def play_on_all(name: str, inventory: Path, variables: Mapping[str, Any], tell: Tell, *, check: bool = False) -> OnAll:
    """Run ``playbooks/NAME.yml`` on every host of an inventory.

    Raises:
        SpecError: the inventory makes no sense.
        MissingToolError: Ansible or its playbooks are not installed.
    """
    found = inventories.load(inventory)
    with tempfile.TemporaryDirectory(prefix="tb-") as folder:
        digest, path = bundle(Path(folder))
        given = {"testbed_digest": digest, "testbed_bundle": str(path), "testbed_packages": packages()}
        try:
            played = play(name, found, {**given, **variables}, Path(folder), tell, check=check)
        finally:
            end_shared(found.hosts, Path(folder))
    return OnAll(tuple(host.name for host in found.hosts), played)


def left_on_all(inventory: Path, *, remove: bool = False, allow_missing: bool = False) -> list[dict[str, str]]:
    """Find, and with ``remove`` remove, what runs that were cut off have left on the hosts: a list as of
    :mod:`testbed.lab.baremetal.nics.leftovers`, with its ``host``.

    Raises:
        SpecError: the inventory makes no sense.
        MissingToolError: Ansible or its playbooks are not installed.
        HostError: a host cannot be looked at, or says what cannot be.
    """
    played = play_on_all("clean", inventory, {"testbed_remove": remove}, lambda _: None)
    played.outcome.require(played.hosts, allow_missing=allow_missing)
    return [
        {"host": host, **one}
        for host in played.hosts
        for one in _left(host, played.outcome.answers[host].get("Look what is left", {}).get("left", []))
    ]


def _left(host: str, said: object) -> list[dict[str, str]]:
    try:
        return answers.left(said)
    except HostError as error:
        raise HostError(f"{host}: {error.problem}", fix=error.fix) from None


def packages() -> list[str]:
    """Packages that pip is to install on a host, as the project asks for them; PyTorch in the version that set-up
    installs here."""
    text = (PACKAGE.parent / "pyproject.toml").read_text()
    found = [match[1] for match in re.finditer(r'^    "([^"]+)",', text, re.M) if _name(match[1]) in PACKAGES]
    torch = (PACKAGE.parent / "requirements" / "torch.txt").read_text().strip()
    return [torch if _name(one) == "torch" else one for one in found]


def _name(requirement: str) -> str:
    return re.split(r"[<>=!~\[ ]", requirement)[0]
