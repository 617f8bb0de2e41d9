"""Execution traces: how fast they are read, written and played.

    python benchmarks/traces.py [--nodes N]    # half a minute; two ranks on the loopback interface
    python benchmarks/traces.py --replay 3     # three minutes: also replays of trials, in the lab netns

Each line has what was asked for beside what was seen. Reading takes a process of its own, whose memory is its
own, less what it has after its imports. The player's own time is the median iteration of 100 nodes of a rank: 99 that
compute for no time, and a barrier, which moves no bytes. It includes two ranks' barrier over Gloo. A replay is of one
iteration of a trial of a profile, which was exported. It is compared with that trial by the medians of GST and of
iterations, and the figure is the median over the trials, each of which is followed by its replay. All must be VALID.
Exit code 1 if a number is worse than asked.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import testbed
from testbed.api.traces import export_measured
from testbed.base.columns import columns
from testbed.files import foreign
from testbed.topologies.build import build
from testbed.workloads.trace import chakra, files
from testbed.workloads.trace.graph import Collective, Kind, Node
from testbed.workloads.trace.transfers import transfers

MOST_READ_S, MOST_READ_BYTES, MOST_EXPORT_S, MOST_OWN_S = 10.0, 500e6, 10.0, 5e-3
RING, SENDS, BPS = 128, 32_512, 10**9
MOST_APART = 0.02
SPEC = """\
name: {name}
links: {{rate: 500 Mbit/s}}
workload: {{{workload}, iterations: 5, scale: 25}}
arms: [{{label: ring, topology: star(hosts=3), scheme: ring}}]
"""
PROFILE = "kind: profile, model: resnet50, batch: 32, compute: {mode: paced, pace: {32: 0.4 s}}"
REPLAY = "kind: trace, file: traces/ring-b32.%d.et, compute: recorded"


def _write(folder: Path, nodes: list[Node], rank: int = 0) -> None:
    with (folder / f"x.{rank}.et").open("wb") as file:
        chakra.write(file, rank, nodes, {})


def read(folder: Path, count: int) -> tuple[float, float]:
    """Return how long reading so many nodes takes (s), and by how much memory grows (bytes)."""
    alternating = [
        Node(i, "c", Kind.COMP, (i - 1,) if i else (), duration_us=5)
        if i % 2
        else Node(i, "s", Kind.COMM_COLL, (i - 1,) if i else (), bytes=4096, collective=Collective.ALL_REDUCE)
        for i in range(count)
    ]
    _write(folder, alternating)
    command = [sys.executable, "-P", __file__, "--read", str(folder / "x.0.et")]
    took_s, grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(took_s), float(grown)


def _read_here(path: Path) -> None:
    before, begun_s = _peak_bytes(), time.monotonic()
    files.read(path, foreign.opened)
    took_s = time.monotonic() - begun_s
    print(took_s, _peak_bytes() - before)


def _peak_bytes() -> int:
    """The most memory that this process has had. ``ru_maxrss`` would begin with that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def export(folder: Path) -> tuple[float, int]:
    """Return how long the trace of a large ring takes to make and write (s), and its number of sends."""
    text = f"star(hosts={RING})"
    plan = testbed.forest("ring", text).model
    begun_s = time.monotonic()
    _, ranks = transfers(plan, 2**20, build(text, rate_bps=BPS))
    for rank, nodes in ranks.items():
        _write(folder, nodes, rank)
    took_s = time.monotonic() - begun_s
    return took_s, sum(node.kind == Kind.COMM_SEND for nodes in ranks.values() for node in nodes)


def own_s(folder: Path) -> float:
    """Return how long an iteration of 100 nodes takes that neither compute nor move bytes (s)."""
    nodes = [Node(i, "c", Kind.COMP, (i - 1,) if i else ()) for i in range(99)]
    nodes.append(Node(99, "b", Kind.COMM_COLL, (98,), collective=Collective.BARRIER))
    ranks = []
    for rank in range(2):
        _write(folder, nodes, rank)
    for rank in range(2):
        given = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
        environment = {**os.environ, **given, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-m", "testbed.workloads.trace.player", "x.%d.et", "--iterations", "200"]
        ranks.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=120)[0] for process in ranks]
    times_s = [float(one) for text in said for one in re.findall(r"iteration ([0-9.]+) s", text)]
    return statistics.median(times_s)


def apart(folder: Path, name: str) -> tuple[float, float]:
    """Run a trial and the replay of one of its iterations; return by what share GST and iterations differ."""
    records = []
    for number, workload in enumerate((PROFILE, REPLAY)):
        spec = folder / f"{name}-{number}.yaml"
        spec.write_text(SPEC.format(name=spec.stem, workload=workload))
        run = testbed.run(spec, out=folder / spec.stem).path
        (record,) = (json.loads(path.read_text()) for path in (run / "trials").glob("*.json"))
        if record["status"] == "failed":
            sys.exit(f"{record['id']} failed: {record['error']}")
        print(
            f"{spec.stem}: GST {record['metrics']['gst_median_s']:.4f} s, {record['fidelity']['verdict']}", flush=True
        )
        records.append(record)
        if not number:
            export_measured(run, "ring-b32", folder / "traces", iteration=3)
    if any(record["fidelity"]["verdict"] != "VALID" for record in records):
        return math.inf, math.inf
    gst, iteration = (
        records[1]["metrics"][metric] / records[0]["metrics"][metric] - 1
        for metric in ("gst_median_s", "iteration_median_s")
    )
    return abs(gst), abs(iteration)


def main() -> None:
    """Measure, and print what was asked beside what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--replay", type=int, default=0, metavar="TRIALS")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.read:
        _read_here(asked.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        read_s, grown = read(Path(folder), asked.nodes)
        export_s, sends = export(Path(folder))
        player_s = own_s(Path(folder))
        pairs = [apart(Path(folder), f"trial{number}") for number in range(asked.replay)]
    assert sends == SENDS, f"a ring of {RING} has {SENDS} sends, and not {sends}"
    rows = [
        (f"reading {asked.nodes:,} nodes", MOST_READ_S, read_s, "s"),
        (f"memory of {asked.nodes:,} nodes", MOST_READ_BYTES / 1e6, grown / 1e6, "MB"),
        (f"export of a ring of {RING}, {sends:,} sends", MOST_EXPORT_S, export_s, "s"),
        ("an iteration of 100 nodes without time or bytes", 1e3 * MOST_OWN_S, 1e3 * player_s, "ms"),
    ]
    for what, each in zip(("GST", "iterations"), zip(*pairs, strict=True), strict=False):
        rows.append((f"{what} of a replay beside its trial", 100 * MOST_APART, 100 * statistics.median(each), "%"))
    print(columns(("what", "asked, at most", "seen", "unit"), [(a, f"{b:g}", f"{c:.3g}", d) for a, b, c, d in rows]))
    sys.exit(any(seen > most for _, most, seen, _ in rows))


if __name__ == "__main__":
    main()
