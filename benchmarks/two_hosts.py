"""GST of two hosts over its lower bound, from 1 to 100 MB and 10 Mbit/s to 1 Gbit/s, and the share that is certified.

    python benchmarks/two_hosts.py [--size MB ...] [--rate MBIT/S ...]

PS and ring on star(2) synchronise a part of AlexNet's gradient. A trial counts as reached if its GST is certified, or
if ``testbed plan`` says beforehand that it will hardly be. It does not if GST is below 0.99 of its bound, which is none
then. *Over* is by how much longer than its bound a GST is. What takes longer than 10 s a synchronisation is left out.
Reached: 95 % of the trials.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import ending
from rich.console import Console

from testbed.base.columns import columns
from testbed.base.units import rate_text
from testbed.experiment.conditions import is_hardly_certified
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.fidelity.lower_bound import FASTER_TOGETHER
from testbed.lab.netns import NetnsLab
from testbed.spec import read

SIZES_MB = (1.0, 3.0, 10.0, 100.0)
RATES_MBPS = (10.0, 100.0, 300.0, 1000.0)
LONGEST_S = 10.0
WHOLE_MB = 203.3
"""Of AlexNet's gradient."""
REACH = 0.95
SPEC = """
name: two-hosts
links: {{rate: {rate:.0f} bit/s}}
workload:
  {{kind: profile, model: alexnet, batch: 2, iterations: 5, scale: {scale:.6f}, compute: {{pace: {{2: 0.2 s}}}}}}
arms:
  - {{topology: star(hosts=2), scheme: ps}}
  - {{topology: star(hosts=2), scheme: ring}}
"""
HEADS = ("size", "rate", "scheme", "GST", "bound", "ratio", "over", "verdict", "certified", "plan", "")


def rows(size_mb: float, rate_mbps: float) -> list[list[str]]:
    """A row for each scheme; the last cell says whether it reached the target."""
    scale = WHOLE_MB / size_mb
    with tempfile.TemporaryDirectory() as folder:
        source = read(SPEC.format(rate=rate_mbps * 1e6 * scale, scale=scale), "two-hosts", Path())
        with Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment:
            told = {trial.id: is_hardly_certified(trial) for trial in experiment.planned}
            records = experiment.go(lambda trials: Lines(trials, Console(stderr=True))).records
    ending.with_failed(records)
    found = []
    for record in records:
        gst_s, bound_s = record["metrics"]["gst_median_s"], record["metrics"]["gst_theory_s"]
        number = record["fidelity"]["numbers"]["gst"]
        is_bound = gst_s >= (1 - FASTER_TOGETHER) * bound_s
        reached = is_bound and (number["certified"] or told[record["id"]])
        cells = [f"{size_mb:g} MB", rate_text(rate_mbps * 1e6), record["scheme"], f"{gst_s:.4f} s", f"{bound_s:.4f} s"]
        cells += [f"{gst_s / bound_s:.4f}", f"{1e3 * (gst_s - bound_s):.2f} ms", number["verdict"]]
        cells += ["yes" if number["certified"] else "no", "told" if told[record["id"]] else ""]
        found.append([*cells, "reached" if reached else "NOT REACHED"])
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; 0 when the share is reached."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=float, action="append", metavar="MB")
    parser.add_argument("--rate", type=float, action="append", metavar="MBIT/S")
    asked = parser.parse_args(words)
    pairs = [(size, rate) for rate in asked.rate or RATES_MBPS for size in asked.size or SIZES_MB]
    table = [row for size, rate in pairs if 8 * size / rate <= LONGEST_S for row in rows(size, rate)]
    print(columns(HEADS, table, left=3))
    certified = sum(row[-3] == "yes" for row in table)
    share = sum(row[-1] == "reached" for row in table) / len(table)
    print(f"{certified} of {len(table)} trials certified; certified or told: {share:.1%}, reach: {REACH:.0%}")
    return 0 if share >= REACH else 1


if __name__ == "__main__":
    sys.exit(main())
