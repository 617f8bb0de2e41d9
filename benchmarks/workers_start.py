"""How fast 64 workers start, and how much memory each needs of its own.

Usage: ``python benchmarks/workers_start.py``

In a lab that has imported PyTorch once, 64 LeNet-5 workers on BCube(8,2) are launched. Time: from the launch to the
moment the last one has its gradient of iteration 0. Memory: by how much the proportional set size of all the lab's
processes grew, per worker, once all have been through iteration 0 (so what they share with the parent counts once).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Launch
from testbed.topologies.addressing import plan
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.trial.job_files import peer
from testbed.trial.ports import SYNC_PORT
from testbed.workloads import kinds
from testbed.workloads.catalogue import tensor_sizes
from testbed.workloads.job import Compute, Training, WorkerJob
from testbed.workloads.models import model
from testbed.workloads.sync import flows, schemes
from testbed.workloads.sync.forest import Forest

TOPOLOGY = "bcube(n=8,k=2)"
SCHEME = "bml"
MODEL = "lenet5"
RATE_BPS = 50_000_000
"""Slow, so that the first to be ready do not already synchronise on the CPU time of those that still start."""
REPEATS = 9
TARGET_S = 3.0
TARGET_BYTES = 80_000_000
TIMEOUT_S = 60.0


def main() -> int:
    topology = build_topology(TOPOLOGY, rate_bps=RATE_BPS)
    sizes = [floats for _, floats in tensor_sizes(MODEL)]
    forest = schemes.build(SCHEME, topology, sizes)
    times_s, own_bytes = [], []
    with NetnsLab() as lab:
        started = time.monotonic()
        lab.prepare()
        print(f"importing PyTorch and warming it up, once: {time.monotonic() - started:.2f} s")
        for _ in range(REPEATS):
            lab.up(topology, LinkSettings(), flows.pairs(forest))
            with tempfile.TemporaryDirectory() as folder:
                seconds, size = _start(lab, topology, forest, Path(folder))
            lab.down()
            times_s.append(seconds)
            own_bytes.append(size)
    return _report(topology.host_count, times_s, statistics.median(own_bytes))


def _start(lab: NetnsLab, topology: Topology, forest: Forest, folder: Path) -> tuple[float, float]:
    """Launch all workers; seconds until the last has its first gradient, and own bytes of each."""
    launches = list(_jobs(topology, forest, folder))
    lab.share(folder)
    before = _memory_bytes(lab)
    started = time.monotonic()
    lab.launch(launches)
    ready = [_first_ready(lab, _samples(folder, launch.process), Path(launch.log)) for launch in launches]
    own = (_memory_bytes(lab) - before) / len(launches)
    lab.kill()
    return max(ready) - started, own


def _memory_bytes(lab: NetnsLab) -> int:
    """Memory of every process in the lab, what they share counted once (proportional set sizes added up)."""
    total, waiting = 0, [lab.launcher_pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            fields = dict(line.split(":") for line in (process / "smaps_rollup").read_text().splitlines()[1:])
            total += int(fields["Pss"].split()[0]) * 1024
            for task in (process / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total


def _jobs(topology: Topology, forest: Forest, folder: Path) -> Iterator[Launch]:
    kinds.save(forest, folder / "forest.npz")
    addresses = plan(topology)
    training = Training(MODEL, "digits", 16, 1000, 0.05, 0.9, 1)
    for rank, node in enumerate(forest.workers):
        name = forest.nodes[node]
        job = WorkerJob(
            node=node,
            name=name,
            rank=rank,
            world=len(forest.workers),
            forest=str(folder / "forest.npz"),
            peers=tuple(
                peer(addresses, node, other, SYNC_PORT + min(node, other)) for other in flows.neighbours(forest, node)
            ),
            training=training,
            compute=Compute("real"),
            overlap="none",
            buckets=((0, model(MODEL).floats()),),
            chunk_bytes=65536,
            congestion_control="reno",
            start_timeout_s=TIMEOUT_S,
            timeout_s=TIMEOUT_S,
            samples=str(_samples(folder, name)),
        )
        (folder / name).mkdir()
        job.save(folder / f"{name}.json")
        yield Launch(name, node, str(folder / f"{name}.json"), str(folder / f"{name}.log"))


def _samples(folder: Path, name: str) -> Path:
    """In the only folder in which a worker can write."""
    return folder / name / "samples.jsonl"


def _first_ready(lab: NetnsLab, samples: Path, log: Path) -> float:
    """The moment at which a worker had its gradient of iteration 0, once it has said so."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for line in samples.read_text().splitlines() if samples.exists() else []:
            if '"iteration"' in line and line.endswith("}"):
                return float(json.loads(line)["ready"])
        if lab.exits():
            break
        time.sleep(0.02)
    raise SystemExit(f"{log.stem} did not get through iteration 0:\n{log.read_text() if log.exists() else ''}")


def _report(workers: int, times_s: list[float], own: float) -> int:
    seconds = statistics.median(times_s)
    print(f"{workers} workers, {MODEL}, {SCHEME} on {TOPOLOGY}; medians of {REPEATS}")
    spread = f"runs took {min(times_s):.2f} to {max(times_s):.2f} s"
    print(f"  launch to last first gradient  {seconds:6.2f} s    target {TARGET_S:.2f} s or less; {spread}")
    print(f"  own memory of each             {own / 1e6:6.1f} MB   target {TARGET_BYTES / 1e6:.0f} MB or less")
    reached = seconds <= TARGET_S and own <= TARGET_BYTES
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
