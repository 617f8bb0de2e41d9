"""Let a worker that means harm loose in a lab, beside one that works; what came of it.

Usage: ``python attack.py FOLDER``, in the lab ``netns``; prints it as JSON
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from testbed.files.removal import remove
from testbed.files.writing import opened_folder
from testbed.lab.base import Lab, LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Launch, Program
from testbed.topologies.build import build

HOSTILE = Path(__file__).with_name("hostile.py")
PYTHON = "/usr/bin/python3"
"""The system's: a user without rights may not have another."""
WORKS = "sleep 2; echo fine > $OWN/answer; cat $OWN/answer"
TIMEOUT_S, FILES_PER_S = 60.0, 500
FILES = 2_000
OWN_FOLDER = ""
"""Of a program on a machine: its agent's working folder."""


SPEC = """\
name: hostile
links: {rate: 100 Mbit/s}
workload: {kind: command, command: python rank.py}
arms: [{topology: star(hosts=2)}]
timeout: 30 s
retries: 0
quiet: 0 s
"""
RANK = """\
import glob, os, runpy, sys, time
if os.environ["RANK"] == "0":
    (own,) = glob.glob("run/work/*/h0")
    sys.argv[1:] = [own, ADDRESS, "h1", "FILES"]
    runpy.run_path("hostile.py", run_name="__main__")
else:
    time.sleep(4)
    print("fine")
"""
"""Rank 0 of an experiment means harm."""


@dataclass(frozen=True)
class Ground:
    """What a lab makes of the worker's tricks.

    Attributes:
        allowed: tricks that succeed by design, and reach nothing but what is the worker's own.
        other: the address of another node.
        is_shared: whether nodes have this machine's files; otherwise the own folder is where a program starts.
    """

    allowed: frozenset[str] = frozenset()
    other: str = "h1"
    is_shared: bool = True


LIMITS = "sets the first process's limits"
"""Of its own node or container, which it can only end: ``hold_up.py`` shows that nobody else notices."""
NAMESPACES = Ground(frozenset({LIMITS}))
CONTAINERS = Ground(frozenset({LIMITS, "writes to /etc", "writes to the home", "writes the machine's hosts"}))
"""A container has these to itself, and they are gone with it."""
KEYS = {"finds the user's keys", "finds the session's keys", "keeps a key", "finds the user's keys by another number"}
MACHINES = Ground(
    frozenset({"writes to the home", "sees the machine's interfaces", "ends all processes", "dumps core", *KEYS}),
    "192.168.77.2",
    False,
)
"""A worker is a user of its machine, see SECURITY.md."""


def attack(lab: Lab, folder: Path, ground: Ground = NAMESPACES, files: int = FILES) -> dict[str, Any]:
    """How many tricks were tried on h0, which succeeded, how many are allowed and did, how the workers ended, what h1
    says, what else was written or runs, and what changed on this machine."""
    work = folder / "work"
    own = {name: work / name for name in ("h0", "h1", "s0")}
    for one in own.values():
        one.mkdir(parents=True)
    work.chmod(0o700)
    spec = folder / "spec"
    spec.mkdir()
    shutil.copy(HOSTILE, spec)
    before, address = machine(), str(folder / "socket")
    with service(address):
        lab.share(work, [spec])
        topology = build("star(hosts=2)", rate_bps=10**8)
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        places = [str(own[name]) if ground.is_shared else "." for name in ("h0", "h1")]
        hostile = (PYTHON, "-c", HOSTILE.read_text(), places[0], address, ground.other, str(files))
        start = "/" if ground.is_shared else OWN_FOLDER
        lab.launch(
            [
                Launch(f"h{node}", node, "", str(folder / f"h{node}.log"), Program(words, {"OWN": places[node]}, start))
                for node, words in enumerate((hostile, ("sh", "-c", WORKS)))
            ]
        )
        ended = _ended(lab, TIMEOUT_S + files / FILES_PER_S)
        lab.down()
    left = sorted(str(path) for path in folder.rglob("hostile"))
    with opened_folder(folder) as there:
        remove("work", there)
    said = _said(folder / "h0.log")
    return {
        "tried": said["tried"],
        "succeeded": sorted(set(said["succeeded"]) - ground.allowed),
        "allowed": len(ground.allowed.intersection(said["succeeded"])),
        "ended": ended,
        "answer": (folder / "h1.log").read_text(),
        "left": [*left, *running(f"{address}-stays")],
        "changed": sorted(key for key, value in machine().items() if before.get(key) != value),
    }


def write_experiment(folder: Path, address: str, files: int = FILES) -> None:
    """An experiment for the run directory ``run``, of a trial in which the worker on h0 means harm."""
    shutil.copy(HOSTILE, folder)
    (folder / "spec.yaml").write_text(SPEC)
    (folder / "rank.py").write_text(RANK.replace("ADDRESS", repr(address)).replace("FILES", str(files)))


def _ended(lab: Lab, within_s: float) -> list[list[int]]:
    """Node and status of each worker that has ended in time."""
    found: dict[int, int] = {}
    deadline = time.monotonic() + within_s
    while len(found) < 2 and time.monotonic() < deadline:
        found |= {one.node: one.status for one in lab.exits()}
        time.sleep(0.05)
    return [list(one) for one in sorted(found.items())]


def _said(log: Path) -> dict[str, Any]:
    """What the worker that means harm has printed; all of it is one line."""
    text = log.read_text()
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        return {"tried": 0, "succeeded": [text]}
    return found


@contextmanager
def service(address: str) -> Iterator[None]:
    """Somebody who listens on this machine, at a path and at a name."""
    with closing(_listen(address)), closing(_listen(f"\0{address}")):
        yield


def _listen(address: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.bind(address)
    found.listen()
    return found


def running(word: str) -> list[str]:
    """Processes that were started with this word, in whatever namespaces."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(f"process {path.parent.name}")
    return found


def machine() -> dict[str, Any]:
    """What a hostile worker would change first."""
    folders = (Path("/"), Path("/etc"), Path("/usr"), Path.home())
    names = {
        f"names in {folder}": sorted(map(str, folder.iterdir())) for folder in folders if os.access(folder, os.R_OK)
    }
    files = {str(path): path.stat() for path in Path("/etc").iterdir() if path.is_file()}
    stats = {path: (one.st_size, one.st_mtime_ns, one.st_mode, one.st_uid) for path, one in files.items()}
    settings = {name: Path("/proc/sys/kernel", name).read_text() for name in ("core_pattern", "hostname")}
    network = {
        what: subprocess.run(["ip", *what.split()], capture_output=True, text=True, check=True).stdout
        for what in ("link", "-brief address", "route")
    }
    return {**names, **stats, **settings, **network, "mounts": Path("/proc/self/mountinfo").read_text()}


if __name__ == "__main__":
    with NetnsLab() as one:
        print(json.dumps(attack(one, Path(sys.argv[1]))))
