"""The demo beside other programs: how many of its trials have a VALID GST, and its time over that without them.

    python benchmarks/busy_demo.py [--others N] [--rounds N]

``experiments/quickstart.yaml`` runs as ``make demo`` has it, by itself and then beside N loops that compute all the
time (4 unless told otherwise), as a compiler would. Trials whose JCT is INVALID because of the machine are measured
again, so the demo takes longer there. Reach: GST is VALID in all trials, in at most 2.0 times the time (medians over
rounds). Takes about ten minutes a round, on a machine that is idle otherwise. The pace is fitted before.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import testbed
from testbed.base.columns import columns
from testbed.base.python import code_command, module_command
from testbed.experiment.finding import settled
from testbed.spec import load

SPEC = Path(__file__).parents[1] / "experiments" / "quickstart.yaml"
REACH = 2.0
LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute all the time."""
    loops = [subprocess.Popen(code_command(LOOP)) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def measured(folder: Path) -> tuple[float, testbed.Run]:
    """For how long the demo ran (s), and its run."""
    began_s = time.monotonic()
    done = subprocess.run(module_command("testbed", "run", str(SPEC), "--out", str(folder)), stdout=subprocess.DEVNULL)
    took_s = time.monotonic() - began_s
    if done.returncode:
        sys.exit(f"the demo ended with exit code {done.returncode}")
    return took_s, testbed.load(folder)


def main(arguments: Sequence[str]) -> int:
    """Print the table; 0 when both figures are reached."""
    parser = argparse.ArgumentParser(description="The demo beside other programs.")
    parser.add_argument("--others", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args(arguments)
    settled(load(SPEC))
    rows: list[list[str]] = []
    times_s: dict[int, list[float]] = {0: [], given.others: []}
    refused = 0
    for number in range(given.rounds):
        for others in times_s:
            with tempfile.TemporaryDirectory() as folder, busy(others):
                took_s, run = measured(Path(folder) / "run")
                valid = sum(trial.recorded.valid_in("gst") for trial in run.trials.values())
            times_s[others].append(took_s)
            refused += len(run.trials) - valid
            rows.append([str(number + 1), str(others), f"{took_s:.0f} s", f"{valid} of {len(run.trials)}"])
    print(columns(("round", "others", "time", "GST VALID"), rows))
    ratio = median(times_s[given.others]) / median(times_s[0])
    print(
        f"{ratio:.2f} of the time beside {given.others} others (reach: {REACH:.1f}); {refused} GST not VALID (reach: 0)"
    )
    return 0 if ratio <= REACH and not refused else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
