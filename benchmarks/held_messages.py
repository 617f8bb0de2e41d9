"""Cost of messages that wait at their receiver, because it has not begun their iteration. With a second buffer (PHub
thesis, Table 4.2) they could be taken.

    python benchmarks/held_messages.py [ITERATIONS]      # about two minutes

8 hosts, chunks of 64 KiB, flat aggregation and groups of two, without and with time to compute. Held time is that of a
node with at least one connection held, between the first worker's start of an iteration counted and the last one's
sum. It is idle while the node moves nothing else. Either is an upper limit of the cost, since the kernel's receive
buffer takes bytes meanwhile. While a worker computes, the engine reads nothing, and sees no message held. GST over its
lower bound is the most that any change of the engine can gain. The engine is the one in Python; the compiled one,
which holds the same messages, is beside it. The machine should have nothing else to do.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from testbed.base.columns import columns
from testbed.base.python import code_command
from testbed.evidence.referee import Referee
from testbed.execution.execute import execute
from testbed.execution.place import InLab
from testbed.experiment.expand import trials
from testbed.experiment.provenance import congestion_control
from testbed.lab.netns import NetnsLab, sandbox_process
from testbed.spec import read
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.tcp_info import unread_bytes

SKIP = 2
"""Iterations in which TCP's windows grow."""
TARGET = 0.02
MARK = "held messages: "
SPEC = """
name: held
links: {rate: 10 Gbit/s}
workload:
  kind: profile
  model: vgg19
  batch: 32
  scale: 50
  chunk: 64 KiB
  iterations: ITERATIONS
  compute: COMPUTE
arms:
  - {label: flat, topology: star(hosts=8), scheme: "two_level(groups=[[0,1,2,3,4,5,6,7]])"}
  - {label: 4 groups of 2, topology: star(hosts=8), scheme: "two_level(groups=[[0,1],[2,3],[4,5],[6,7]])"}
"""
COMPUTING = {"none": "none", "0.3 s": "{mode: paced, pace: {32: 0.3 s}}"}
LAB = """
import os, sys
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
sys.path.append(sys.argv[1])
import held_messages
from testbed.workloads.kinds.forest import node
node.engine = held_messages.Watched
from testbed.lab.netns import launcher
sys.exit(launcher.main(int(sys.argv[2]), int(sys.argv[3])))
"""
"""The lab's process, whose workers have the engine that watches itself."""

Spans = list[tuple[float, float]]


class Watched(Engine):
    """The engine in Python, which notes on standard error since when a connection was held, and when it moved."""

    def __init__(self, *given: Any, **more: Any) -> None:
        self._since_s: float | None = None
        self._held: Spans = []
        self._moved: Spans = []
        self._unread: list[tuple[int, int]] = []
        super().__init__(*given, **more)

    def _admit(self, connection: Connection, k: int) -> bool:
        taken = super()._admit(connection, k)
        if connection.held and self._since_s is None:
            self._since_s = time.monotonic()
        return taken

    def _move(self) -> bool:
        begun_s = time.monotonic()
        moved = super()._move()
        if moved and self._since_s is not None:
            self._moved.append((max(begun_s, self._since_s), time.monotonic()))
        return moved

    def _open(self, gate: int) -> None:
        if self._since_s is not None:
            held = [connection for connection in self._connections if connection.held]
            self._unread += [
                (unread_bytes(one.sock), one.sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)) for one in held
            ]
            self._held.append((self._since_s, time.monotonic()))
            self._since_s = None
        super()._open(gate)

    def close(self) -> None:
        noted = {"held": self._held, "moved": self._moved, "unread": self._unread}
        print(MARK + json.dumps(noted), file=sys.stderr, flush=True)
        super().close()


def main(iterations: int) -> int:
    """Print the table; 0 when held messages cost less than the target."""
    rows, most = [], 0.0
    watched = mock.patch.object(sandbox_process, "module_command", watching)
    with Referee() as referee:
        for engine, patched in (("Python", watched), ("compiled", nullcontext())):
            with patched, NetnsLab() as lab, tempfile.TemporaryDirectory() as folder:
                for computing, compute in COMPUTING.items():
                    text = SPEC.replace("ITERATIONS", str(iterations)).replace("COMPUTE", compute)
                    for trial in trials(read(text, "held.yaml", Path(folder))):
                        logs = Path(folder) / f"{computing} {trial.label}"
                        logs.mkdir()
                        using = congestion_control(trial.spec)
                        outcome = execute(trial, InLab(lab), referee, logs, using, lambda *_: None)
                        if outcome.samples is None or outcome.record["error"]:
                            sys.exit(f"{trial.label}: {outcome.record['error']}")
                        cells, cost = ([""] * 5, 0.0) if engine == "compiled" else shares(outcome.samples, logs)
                        most = max(most, cost)
                        gst_s, least_s = (outcome.record["metrics"][key] for key in ("gst_median_s", "gst_theory_s"))
                        gst = (f"{gst_s:.4f} s", f"{gst_s / least_s:.4f}", outcome.record["fidelity"]["verdict"])
                        rows.append((engine, computing, trial.label, *gst, *cells))
                        print(*rows[-1], file=sys.stderr)
    heads = ("engine", "computing", "scheme", "GST", "over bound", "", "held", "in GST", "and idle", "in GST", "unread")
    print("held, and held and idle: over GST, of the node with the most; unread: the most of a held connection")
    print(columns(heads, rows, left=3))
    print(f"\nheld and idle within GST: {most:.2%} at most; a second buffer is worth it from {TARGET:.0%} on")
    return 0 if most < TARGET else 1


def watching(_: str, *arguments: str) -> list[str]:
    return code_command(LAB, str(Path(__file__).parent), *arguments)


def shares(samples: pd.DataFrame, logs: Path) -> tuple[list[str], float]:
    """Return an arm's cells, and the share of GST in which a node held a connection and was idle."""
    by = samples[samples["iteration"] >= SKIP].groupby("iteration")
    windows = list(zip(by["ready_s"].max(), by["sum_s"].max(), strict=True))
    whole = [(by["start_s"].min().min(), by["sum_s"].max().max())]
    gst_s = length_s(windows)
    found, unread = [], []
    for log in sorted(logs.rglob("*.log")):
        for line in log.read_text().splitlines():
            if line.startswith(MARK):
                noted = json.loads(line.removeprefix(MARK))
                unread += noted["unread"]
                found.append(
                    [
                        shared_s(noted["held"], spans) - (shared_s(noted["moved"], spans) if idle else 0.0)
                        for idle in (False, True)
                        for spans in (whole, windows)
                    ]
                )
    assert len(found) == samples["rank"].nunique(), f"{len(found)} workers told what they held"
    most = np.array(found).max(axis=0) / gst_s
    fullest, buffer = max(unread, default=(0, 1))
    return [*(f"{share:.2%}" for share in most), f"{fullest >> 10} of {buffer >> 10} KiB"], float(most[3])


def length_s(spans: Sequence[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in spans)


def shared_s(some: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> float:
    """Add up the seconds that lie in spans of both; those of either do not overlap."""
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in some for b in others)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10))
