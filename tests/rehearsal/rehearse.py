"""A whole experiment on rehearsed hosts, from prepare to report, then reset; and a proof that they are as before.

Usage: ``python -m tests.rehearsal.rehearse [SPEC] [--hosts N] [--nics N] [--out DIR]`` in a clone (``make rehearse``)
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

from testbed.base.errors import TestbedError
from testbed.base.listing import counted
from testbed.base.python import module_command
from tests.rehearsal.rehearsal import Rehearsal
from tests.rehearsal.snapshot import Snapshot


def main(arguments: Sequence[str]) -> int:
    """Run the rehearsal from a command line; 0 if everything went well and every host is as before."""
    parser = argparse.ArgumentParser(prog="rehearse", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("spec", nargs="?", type=Path, default=Path("experiments/quickstart.yaml"))
    parser.add_argument("--hosts", type=int, default=9)
    parser.add_argument("--nics", type=int, default=2)
    parser.add_argument("--out", type=Path, help="where the run goes, as of testbed run")
    asked = parser.parse_args(arguments)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="testbed-rehearsal-") as folder,
            Rehearsal(Path(folder), asked.hosts, asked.nics) as rehearsal,
        ):
            return rehearse(rehearsal, asked.spec, asked.out)
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def rehearse(rehearsal: Rehearsal, spec: Path, out: Path | None) -> int:
    """Do every step, and say what it took; 0 if everything went well and every host is as before."""
    before = looked_at(rehearsal)
    inventory = ("--inventory", str(rehearsal.inventory))
    wrong = prepare(rehearsal, before)
    once = (str(spec), "--retries", "0", *(["--out", str(out)] if out else []))
    wrong += _step(rehearsal, "run", "run", *once, *inventory)
    collected = str(rehearsal.folder / "collected")
    wrong += _step(rehearsal, "collect", "hosts", "collect", *inventory, "--into", collected)
    wrong += reset(rehearsal, before)
    return 1 if wrong else 0


def looked_at(rehearsal: Rehearsal) -> list[Snapshot]:
    """Take a snapshot of each host."""
    found = [rehearsal.snapshot(host) for host in range(len(rehearsal.names))]
    _say(f"{counted(len(found), 'host')} with SSH up; the inventory is {rehearsal.inventory}")
    return found


def prepare(rehearsal: Rehearsal, before: Sequence[Snapshot]) -> int:
    """Prepare the hosts: only looked at, which changes nothing; in earnest; and again, which has nothing left to do.
    Return how many steps went wrong, plus how many hosts were changed by looking."""
    inventory = ("--inventory", str(rehearsal.inventory))
    wrong = _step(rehearsal, "prepare, only looked at", "hosts", "prepare", "--check", *inventory)
    wrong += _changed(rehearsal, before)
    wrong += _step(rehearsal, "prepare", "hosts", "prepare", *inventory)
    return wrong + _step(rehearsal, "prepare, again", "hosts", "prepare", *inventory, unchanged=True)


def reset(rehearsal: Rehearsal, before: Sequence[Snapshot]) -> int:
    """Reset the hosts, and again, which has nothing left to do. Return how many steps went wrong, plus how many hosts
    are otherwise than before."""
    inventory = ("--inventory", str(rehearsal.inventory))
    wrong = _step(rehearsal, "reset", "hosts", "reset", *inventory)
    wrong += _step(rehearsal, "reset, again", "hosts", "reset", *inventory, unchanged=True)
    return wrong + _changed(rehearsal, before)


def _changed(rehearsal: Rehearsal, before: Sequence[Snapshot]) -> int:
    """Count the hosts that are otherwise than before, and say what is."""
    changed = 0
    for host, was in enumerate(before):
        found = rehearsal.differs(host, was)
        changed += bool(found)
        for line in found[:20]:
            _say(f"{rehearsal.names[host]}: {line}")
    count = len(before)
    of = counted(count, "host")
    _say(f"{count - changed} of {of} as before: interfaces, queues, routes, settings, files, processes")
    return changed


def _step(rehearsal: Rehearsal, title: str, *words: str, unchanged: bool = False) -> int:
    """Run a command of ours; 1 if it fails, or changes something though it should change nothing."""
    _say(f"{title} ...")
    began_s = time.monotonic()
    command = rehearsal.command(module_command("testbed", *words, *(["--json"] if unchanged else [])))
    done = subprocess.run(command, stdout=subprocess.PIPE if unchanged else None, text=True)
    changes = sum(json.loads(done.stdout)["changed"].values()) if unchanged and not done.returncode else 0
    told = f", {changes} changed" if unchanged else ""
    _say(f"{title}: exit status {done.returncode} after {time.monotonic() - began_s:.1f} s{told}")
    return int(done.returncode != 0 or changes > 0)


def _say(line: str) -> None:
    print(f"rehearse: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
