"""The same spec in every lab: GST of the quickstart's arms beside the lab ``netns``.

    python benchmarks/labs.py [--rounds N] [--lab NAME ...]

Labs take turns, and each round is a run of ``experiments/quickstart.yaml`` with one of its batch sizes. A lab that this
machine cannot have is left out, with the reason. To reach: medians within 5 % of netns', every trial VALID.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, get_args

from rich.console import Console

from testbed.columns import columns
from testbed.errors import MissingToolError, PrivilegeError
from testbed.lab.choice import LabName
from testbed.progress import Lines
from testbed.run import Experiment
from testbed.spec import load

SPEC = Path(__file__).parents[1] / "experiments" / "quickstart.yaml"
BATCH = 16
ROUNDS = 3
REFERENCE = "netns"
REACH = 0.05


def measure(lab: str) -> list[dict[str, Any]]:
    """The records of one run in a lab.

    Raises:
        MissingToolError, PrivilegeError: this machine cannot have the lab.
    """
    source = load(SPEC, [f"lab={lab}", f"workload.batch={BATCH}"])
    with tempfile.TemporaryDirectory() as folder, Experiment.new(source, Path(folder) / "run") as experiment:
        return experiment.go(lambda trials: Lines(trials, Console(stderr=True, quiet=True))).records


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--lab", choices=get_args(LabName), action="append")
    asked = parser.parse_args()
    labs = list(dict.fromkeys([REFERENCE, *(asked.lab or get_args(LabName))]))
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for _ in range(asked.rounds):
        for lab in list(labs):
            try:
                records = measure(lab)
            except (MissingToolError, PrivilegeError) as error:
                print(f"{lab} is left out: {error}", file=sys.stderr)
                labs.remove(lab)
                continue
            for record in records:
                found[record["label"], lab].append(record)
    rows, reached = [], True
    for label in dict.fromkeys(label for label, _ in found):
        reference_s = gst_s(found[label, REFERENCE])
        for lab in labs:
            records = found[label, lab]
            valid = sum((record["fidelity"] or {}).get("verdict") == "VALID" for record in records)
            ratio = gst_s(records) / reference_s
            fine = abs(ratio - 1) <= REACH and valid == len(records)
            reached &= fine
            gst = f"{gst_s(records) * 1e3:.1f} ms"
            rows.append((label, lab, gst, f"{ratio:.3f}", f"{valid} of {len(records)}", "yes" if fine else "NO"))
    print(columns(("arm", "lab", "GST", f"over {REFERENCE}", "VALID", "reached"), rows, left=2))
    return 0 if reached and len(labs) > 1 else 1


def gst_s(records: list[dict[str, Any]]) -> float:
    """Median GST of trials that ran to their end; infinite where none did."""
    done = [float(record["metrics"]["gst_median_s"]) for record in records if record["status"] == "done"]
    return statistics.median(done) if done else float("inf")


if __name__ == "__main__":
    sys.exit(main())
