"""How long ``testbed compare`` takes for two runs of 1,000 trials, beside its limit of 5 s.

    python benchmarks/compare_speed.py

One trial really runs, on three hosts. Its record, with other names and with numbers that scatter by 1 %, is each of the
1,000 of two run directories: 100 cells of 10 repeats, 300 tests. The time is that of the whole command, the best of
three.
"""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read

CELLS, REPEATS = 100, 10
LIMIT_S = 5.0
TIMES = 3
SPEC = """
name: speed
links: {rate: 2 Gbit/s}
workload: {kind: profile, model: lenet5, batch: 16, iterations: 4, scale: 10, compute: none}
arms: [{label: ring, topology: star(hosts=3), scheme: ring}]
"""


def measure(out: Path) -> dict[str, Any]:
    """Run the one trial; its record."""
    with Experiment.new(read(SPEC, "speed", Path()), out, partial(Here, NetnsLab)) as experiment:
        (record,) = experiment.go(lambda trials: Lines(trials, Console(stderr=True))).records
    return record


def multiplied(real: Path, record: dict[str, Any], out: Path, seed: int) -> None:
    """A run directory with 1,000 trials like the real one."""
    generator = np.random.default_rng(seed)
    shutil.copytree(real, out)
    for path in (out / "trials").iterdir():
        path.unlink()
    for cell in range(CELLS):
        for repeat in range(REPEATS):
            one = copy.deepcopy(record)
            one |= {"id": f"ring-{cell}-r{repeat}", "label": f"ring {cell}", "repeat": repeat}
            factor = generator.normal(1, 0.01)
            for name, sign in (("gst_median_s", 1), ("jct_s", 1), ("throughput_sps", -1)):
                one["metrics"][name] *= factor**sign
            one["fidelity"]["verdict"] = "VALID"  # speed is asked for, not truth
            (out / "trials" / f"{one['id']}.json").write_text(json.dumps(one, indent=2))


def main() -> int:
    """Print the time; 0 when it is within the limit."""
    with tempfile.TemporaryDirectory() as folder:
        sides = [Path(folder) / name for name in ("base", "new")]
        real = Path(folder) / "real"
        record = measure(real)
        for seed, side in enumerate(sides):
            multiplied(real, record, side, seed)
        taken = []
        for _ in range(TIMES):
            began_s = time.monotonic()
            command = [sys.executable, "-m", "testbed", "compare", *map(str, sides)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            taken.append(time.monotonic() - began_s)
    print(done.stdout.splitlines()[-1] if done.stdout else done.stderr)
    judged = done.stdout.count(" same\n") + done.stdout.count(" inconclusive\n")
    reached = min(taken) <= LIMIT_S and judged > 0
    print(
        f"compare of 2 x {CELLS * REPEATS:,} trials takes {min(taken):.2f} s (each time: "
        f"{', '.join(f'{one:.2f}' for one in taken)}), at most {LIMIT_S:g} s: {'reached' if reached else 'NOT REACHED'}"
    )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
