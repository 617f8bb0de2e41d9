"""Whether the JCT of a script has nothing of its set-up in it: JCT over that of the first arm, beside the same of the
time of an iteration.

    python benchmarks/setup_of_scripts.py                                   # all schemes, three rounds; about 6 minutes
    python benchmarks/setup_of_scripts.py --scheme gloo --scheme ring --rounds 1

One script, with DistributedDataParallel, does 8 iterations after a set-up of 10 s: some of it after its process group,
for another time on each rank, and some within the first forward pass. With --by-hand it has no DDP, and no collective
before its first sum.

If JCT has all iterations and nothing else, its ratio is that of the mean time of an iteration by the script's own
clock. That clock runs on the rank whose set-up ends last, from the end of its set-up on. Beside it is the ratio of what
our records say: the mean after the first iteration, and the median. Iterations are not alike: DDP's first one has a
single bucket, and before its second one ranks tell each other what the buckets are. The ratio with set-up is that of
both together: what JCT was when it began with the process group.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from testbed.analysis import metrics
from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.spec import read

NETWORKS = {
    "gloo": "star(hosts=4)",
    "ring": "star(hosts=4)",
    "switchml": "star(hosts=4,ina=all)",
    "bml": "bcube(n=2,k=2)",
}
REACH = 0.02
SCRIPT = """
import sys
import time
from json import dumps

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

setup_s, by_hand = float(sys.argv[1]), "--by-hand" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
time.sleep(0.7 * setup_s + 0.2 * rank)  # its data
model = torch.nn.Sequential(torch.nn.Linear(500, 500), torch.nn.ReLU(), torch.nn.Linear(500, 10))
if not by_hand:
    model = DistributedDataParallel(model)
optimiser = torch.optim.SGD(model.parameters(), 0.1)
ends_s = []
for step in range(8):
    if step == 0:
        time.sleep(0.3 * setup_s - 0.2 * rank)  # what is imported when it is used for the first time
        ends_s.append(time.monotonic())
    time.sleep(0.1)
    optimiser.zero_grad()
    model(torch.ones(4, 500)).sum().backward()
    if by_hand:
        whole = torch.cat([one.grad.reshape(-1) for one in model.parameters()])
        dist.all_reduce(whole)
    optimiser.step()
    ends_s.append(time.monotonic())
if rank == 0:  # its set-up ends last
    print("ENDS", dumps(ends_s), flush=True)
dist.destroy_process_group()
"""
SPEC = """
name: setup
links: {{rate: 100 Mbit/s}}
workload: {{kind: command, command: python train.py {options}, warmup: 1}}
arms:
{arms}
repeats: {rounds}
retries: 0
quiet: 0 s
"""

Record = Mapping[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scheme", choices=NETWORKS, action="append", help="the first one is what others are over")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--setup", type=float, default=10.0, metavar="S")
    parser.add_argument("--by-hand", action="store_true")
    asked = parser.parse_args()
    schemes = asked.scheme or list(NETWORKS)
    options = f"{asked.setup:g}" + (" --by-hand" if asked.by_hand else "")
    rows = told(schemes, measured(schemes, options, asked.rounds))
    header = (
        "scheme",
        "set-up",
        "first collective",
        "JCT",
        "JCT ratio",
        "script's clock",
        "apart",
        "of means",
        "of medians",
        "with set-up",
    )
    print(columns((*header, "verdicts"), rows, left=1))
    apart = [abs(float(row[6].rstrip("%"))) for row in rows[1:]]
    print(f"apart: within {100 * REACH:g} % asked, at most {max(apart, default=0.0):.1f} % seen")
    return 0 if all(one <= 100 * REACH for one in apart) else 1


def measured(schemes: Sequence[str], options: str, rounds: int) -> dict[str, list[Record]]:
    """By scheme, its metrics in order. ``mean_s`` is of its iterations after the first one, ``own_s`` of all of them by
    the script's own clock."""
    arms = "\n".join(f'  - {{label: {one}, scheme: {one}, topology: "{NETWORKS[one]}"}}' for one in schemes)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(SCRIPT)
        source = read(SPEC.format(options=options, arms=arms, rounds=rounds), "setup", Path(folder))
        with Experiment.new(source, Path(folder) / "run") as experiment:
            records = experiment.go(lambda trials: Lines(trials, Console(stderr=True))).records
        found: dict[str, list[Record]] = {one: [] for one in schemes}
        for record in sorted(records, key=lambda one: int(one["repeat"])):
            if record["status"] != "done":
                raise SystemExit(f"{record['id']} failed: {record['error']}")
            samples = pd.read_parquet(Path(folder) / "run" / "samples" / f"{record['id']}.parquet")
            mean_s = float(metrics.iterations_s(samples, skip=1).mean())
            log = (Path(folder) / "run" / "logs" / record["id"] / "h0.log").read_text()
            ends_s = json.loads(log.split("ENDS ")[1].splitlines()[0])
            own_s = (ends_s[-1] - ends_s[0]) / (len(ends_s) - 1)
            known = {"mean_s": mean_s, "own_s": own_s, "fidelity": record["fidelity"]}
            found[record["label"]].append({**record["metrics"], **known})
    return found


def told(schemes: Sequence[str], found: Mapping[str, Sequence[Record]]) -> list[list[str]]:
    """A row for each scheme: medians over rounds; ratios are over the first scheme's trial of the same round."""
    first = found[schemes[0]]

    def over(own: Sequence[Record], name: str) -> list[float]:
        return [mine[name] / base[name] for mine, base in zip(own, first, strict=True)]

    rows = []
    for scheme in schemes:
        own = found[scheme]
        jct, clock, mean, middle = (over(own, name) for name in ("jct_s", "own_s", "mean_s", "iteration_median_s"))
        with_setup = [
            (mine["jct_s"] + mine["setup_s"]) / (base["jct_s"] + base["setup_s"])
            for mine, base in zip(own, first, strict=True)
        ]
        apart = statistics.median(one / other - 1 for one, other in zip(jct, clock, strict=True))
        of_means = statistics.median(one / other - 1 for one, other in zip(jct, mean, strict=True))
        of_medians = statistics.median(one / other - 1 for one, other in zip(jct, middle, strict=True))
        starts_s = [one["connect_s"] for one in own if one["connect_s"] is not None]
        rows.append(
            [
                scheme,
                f"{statistics.median(one['setup_s'] for one in own):.1f} s",
                f"{statistics.median(starts_s):.3f} s" if starts_s else "-",
                f"{statistics.median(one['jct_s'] for one in own):.3f} s",
                f"{statistics.median(jct):.3f}",
                f"{statistics.median(clock):.3f}",
                f"{100 * apart:+.1f}%",
                f"{100 * of_means:+.1f}%",
                f"{100 * of_medians:+.1f}%",
                f"{statistics.median(with_setup):.3f}",
                ", ".join(one["fidelity"]["numbers"]["jct"]["verdict"] for one in own),
            ]
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
