"""The numbers that scripts under schemes are to reach, in the lab: each figure beside its target.

    python benchmarks/scripts.py                      # all parts; about 25 minutes
    python benchmarks/scripts.py --part sums --part first

- sums: GST of all-reduces of 25 MB, as DDP's buckets are, over the bound of the scheme's forest at 200 Mbit/s.
- steps: an iteration of a GPT of 10 MB with DDP over our ring and over Gloo, in turn, at 200 Mbit/s, with overlap and
  with all gradients in one bucket. (Without a lab: ``benchmarks/collectives_vs_gloo.py --step``.)
- pace: an iteration whose backward pass is paced at 0.5, 1 and 2 times the time of communication, over the longer one.
- fsdp: an iteration with FSDP2 (``fully_shard``) over our ring and over Gloo, in turn.
- memory: the most memory of a rank that sums 25 MB, beside Gloo's, in gradients.
- first: how much longer the first sum of a size takes than the next.
- curve: the largest difference of 50 losses from those with Gloo's sums, under schemes that are exact.

A trial that is INVALID says nothing, and is run again at most ``RETRIES`` times.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from testbed.analysis.verdicts import numbers_of
from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.spec import read

RETRIES, ROUNDS = 2, 3
SUM_BYTES = 25_000_000
RACKS = "spine_leaf(racks=2,hosts_per_rack=4,spines=1)"
ADDING = "spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=all)"
ARMS = (
    ("ring", "star(hosts=8)"),
    ("ps", "star(hosts=8)"),
    ("halving_doubling", "star(hosts=8)"),
    ("bml", "bcube(n=3,k=2)"),
    ("two_level", RACKS),
    ("switchml", "star(hosts=8,ina=all)"),
    ("atp", ADDING),
    ("rina", ADDING),
)
GPT = "gpt.py --steps {steps} --batch {batch} --layers 3 --width 256 --bucket {bucket}"
"""2.4 million weights, of which DDP sums 9.6 MB."""
DEEP = "gpt.py --steps {steps} --batch 1 --layers 8 --width 256 --bucket 1"
"""25 MB, so that a forward pass takes little beside communication."""
ONE_BUCKET = 1000
SUMS = """
import resource
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
sizes = [int(size) for size in sys.argv[2:]]
for _ in range(int(sys.argv[1])):
    for size in sizes:
        array = torch.ones(size)
        dist.barrier()
        began_s = time.perf_counter()
        dist.all_reduce(array)
        print("took", 1e3 * (time.perf_counter() - began_s), flush=True)
        assert float(array[-1]) == dist.get_world_size()
print("most", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)
dist.destroy_process_group()
"""
SPEC = """
name: scripts
links: {{rate: 200 Mbit/s}}
workload:
  kind: command
  command: torchrun --nproc_per_node=1 {command}
  warmup: 2
  {more}
arms:
{arms}
timeout: 300 s
retries: 0
"""

Record = Mapping[str, Any]
Row = list[str]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append")
    asked = parser.parse_args()
    rows: list[Row] = []
    for name in asked.part or PARTS:
        for row in PARTS[name]():
            print(name, *row, sep="  ", file=sys.stderr, flush=True)
            rows.append([name, *row])
    print(columns(("part", "what", "seen", "target", "verdicts", ""), rows, left=2))
    return 0 if all(row[-1] == "reached" for row in rows) else 1


# Parts


def sums() -> list[Row]:
    found = trials(f"sums.py 6 {SUM_BYTES // 4}", ARMS)
    return [
        told(f"{scheme} on {network}", _of(one, "gst_ratio"), 1.05, [one])
        for (scheme, network), one in zip(ARMS, found, strict=True)
    ]


def steps() -> list[Row]:
    rows = []
    for hosts in (2, 4, 8):
        for what, bucket in (("overlap", 1), ("one bucket", ONE_BUCKET)):
            command = GPT.format(steps=12, batch=2, bucket=bucket)
            rows.append(_beside_gloo(f"ring over Gloo, N={hosts}, {what}", command, f"star(hosts={hosts})", 1.0))
    return rows


def pace() -> list[Row]:
    """Communication takes as long as the bound of one sum of all weights, as DDP makes it in its first iteration. (Each
    bound leaves out one large packet, so those of many buckets add up to less than their bytes take.) That of the last
    bucket is never hidden."""
    rows = []
    (free,) = trials(DEEP.format(steps=4), [("ring", "star(hosts=4)")])
    communication_s = max(one["least_s"] for one in free["collectives"] if one["op"] == "allreduce")
    for share in (0.5, 1.0, 2.0):
        pace_s = round(share * communication_s, 3)
        command = DEEP.format(steps=8)
        (one,) = trials(command, [("ring", "star(hosts=4)")], f"pace: {pace_s} s")
        ratio = _iteration_s(one) / max(pace_s, communication_s)
        rows.append(told(f"ring, computing {share:g} of communication", ratio, 1.10, [one]))
    return rows


def fsdp() -> list[Row]:
    command = GPT.format(steps=12, batch=2, bucket=25) + " --shard"
    return [_beside_gloo("FSDP2, ring over Gloo, N=4", command, "star(hosts=4)", 1.1)]


def memory() -> list[Row]:
    """In gradients beyond what a rank with Gloo takes."""
    pairs = [("gloo", "star(hosts=4)"), ("ring", "star(hosts=4)"), ("ps", "star(hosts=4)")]
    gloo, *others = trials(f"sums.py 3 {SUM_BYTES // 4}", pairs, "metrics: {most: 'most ([0-9]+)'}")
    return [
        told(f"{one['scheme']} beyond Gloo", (_most(one) - _most(gloo)) / SUM_BYTES, 1.0, [gloo, one]) for one in others
    ]


def first() -> list[Row]:
    """Milliseconds that the median first sum of a size takes longer than the second one of the same size."""
    sizes = [4096 + 64 * number for number in range(20)]
    command = f"sums.py 2 {' '.join(map(str, sizes))}"
    pairs = [("ring", "star(hosts=4)"), ("switchml", "star(hosts=4,ina=all)"), ("bml", "bcube(n=2,k=2)")]
    rows = []
    for (scheme, network), one in zip(pairs, trials(command, pairs, "metrics: {took: 'took ([0-9.]+)'}"), strict=True):
        took_ms = _logged(one, "took")[0]
        more_ms = [new - known for new, known in zip(took_ms[: len(sizes)], took_ms[len(sizes) :], strict=True)]
        what = f"{scheme} on {network}, ms (most {max(more_ms):.1f})"
        rows.append(told(what, statistics.median(more_ms), 50, [one], digits="{:.1f}"))
    return rows


def curve() -> list[Row]:
    pairs = [("gloo", "star(hosts=4)"), ("ring", "star(hosts=4)"), ("ps", "star(hosts=4)"), ("bml", "bcube(n=2,k=2)")]
    gloo, *others = trials("gpt.py --steps 50", pairs, "metrics: {loss: 'loss ([0-9.]+)'}")
    return [
        told(f"{one['scheme']}, of 50 losses", _apart(one, gloo), 1e-4, [gloo, one], digits="{:.1e}") for one in others
    ]


PARTS: dict[str, Callable[[], list[Row]]] = {
    "sums": sums,
    "steps": steps,
    "pace": pace,
    "fsdp": fsdp,
    "memory": memory,
    "first": first,
    "curve": curve,
}

# Trials


def trials(command: str, pairs: Sequence[tuple[str, str]], more: str = "") -> list[Record]:
    """The record of each (scheme, network); those that are INVALID are run again."""
    found = dict(zip(pairs, _run(command, pairs, more), strict=True))
    for _ in range(RETRIES):
        again = [pair for pair, one in found.items() if _verdict(one) == "INVALID"]
        found.update(zip(again, _run(command, again, more) if again else [], strict=True))
    return list(found.values())


def _run(command: str, pairs: Sequence[tuple[str, str]], more: str) -> Sequence[Record]:
    arms = "\n".join(f'  - {{scheme: "{scheme}", topology: "{network}"}}' for scheme, network in pairs)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sums.py").write_text(SUMS)
        shutil.copy(Path(__file__).parents[1] / "experiments" / "torch" / "gpt.py", folder)
        source = read(SPEC.format(command=command, more=more, arms=arms), "scripts", Path(folder))
        with Experiment.new(source, Path(folder) / "run") as experiment:
            return experiment.go(lambda trials: Lines(trials, Console(stderr=True))).records


def _beside_gloo(what: str, command: str, network: str, target: float) -> Row:
    """The median of the ratios of iterations of trials that follow each other."""
    ratios, each = [], []
    for _ in range(ROUNDS):
        gloo, ring = trials(command, [("gloo", network), ("ring", network)])
        each += [gloo, ring]
        ratios.append(_iteration_s(ring) / _iteration_s(gloo))
    return told(f"{what} ({min(ratios):.2f} to {max(ratios):.2f})", statistics.median(ratios), target, each)


# Records


def told(what: str, seen: float, target: float, each: Sequence[Record], digits: str = "{:.3f}") -> Row:
    """A row; reached when no trial is INVALID in GST or the times of its iterations, and what was seen is no more than
    the target."""
    verdicts = [_verdict(one) for one in each]
    is_reached = seen <= target and not {"INVALID", "failed"} & set(verdicts)
    said = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
    return [what, digits.format(seen), f"{target:g}", said, "reached" if is_reached else "NOT REACHED"]


def _verdict(record: Record) -> str:
    """The worst of GST's and the iterations'. JCT has the first iteration in it, in which PyTorch does much for the
    first time."""
    if record["status"] != "done":
        return "failed"
    numbers = numbers_of(record["fidelity"])
    found = {numbers[name].verdict for name in ("gst", "iterations") if name in numbers}
    return "INVALID" if "INVALID" in found else found.pop()


def _of(record: Record, metric: str) -> float:
    return float(record["metrics"][metric]) if record["status"] == "done" else float("inf")


def _iteration_s(record: Record) -> float:
    return _of(record, "iteration_median_s")


def _logged(record: Record, name: str) -> Sequence[Sequence[float]]:
    """By rank, what was found in its output."""
    if record["status"] != "done":
        raise SystemExit(f"{record['scheme']} on {record['topology']} failed: {record['error']}")
    found: Sequence[Sequence[float]] = record["logged"][name]
    return found


def _most(record: Record) -> float:
    return max(rank[-1] for rank in _logged(record, "most"))


def _apart(record: Record, gloo: Record) -> float:
    pairs = zip(_logged(record, "loss"), _logged(gloo, "loss"), strict=True)
    return max(abs(ours - theirs) / abs(theirs) for rank in pairs for ours, theirs in zip(*rank, strict=True))


if __name__ == "__main__":
    sys.exit(main())
