"""The same spec in every lab: GST of the quickstart's arms beside the lab ``netns``.

    python benchmarks/labs.py [--rounds N] [--iterations N] [--lab NAME ...]

Labs take turns, and each round is a run of ``experiments/quickstart.yaml`` with one of its batch sizes. Machines are
rehearsed ones (tests/rehearsal/rehearsal.py). Docker needs a daemon; where there is none, put
``python tests/testbed/lab/dockerd.py`` in front, which takes one for the time being. A lab that this machine cannot
have is left out, with the reason. To reach: medians within 5 % of netns', every trial VALID.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are

from testbed.base.columns import columns
from testbed.base.errors import MissingToolError, PrivilegeError
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.fidelity import reasons
from testbed.lab import BUILT_IN
from testbed.lab.baremetal.lab import BaremetalLab
from testbed.lab.baremetal.preparing.hosts import play_on_all
from testbed.lab.base import Lab
from testbed.lab.choice import opener
from testbed.lab.docker import image
from testbed.lab.docker.daemon import Daemon
from testbed.spec import load
from tests.rehearsal.rehearsal import Rehearsal

SPEC = Path(__file__).parents[1] / "experiments" / "quickstart.yaml"
BATCH = 16
ROUNDS = 3
REFERENCE = "netns"
REACH = 0.05


def opening(lab: str, stack: ExitStack) -> Callable[[], Lab]:
    """Return the opener of a lab; images and machines that it needs are made first.

    Raises:
        MissingToolError, PrivilegeError: this machine cannot have the lab.
    """
    if lab == "docker":
        image.make(Daemon())
    if lab != "baremetal":
        return opener(lab)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    rehearsal = stack.enter_context(Rehearsal(folder, hosts=9, nics=2))
    inventory = rehearsal.write_inventory(outside=True)
    prepared = play_on_all("prepare", inventory, {}, lambda _: None)
    prepared.outcome.require(prepared.hosts)
    return partial(BaremetalLab, inventory)


def measure(lab: str, iterations: int, open_lab: Callable[[], Lab]) -> list[dict[str, Any]]:
    """The records of one run in a lab."""
    changes = [f"lab={lab}", f"workload.batch={BATCH}", f"workload.iterations={iterations}"]
    source = load(SPEC, [*changes, "retries=0", "quiet=0"])
    with (
        tempfile.TemporaryDirectory() as folder,
        Experiment.new(source, Path(folder) / "run", partial(Here, open_lab)) as experiment,
    ):
        return experiment.go(lambda trials: Lines(trials, Console(stderr=True, quiet=True))).records


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--iterations", type=int, default=14)
    parser.add_argument("--lab", choices=BUILT_IN, action="append")
    asked = parser.parse_args()
    with ExitStack() as stack:
        opened: dict[str, Callable[[], Lab]] = {}
        for lab in dict.fromkeys([REFERENCE, *(asked.lab or BUILT_IN)]):
            try:
                opened[lab] = opening(lab, stack)
            except (MissingToolError, PrivilegeError) as error:
                print(f"{lab} is left out: {error}", file=sys.stderr)
        return compare(opened, asked.rounds, asked.iterations)


def compare(labs: Mapping[str, Callable[[], Lab]], rounds: int, iterations: int) -> int:
    """Print GST of each arm in each lab beside the reference's; 0 if they are near enough."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for _ in range(rounds):
        for lab, open_lab in labs.items():
            for record in measure(lab, iterations, open_lab):
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
    for of, records in found.items():
        for reason in filter(None, (record["error"] or reasons(record["fidelity"]) for record in records)):
            print(f"{' in '.join(of)}: {reason}")
    if len(labs) == 1:
        print(f"only one lab could be measured, so nothing was compared: {next(iter(labs))}", file=sys.stderr)
    return 0 if reached and len(labs) > 1 else 1


def gst_s(records: list[dict[str, Any]]) -> float:
    """Median GST of trials that ran to their end; infinite where none did."""
    done = [float(record["metrics"]["gst_median_s"]) for record in records if record["status"] == "done"]
    return statistics.median(done) if done else float("inf")


if __name__ == "__main__":
    sys.exit(main())
