"""Time that a switch of plans takes in mid-run, and whether sums and weights stay right along 200 random plans.

    python benchmarks/plan_switch.py [PLANS [MODEL ...]]

A controller tells random trees, the next ones once those before are followed. The reference is in the same run: what
passes between two iterations of a worker where no plan is switched. A training is held against a single process, and a
profile of more bytes and classes against the values that its sums must have. The machine should have nothing else to
do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from testbed.base.columns import columns
from testbed.control import registry
from testbed.evidence.referee import Referee
from testbed.execution.execute import execute
from testbed.execution.place import InLab
from testbed.experiment.expand import trials
from testbed.experiment.provenance import congestion_control
from testbed.lab.netns import NetnsLab
from testbed.spec import read

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are
from tests.testbed.doubles.shuffling import Shuffling

LIMIT_S = 0.05
SPECS = {
    "lenet5": """
name: switch
links: {rate: 1 Gbit/s}
workload:
  model: lenet5
  dataset: digits
  batch: 8
  iterations: ITERATIONS
  learning_rate: 0.01
  compute: {mode: paced, pace: {8: 30 ms}}
  chunk: 64 KiB
arms: [{topology: star(hosts=4), scheme: "two_level(groups=[[0,1],[2,3]],tune=true)"}]
""",
    "resnet50": """
name: switch
links: {rate: 10 Gbit/s}
workload:
  kind: profile
  model: resnet50
  batch: 32
  iterations: ITERATIONS
  scale: 50
  compute: {mode: paced, pace: {32: 50 ms}}
  chunk: 64 KiB
arms: [{topology: star(hosts=8), scheme: "two_level(groups=[[0,1,2,3,4,5,6,7]],classes=64,tune=true)"}]
""",
}


def main(plans: int, models: list[str]) -> None:
    registry.BUILT_IN["autotune"] = (Shuffling.__module__, "Shuffling")
    Shuffling.most, Shuffling.ahead = plans, 4
    rows: list[tuple[str, ...]] = []
    iterations = plans + 100
    with Referee() as referee, NetnsLab() as lab, tempfile.TemporaryDirectory() as folder:
        for name in models:
            (trial,) = trials(read(SPECS[name].replace("ITERATIONS", str(iterations)), f"{name}.yaml", Path(folder)))
            using = congestion_control(trial.spec)
            outcome = execute(trial, InLab(lab), referee, Path(folder), using, lambda *_: None)
            if outcome.samples is None or outcome.record["error"]:
                sys.exit(f"{name}: {outcome.record['error']}")
            rows.append((name, *measured(outcome.record, outcome.samples, iterations)))
    heads = (
        "model",
        "plans",
        "iterations",
        "right",
        "switch (ms)",
        "longest",
        "without",
        "longest",
        "GST after",
        "wire",
    )
    print(f"a switch is to take {1e3 * LIMIT_S:.0f} ms at most\n")
    print(columns(heads, rows, left=1))


def measured(record: dict[str, Any], samples: pd.DataFrame, iterations: int) -> tuple[str, ...]:
    """Return how many plans were followed, and the time between two iterations with a switch and without, as medians
    and longest ones over all workers; and GST of the iterations after a switch, over that of others."""
    in_order = samples.sort_values(["rank", "iteration"])
    by_rank = in_order.groupby("rank")
    pause_s = in_order["start_s"] - by_rank["end_s"].shift()
    switched = by_rank["plan"].diff().fillna(0) > 0
    gst_s = in_order["sum_s"] - in_order["ready_s"]
    at, between = pause_s[switched], pause_s[~switched].dropna()
    accuracy, sums = record.get("accuracy"), record["sums"]
    right = (
        f"{sums.get('wrong_elements')} of {sums.get('checked_elements'):,} elements wrong"
        if not accuracy
        else (f"{sums['checked_sums']} sums, weights {'' if accuracy['weights_equal'] else 'not '}equal")
    )
    (wire,) = [check for check in record["fidelity"]["checks"] if check["name"] == "bytes on the wire"]
    return (
        f"{samples['plan'].nunique() - 1}",
        f"{samples['iteration'].nunique()} of {iterations}",
        right,
        *(f"{1e3 * value:.2f}" for value in (at.median(), at.max(), between.median(), between.max())),
        f"{gst_s[switched].median() / gst_s[~switched].median():.2f}",
        f"{wire['value']:.2%}",
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, sys.argv[2:] or [*SPECS])
