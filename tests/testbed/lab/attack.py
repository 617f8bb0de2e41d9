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
from contextlib import closing
from itertools import permutations
from pathlib import Path
from typing import Any

from testbed.lab.base import Lab, Launch, LinkSettings, Program
from testbed.lab.netns import NetnsLab
from topologies.build import build

HOSTILE = Path(__file__).with_name("hostile.py")
PYTHON = "/usr/bin/python3"
"""The system's: a user without rights may not have another."""
WORKS = "sleep 2; echo fine > $OWN/answer"
TIMEOUT_S = 60.0


def attack(lab: Lab, folder: Path) -> dict[str, Any]:
    """The tricks that succeeded on h0, how the workers ended, what h1's left, and what changed on the machine."""
    work = folder / "work"
    own = {name: work / name for name in ("h0", "h1", "s0")}
    for one in own.values():
        one.mkdir(parents=True)
    work.chmod(0o700)
    spec = folder / "spec"
    spec.mkdir()
    script, before = shutil.copy(HOSTILE, spec), machine()
    address = str(folder / "socket")
    with closing(_listen(address)), closing(_listen(f"\0{address}")):
        lab.share(work, [spec])
        topology = build("star(hosts=2)", rate_bps=10**8)
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        words = (PYTHON, script, str(own["h0"]), address), ("sh", "-c", WORKS)
        lab.launch(
            [
                Launch(node, "", str(folder / f"{name}.log"), Program(one, {"OWN": str(own[name])}, "/"))
                for node, (name, one) in enumerate(zip(("h0", "h1"), words, strict=True))
            ]
        )
        ended: dict[int, int] = {}
        deadline = time.monotonic() + TIMEOUT_S
        while len(ended) < len(words) and time.monotonic() < deadline:
            ended |= {one.node: one.status for one in lab.exits()}
            time.sleep(0.05)
        lab.down()
    answer = own["h1"] / "answer"
    said = (folder / "h0.log").read_text()
    return {
        "succeeded": json.loads(said) if said.startswith("[") else said,
        "ended": sorted(ended.items()),
        "answer": answer.read_text() if answer.exists() else None,
        "left": sorted(str(path) for path in folder.rglob("hostile")),
        "changed": sorted(key for key, value in machine().items() if before.get(key) != value),
    }


def _listen(address: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.bind(address)
    found.listen()
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
    links = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    return {**names, **stats, **settings, "links": links, "mounts": Path("/proc/self/mountinfo").read_text()}


if __name__ == "__main__":
    with NetnsLab() as one:
        print(json.dumps(attack(one, Path(sys.argv[1]))))
