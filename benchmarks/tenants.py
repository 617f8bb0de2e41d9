"""Jobs that share a box, of which one loses a worker at a random moment: do the others notice?

    python benchmarks/tenants.py [--kills 200] [--seed 1]

Runs ``experiments/phub/faults.yaml`` with as many kills. Each is a trial of three trainings, in which a worker drawn by
chance is killed at a moment drawn by chance; one in eleven is undisturbed. Reached if each time exactly the job of
that worker fails, with an error that names the worker, the others end with the weights of a single process, and the
median of their GST is within 2 % of that of the same job undisturbed.
"""

from __future__ import annotations

import argparse
import copy
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import yaml
from rich.console import Console

from testbed.analysis.load import load
from testbed.analysis.papers.phub_measured import has_other_weights
from testbed.analysis.recorded import Trial
from testbed.base.python import PACKAGE
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read

SPEC = PACKAGE.parent / "experiments" / "phub" / "faults.yaml"
KILLED_S = (0.2, 4.8)
"""While all trainings run."""
OFF = 0.02
EVERY = 10
"""Kills of a run, which begins with an undisturbed trial."""
HOSTS = {"a": ("h0", "h1"), "b-1": ("h2", "h3"), "b-2": ("h4", "h5")}
"""Workers by job, as the spec places them."""


def spec(kills: int, draw: random.Random) -> tuple[str, dict[str, str]]:
    """Return a spec with an undisturbed arm and one for each kill, and by label the worker that is killed."""
    whole = yaml.safe_load(SPEC.read_text())
    first, last = whole["arms"]
    arms, victims = [first], {}
    for _ in range(kills):
        worker = draw.choice([host for hosts in HOSTS.values() for host in hosts])
        event = {"kind": "kill", "nodes": [worker], "at": f"{draw.uniform(*KILLED_S):.3f} s"}
        label = f"{worker} at {event['at']}"
        arms.append({**copy.deepcopy(last), "label": label, "perturb": [event]})
        victims[label] = worker
    return yaml.safe_dump({**whole, "arms": arms, "quiet": "0 s", "retries": 0}), victims


def run(text: str) -> Sequence[Trial]:
    """Return all jobs."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        out, source = Path(folder) / "run", read(text, "tenants", Path())
        with Experiment.new(source, out, partial(Here, NetnsLab)) as experiment:
            experiment.go(lambda trials: Lines(trials, console))
        return load(out).trials


def problem_of(job: Trial, victim: str) -> str:
    """Tell what is wrong with a job beside which, or of which, ``victim`` was killed; it is empty if nobody was."""
    error = job.error or ""
    if victim in HOSTS.get(job.job, ()):
        expected = not job.done and f"{job.job}/{victim}" in error
        return "" if expected else f"done: {job.done}, {error}"
    if not job.done:
        return f"failed: {error}"
    return "other weights than a single process" if has_other_weights(job) else ""


def main() -> int:
    """Print what became of the jobs; return 0 when all is as it should be."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args()
    gst_s: dict[tuple[str, bool], list[float]] = defaultdict(list)
    wrong, draw = 0, random.Random(asked.seed)
    for done in range(0, asked.kills, EVERY):
        text, victims = spec(min(EVERY, asked.kills - done), draw)
        for job in run(text):
            victim = victims.get(job.label.removesuffix(f": {job.job}"), "")
            if problem := problem_of(job, victim):
                wrong += 1
                print(f"{job.label}: {problem}", flush=True)
            elif job.metrics.gst_median_s is not None:
                gst_s[job.job, bool(victim)].append(job.metrics.gst_median_s)
    print(f"{asked.kills} kills, {wrong} jobs with problems")
    ratios = {name: statistics.median(gst_s[name, True]) / statistics.median(gst_s[name, False]) for name in HOSTS}
    print("GST over undisturbed:", ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items()))
    return 0 if not wrong and all(abs(ratio - 1) <= OFF for ratio in ratios.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
