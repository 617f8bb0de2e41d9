"""The cost of enclosures: JCT and GST of trials with them over those without, and how long workers take to start.

    python benchmarks/enclosure.py [--rounds N]    # two minutes

The same trial runs in the lab ``netns`` by turns with workers in enclosures, as ever, and as programs that a person
would start, which have none. Reach: JCT 1.01 times at most, in the median of rounds. Then the workers of a star of 64
hosts are started.
"""

from __future__ import annotations

import argparse
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ending

from testbed.base.columns import columns
from testbed.evidence.referee import Referee
from testbed.execution.execute import execute
from testbed.execution.place import InLab
from testbed.experiment.expand import trials
from testbed.experiment.provenance import congestion_control
from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.on_nodes.attached import Attached
from testbed.lab.netns.on_nodes.processes import logged
from testbed.lab.netns.sandbox import Sandbox
from testbed.lab.programs import Exit, Launch
from testbed.spec import read
from testbed.topologies.build import build
from testbed.trial.model import Trial

ROUNDS, REACH = 9, 1.01
HOSTS = 64
SPEC = """
name: enclosure
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: vgg19, batch: 32, scale: 100, iterations: 8,
  compute: {mode: paced, pace: {32: 50 ms}}}
arms: [{topology: star(hosts=4), scheme: ring}]
"""


class AsPrograms(NetnsLab):
    """Starts workers as programs of their own, in enclosures by the sandbox's request ``start``, or not by ``run``."""

    request = staticmethod(Sandbox.start)

    def launch(self, workers: Sequence[Launch]) -> None:
        self.running = {}
        for worker in workers:
            with logged(worker.log) as files:
                words = [sys.executable, "-P", "-m", "testbed.workloads.worker", worker.job]
                self.running[worker] = self._attached(partial(self.request, worker.node, words), files)

    def exits(self) -> list[Exit]:
        ready = select.select(list(self.running.values()), [], [], 0)[0] if self.running else []
        found = []
        for worker in [worker for worker, one in self.running.items() if one in ready]:
            attached: Attached = self.running.pop(worker)
            found.append(Exit(worker.process, worker.node, attached.wait(), 0.0, attached.ended_s))
        return found

    def stopped(self) -> list[str]:
        return []


class Without(AsPrograms):
    request = staticmethod(Sandbox.run)


def measured(kind: type[NetnsLab], trial: Trial, referee: Referee) -> dict[str, Any]:
    """A trial's metrics."""
    with tempfile.TemporaryDirectory() as folder, kind() as lab:
        done = execute(trial, InLab(lab), referee, Path(folder), congestion_control(trial.spec), lambda *_: None)
    ending.with_failed([done.record])
    return dict(done.record["metrics"])


def start_s(kind: type[NetnsLab]) -> float:
    """How long it takes until all workers of a large star have been started."""
    topology = build(f"star(hosts={HOSTS})", rate_bps=10**8)
    with tempfile.TemporaryDirectory() as folder, kind() as lab:
        for node in topology.nodes:
            Path(folder, node.name).mkdir()
        lab.share(Path(folder))
        lab.up(topology, LinkSettings(), [(0, 1), (1, 0)])
        lab.prepare()
        nobody = [Launch(f"h{node}", node, f"{folder}/nothing.json", f"{folder}/{node}.log") for node in topology.hosts]
        began_s = time.monotonic()
        lab.launch(nobody)
        return time.monotonic() - began_s


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    trial = trials(read(SPEC, "enclosure", Path()))[0]
    seen: dict[type[NetnsLab], list[dict[str, Any]]] = {AsPrograms: [], Without: []}
    with Referee() as referee:
        for number in range(rounds):
            for kind in list(seen)[:: 1 if number % 2 else -1]:
                seen[kind].append(measured(kind, trial, referee))
    rows = []
    for name in ("jct_s", "gst_median_s"):
        inside, outside = ([one[name] for one in seen[kind]] for kind in (AsPrograms, Without))
        ratio = statistics.median(a / b for a, b in zip(inside, outside, strict=True))
        rows.append([name, f"{statistics.median(inside):.4f}", f"{statistics.median(outside):.4f}", f"{ratio:.4f}"])
    print(columns(("", "with", "without", "ratio"), rows))
    print(f"start of {HOSTS} workers with enclosures: {start_s(NetnsLab):.2f} s")
    reached = float(rows[0][-1]) <= REACH
    print(f"JCT: {'reached' if reached else 'NOT REACHED'} ({REACH})")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
