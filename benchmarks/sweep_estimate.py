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

from rich.console import Console

from testbed.estimate import Estimate
from testbed.progress import Lines
from testbed.run import Experiment
from testbed.spec import load
from testbed.units import time_text

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
    if done.failed:
        print("a trial failed", file=sys.stderr)
        return 1
    ratio, said, took = took_s / said_s, time_text(round(said_s)), time_text(round(took_s))
    print(f"{len(done.records)} trials: said {said}, took {took}, {ratio:.2f} times")
    return 0 if 1 / FACTOR <= ratio <= FACTOR else 1


if __name__ == "__main__":
    sys.exit(main())
