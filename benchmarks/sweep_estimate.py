"""How long a sweep was said to take before it began, beside how long it took.

    python benchmarks/sweep_estimate.py [SPEC]

Runs ``experiments/sweep.yaml``, or another spec. To reach: within a factor of 1.5, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import ending
from rich.console import Console

from testbed.base.units import time_text
from testbed.experiment.duration import Estimate
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.spec import load

SPEC = Path(__file__).parents[1] / "experiments" / "sweep.yaml"
FACTOR = 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("spec", type=Path, nargs="?", default=SPEC)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with Experiment.new(load(asked.spec, ["retries=0", "quiet=0"]), Path(folder) / "run") as experiment:
            said_s = Estimate().left_s(experiment.left)
            began_s = time.monotonic()
            done = experiment.go(lambda trials: Lines(trials, Console(stderr=True)))
        took_s = time.monotonic() - began_s
    ending.with_failed(done.records)
    ratio, said, took = took_s / said_s, time_text(round(said_s)), time_text(round(took_s))
    reached = 1 / FACTOR <= ratio <= FACTOR
    judged = "reached" if reached else "NOT REACHED"
    print(f"{len(done.records)} trials: said {said}, took {took}, {ratio:.2f} times; {judged} (at most {FACTOR:g})")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
