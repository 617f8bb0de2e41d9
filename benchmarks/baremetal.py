"""How long Ansible takes to prepare hosts again, and how long a run takes from its start to its first iteration.

Usage: ``python benchmarks/baremetal.py [--hosts 9]`` as root

Hosts are rehearsed ones (tests/rehearsal/rehearsal.py), so all of them share this machine's cores: on machines of
their own, what is done at the same time takes a fraction.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are

from tests.rehearsal.rehearsal import Rehearsal

PREPARE_S, START_S = 30.0, 20.0
"""What is to be reached."""
SPEC = """\
name: start
links: {{rate: 200 Mbit/s}}
workload: {{model: lenet5, dataset: digits, batch: [16], iterations: 2, compute: {{mode: paced, pace: {{16: 0.3 s}}}}}}
arms: [{{topology: star(hosts={hosts}), scheme: ring}}]
retries: 0
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, default=9)
    hosts = parser.parse_args().hosts
    with tempfile.TemporaryDirectory() as folder, Rehearsal(Path(folder), hosts) as rehearsal:
        first_s, _ = prepare(rehearsal)
        again_s, changed = prepare(rehearsal)
        start_s = start(rehearsal, Path(folder), hosts)
    print(
        f"prepare, {hosts} hosts: {first_s:.1f} s; again: {again_s:.1f} s, {changed} changed (most: {PREPARE_S:g} s, 0)"
    )
    print(f"start of run to first iteration: {start_s:.1f} s (at most {START_S:g} s)")
    reached = again_s <= PREPARE_S and changed == 0 and start_s <= START_S
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


def prepare(rehearsal: Rehearsal) -> tuple[float, int]:
    """Seconds, and how many things changed."""
    began_s = time.monotonic()
    done = rehearsal.testbed("hosts", "prepare", "--inventory", str(rehearsal.inventory), "--json", check=True)
    return time.monotonic() - began_s, sum(json.loads(done.stdout)["changed"].values())


def start(rehearsal: Rehearsal, folder: Path, hosts: int) -> float:
    """Seconds from calling ``testbed run`` to the start of iteration 0."""
    (folder / "spec.yaml").write_text(SPEC.format(hosts=hosts))
    words = ["run", str(folder / "spec.yaml"), "--inventory", str(rehearsal.inventory), "--out", str(folder / "run")]
    began_s = time.monotonic()
    with subprocess.Popen(
        rehearsal.command([sys.executable, "-m", "testbed", *words]), stdout=subprocess.DEVNULL
    ) as run:
        begun_s = None
        while run.poll() is None:
            for path in (folder / "run" / "work").glob("*/h0/samples.jsonl"):
                begun_s = begun_s or _begun_s(path)
            time.sleep(0.05)
    if run.returncode or begun_s is None:
        sys.exit(f"the run ended with exit code {run.returncode}; its words are above")
    assert len(pd.read_csv(folder / "run" / "results.csv")) == 1
    return begun_s - began_s


def _begun_s(path: Path) -> float | None:
    """When the first iteration began, on this machine's clock, once that is written."""
    lines = (json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n"))
    return next((float(line["time"]) for line in lines if line["kind"] == "begin"), None)


if __name__ == "__main__":
    sys.exit(main())
