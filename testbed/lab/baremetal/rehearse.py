"""A whole experiment on rehearsed hosts, from prepare to report, then reset; and a proof that they are as before.

Usage: ``python -m testbed.lab.baremetal.rehearse [SPEC] [--hosts N] [--nics N]`` (``make rehearse``)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import TestbedError
from testbed.lab.baremetal.rehearsal import Rehearsal


def main(arguments: Sequence[str]) -> int:
    """0 if everything went well and every host is as before."""
    parser = argparse.ArgumentParser(prog="rehearse", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("spec", nargs="?", type=Path, default=Path("experiments/quickstart.yaml"))
    parser.add_argument("--hosts", type=int, default=9)
    parser.add_argument("--nics", type=int, default=2)
    asked = parser.parse_args(arguments)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="testbed-rehearsal-") as folder,
            Rehearsal(Path(folder), asked.hosts, asked.nics) as rehearsal,
        ):
            return rehearse(rehearsal, asked.spec)
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def rehearse(rehearsal: Rehearsal, spec: Path) -> int:
    """Every step, and what it took."""
    count, inventory = len(rehearsal.names), str(rehearsal.inventory)
    before = [rehearsal.snapshot(host) for host in range(count)]
    _say(f"{count} hosts with SSH are up; their inventory is {inventory}")
    failed = _step(rehearsal, "prepare", "hosts", "prepare", "--inventory", inventory)
    failed += _step(rehearsal, "prepare, again", "hosts", "prepare", "--inventory", inventory, unchanged=True)
    failed += _step(rehearsal, "run", "run", str(spec), "--inventory", inventory)
    failed += _step(
        rehearsal, "collect", "hosts", "collect", "--inventory", inventory, "--into", f"{rehearsal.folder}/collected"
    )
    failed += _step(rehearsal, "reset", "hosts", "reset", "--inventory", inventory)
    failed += _step(rehearsal, "reset, again", "hosts", "reset", "--inventory", inventory, unchanged=True)
    changed = 0
    for host, was in enumerate(before):
        found = rehearsal.differs(host, was)
        changed += bool(found)
        for line in found[:20]:
            _say(f"{rehearsal.names[host]}: {line}")
    _say(f"{count - changed} of {count} hosts are as before: interfaces, queues, routes, settings, files, processes")
    return 1 if failed or changed else 0


def _step(rehearsal: Rehearsal, title: str, *words: str, unchanged: bool = False) -> int:
    """Run a command of ours; 1 if it fails, or changes something though nothing is to."""
    _say(f"{title} ...")
    began_s = time.monotonic()
    command = rehearsal.command([sys.executable, "-m", "testbed", *words, *(["--json"] if unchanged else [])])
    done = subprocess.run(command, stdout=subprocess.PIPE if unchanged else None, text=True)
    changes = sum(json.loads(done.stdout)["changed"].values()) if unchanged and not done.returncode else 0
    told = f", {changes} changed" if unchanged else ""
    _say(f"{title}: exit status {done.returncode} after {time.monotonic() - began_s:.1f} s{told}")
    return int(done.returncode != 0 or changes > 0)


def _say(line: str) -> None:
    print(f"rehearse: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
