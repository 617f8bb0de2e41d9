"""A hostile worker in each lab, beside one that works: which of its tricks succeed, and what else happens.

    python -m benchmarks.hostile [--files N] [--labs LAB...]    # as root, in the repository's root
    python tests/testbed/lab/dockerd.py python -m benchmarks.hostile    # with a Docker daemon for the time being

The tricks are those of ``tests/testbed/lab/hostile.py``; the suite tries them with fewer files. ``by design`` counts
tricks that reach only what is the worker's own in that lab (``tests/testbed/lab/attack.py`` names them). Machines are
rehearsed, and workers are users there whom sudo asks for a password. The last columns are of a worker that prints
ten times what a log may have: how large its log is when its trial is ended, and how long that takes.

Reach: no trick succeeds, the other worker ends well, and nothing is changed on this machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

from testbed.base.columns import columns
from testbed.base.errors import TestbedError, TrialError
from testbed.execution import supervise
from testbed.lab.baremetal.lab import BaremetalLab
from testbed.lab.base import Lab, LinkSettings
from testbed.lab.docker import image
from testbed.lab.docker.daemon import Daemon
from testbed.lab.docker.lab import DockerLab
from testbed.lab.mininet.lab import MininetLab
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Launch, Program
from testbed.topologies.build import build
from tests.rehearsal.rehearsal import ASKED, PASSWORD, Rehearsal
from tests.testbed.lab.attack import CONTAINERS, MACHINES, NAMESPACES, Ground, attack

FILES = 100_000
PRINTS = 10 * 2**30
PRINTS_INTO_MEMORY = PRINTS // 4
"""Where hosts are rehearsed, whose files are in memory."""
TIMES = 10
"""What a worker prints, over what a log may have: 1 GiB, and less on rehearsed hosts."""
WELL = [[0, 0], [1, 0]]


def in_docker() -> DockerLab:
    image.make(Daemon())
    return DockerLab()


@contextmanager
def on_machines() -> Iterator[Lab]:
    """Two rehearsed hosts, on which workers are ordinary users."""

    def as_asked(hosts: dict[str, dict[str, Any]]) -> None:
        for one in hosts.values():
            one.update(ansible_user=ASKED, ansible_become=True, ansible_become_password=PASSWORD)

    with tempfile.TemporaryDirectory(prefix="hosts-") as folder, Rehearsal(Path(folder), hosts=2) as hosts:
        prepared = hosts.testbed("hosts", "prepare", "--inventory", str(hosts.inventory))
        if prepared.returncode:
            sys.exit(prepared.stderr)
        with BaremetalLab(hosts.write_inventory(as_asked, outside=True)) as lab:
            yield lab


LABS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Ground, int]] = {
    "netns": (NetnsLab, NAMESPACES, PRINTS),
    "mininet": (MininetLab, NAMESPACES, PRINTS),
    "docker": (in_docker, CONTAINERS, PRINTS),
    "baremetal": (on_machines, MACHINES, PRINTS_INTO_MEMORY),
}


def flood(lab: Lab, folder: Path, prints: int) -> tuple[int, float]:
    """How large the log of a worker that prints is once it was found to be too large and the lab is down, and when (s).
    As a trial does, this looks once a second."""
    supervise.LARGEST_LOG_BYTES = prints // TIMES
    (folder / "work").mkdir()
    lab.share(folder / "work")
    topology = build("star(hosts=2)", rate_bps=10**8)
    lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
    log, began_s = folder / "flood.log", time.monotonic()
    lab.launch([Launch("h0", 0, "", str(log), Program(("head", "-c", str(prints), "/dev/zero"), {}, "/"))])
    try:
        while not lab.exits():
            supervise.check_logs([log])
            time.sleep(1)
        supervise.check_logs([log])
    except TrialError:
        lab.down()
        return log.stat().st_size, time.monotonic() - began_s
    sys.exit(f"a log of {log.stat().st_size:,} bytes was taken")


def row(name: str, lab: Lab, ground: Ground, files: int, prints: int) -> tuple[list[str], bool]:
    """Of the table; and whether nothing came of it."""
    with tempfile.TemporaryDirectory() as place:
        found = attack(lab, Path(place), ground, files)
        log_bytes, took_s = flood(lab, Path(place), prints)
    changed = [*found["left"], *found["changed"]]
    well = found["ended"] == WELL and found["answer"] == "fine\n"
    cells = [
        *(name, str(found["tried"]), str(len(found["succeeded"])), str(found["allowed"])),
        *("well" if well else f"{found['ended']}", ", ".join(changed) or "nothing"),
        *(f"{log_bytes / 2**30:.2f} GiB", f"{took_s:.1f} s"),
    ]
    for trick in found["succeeded"]:
        print(f"{name}: {trick}")
    return cells, well and not found["succeeded"] and not changed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--labs", nargs="+", choices=LABS, default=list(LABS))
    parser.add_argument("--files", type=int, default=FILES, help="how many files it leaves")
    asked = parser.parse_args()
    rows, reached = [], True
    for name in asked.labs:
        make, ground, prints = LABS[name]
        try:
            with make() as lab:
                cells, fine = row(name, lab, ground, asked.files, prints)
        except TestbedError as error:
            cells, fine = [name, str(error)], False
        rows.append(cells)
        reached &= fine
    titles = ("lab", "tricks", "succeeded", "by design", "other worker", "changed here", "log", "ended after")
    print(columns(titles, [[*cells, *[""] * (len(titles) - len(cells))] for cells in rows]))
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
