"""Jobs that share a box, of which one loses a worker at a random moment: do the others notice?

    python benchmarks/tenants.py [--kills 200] [--seed 1]

Runs ``experiments/phub/faults.yaml`` with as many kills. Each is a trial of three trainings, in which a worker drawn by
chance is killed at a moment drawn by chance; every tenth trial is undisturbed. Reached if each time exactly the job of
that worker fails, with an error that names the worker, the others end with the weights of a single process, and the
median of their GST is within 2 % of that of the same job undisturbed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from testbed.base.python import PACKAGE
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read

SPEC = PACKAGE.parent / "experiments" / "phub" / "faults.yaml"
KILLED_S = (0.2, 3.2)
"""While all trainings run."""
OFF = 0.02
EVERY = 10
UNDISTURBED = "undisturbed"
HOSTS = {"a": ("h0", "h1"), "b-1": ("h2", "h3"), "b-2": ("h4", "h5")}
"""Workers by job, as the spec places them."""


def spec(kills: int, seed: int) -> tuple[str, dict[str, str]]:
    """Return a spec with an arm for each kill, and by label the worker that is killed."""
    whole, draw = yaml.safe_load(SPEC.read_text()), random.Random(seed)
    first, last = whole["arms"]
    arms, victims = [], {}
    for number in range(kills):
        if number % EVERY == 0:
            arms.append({**first, "label": f"{UNDISTURBED} {number}"})
        worker = draw.choice([host for hosts in HOSTS.values() for host in hosts])
        event = {"kind": "kill", "nodes": [worker], "at": f"{draw.uniform(*KILLED_S):.3f} s"}
        arms.append({**last, "label": f"kill {number}", "perturb": [event]})
        victims[f"kill {number}"] = worker
    return yaml.safe_dump({**whole, "arms": arms, "quiet": "0 s", "retries": 0}), victims


def run(text: str) -> Sequence[Mapping[str, Any]]:
    """Return the records of all trials."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        source = read(text, "tenants", Path())
        with Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment:
            return experiment.go(lambda trials: Lines(trials, console)).records


def judged(record: Mapping[str, Any], victim: str) -> list[str]:
    """List what is wrong with a trial in which ``victim`` was killed; empty: it was undisturbed."""
    problems = []
    for job in record.get("jobs") or []:
        name = job["job"]
        if victim in HOSTS[name]:
            if job["status"] != "failed" or f"{name}/{victim}" not in job["error"]:
                problems.append(f"{name}: {job['status']}, {job['error']}")
        elif job["status"] != "done":
            problems.append(f"{name} failed: {job['error']}")
        elif not job["accuracy"]["weights_equal"] or job["sums"]["training_error"] is not None:
            problems.append(f"{name}: other weights")
    return problems or ([] if record.get("jobs") else [f"failed: {record['error']}"])


def main() -> int:
    """Print what became of the jobs; return 0 when all is as it should be."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args()
    text, victims = spec(asked.kills, asked.seed)
    gst_s: dict[tuple[str, bool], list[float]] = defaultdict(list)
    wrong = 0
    for record in run(text):
        victim = victims.get(record["label"], "")
        problems = judged(record, victim)
        wrong += bool(problems)
        for problem in problems:
            print(f"{record['label']} ({victim}): {problem}")
        for job in record.get("jobs") or []:
            if job["status"] == "done":
                gst_s[job["job"], bool(victim)].append(job["metrics"]["gst_median_s"])
    print(f"{asked.kills} kills, {wrong} trials with problems")
    ratios = {name: statistics.median(gst_s[name, True]) / statistics.median(gst_s[name, False]) for name in HOSTS}
    print("GST over undisturbed:", ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items()))
    return 0 if not wrong and all(abs(ratio - 1) <= OFF for ratio in ratios.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
