"""Playbooks over a whole inventory, by name: what ``testbed hosts`` does; and the archive that prepare.yml unpacks on a
host.

The archive has the packages that workers and the agent import, in a directory named by its content; and a mark, by
which reset.yml knows that the directory around it is ours.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.base.python import PACKAGE
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.connection import end_shared
from testbed.lab.baremetal.preparing import inventory as inventories
from testbed.lab.baremetal.preparing.playbook import Played, Tell, play

PACKAGES = ("torch", "numpy", "scikit-learn")
"""Packages that workers import, beside our code."""
MARK, SAID = ".testbed", b"made by testbed's playbooks/prepare.yml; playbooks/reset.yml removes it\n"
LEFT_OUT = "analysis"
"""The package of ``testbed`` that nothing on a host imports."""
SUFFIXES = (".py", ".so")
"""Endings of files to take. A host whose Python and processor are like ours uses the compiled ones; another one does
without."""
DIGITS = 12


@dataclass(frozen=True)
class OnAll:
    """A playbook's outcome, and the hosts that it was for."""

    hosts: tuple[str, ...]
    outcome: Played


def play_on_all(name: str, inventory: Path, variables: Mapping[str, Any], tell: Tell, *, check: bool = False) -> OnAll:
    """Run ``playbooks/NAME.yml`` on every host of an inventory. Raises SpecError: the inventory makes no sense;
    MissingToolError: Ansible or its playbooks are not installed."""
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
    found = []
    for host in played.hosts:
        with answers.named(host):
            left = answers.left(played.outcome.answers[host].get("Look what is left", {}).get("left", []))
        found += [{"host": host, **one} for one in left]
    return found


def packages() -> list[str]:
    """Packages that pip is to install on a host, as the project asks for them; PyTorch in the version that set-up
    installs here."""
    text = (PACKAGE.parent / "pyproject.toml").read_text()
    found = [match[1] for match in re.finditer(r'^    "([^"]+)",', text, re.M) if _name(match[1]) in PACKAGES]
    torch = (PACKAGE.parent / "requirements" / "torch.txt").read_text().strip()
    return [torch if _name(one) == "torch" else one for one in found]


def _name(requirement: str) -> str:
    return re.split(r"[<>=!~\[ ]", requirement)[0]


def bundle(folder: Path) -> tuple[str, Path]:
    """Write the archive into ``folder``; return its code's digest, and its path. The same code gives the same bytes."""
    root = PACKAGE.parent
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(_sources(root / "testbed"))}
    digest = hashlib.sha256(b"".join(f"{name} {len(data)}\n".encode() + data for name, data in files.items()))
    named = digest.hexdigest()[:DIGITS]
    path = folder / f"testbed-{named}.tar"
    with tarfile.open(path, "w") as tar:
        for name, data in {MARK: SAID, **{f"code-{named}/{name}": data for name, data in files.items()}}.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return named, path


def _sources(package: Path) -> Iterator[Path]:
    """Yield the files to take. In a clone, some packages are links to folders beside ``testbed``; in the archive, none
    is."""
    for folder, folders, names in os.walk(package, followlinks=True):
        if Path(folder) == package:
            folders.remove(LEFT_OUT)
        yield from (Path(folder, name) for name in names if name.endswith(SUFFIXES))
