"""Does the verdict tell a bad set-up from a good one? The confusion table, number by number.

    python benchmarks/fidelity.py [--runs N] [--only TEXT ...]

Each set-up runs N times (20 unless told otherwise) on two cores; more are left unused. Each number that a bad set-up
spoils must come out INVALID, and one of the checks that see the fault must be among those that fail; else it is missed.
Where only the machine is at fault, a number may also be certified: then it is too long by 3 % at most, whatever the
machine did. Of a good set-up every number must come out VALID; else it is a false alarm. What is wrong with the bad
ones is done for real, behind the harness's back: ``faults.py``. Takes about eight minutes for each of N, on a machine
that is idle otherwise: a quota is used up only where nobody else takes the cores before. Quotas need root and control
groups of version 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from faults import (
    MID_RUN_S,
    Fault,
    FaultyLab,
    all_at_once,
    bucket,
    cpu_quota,
    detour,
    for_a_while,
    hogs,
    in_first_trial,
    late_clock,
    real_time_hog,
    stopped,
    stranger,
)
from rich.console import Console

from testbed.analysis.verdicts import NUMBERS
from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read

RUNS = 20
CORES = 2
SCALE = 200
"""VGG-19's gradient over this is 2.74 MB, which takes four hosts 0.17 s at 200 Mbit/s; rates are over this, too."""
CPU = frozenset(
    {"CPU headroom", "run queue", "link rate", "timers", "stalls", "stalls while synchronising", "pacing", "engines"}
)
"""Any of these says that the machine was too slow."""
PS, RING, BML = ("star(hosts=4)", "ps"), ("star(hosts=4)", "ring"), ("bcube(n=3,k=2)", "bml")
SPINES = ("spine_leaf(racks=2,hosts_per_rack=2,spines=2)", "ps")
ASYNC, RACKS = ("star(hosts=5)", "async_ps"), "spine_leaf(racks=2,hosts_per_rack=2,spines=1)"
SPEC = """
name: fidelity
links: {{rate: {gbps} Gbit/s, delay: {delay}}}
workload:
  {workload}
arms: [{{topology: "{topology}"{scheme}}}]
perturb: {perturb}
retries: {retries}
quiet: 0 s
"""
PROFILE = """{{kind: profile, model: vgg19, scale: {scale}, batch: 32, iterations: {iterations},
    compute: {compute}, overlap: {overlap}}}"""
TRAINED = "{model: lenet5, dataset: digits, batch: 128, iterations: 8, compute: real}"
RANKS = """
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
gradient, weights = torch.ones(250_000), torch.ones(400, 400)
for _ in range(8):
    time.sleep(0.05)
    for _ in range(40):
        weights = torch.tanh(weights @ weights)
    dist.all_reduce(gradient)
dist.destroy_process_group()
"""
"""Eight iterations: a wait for data, what a core computes in a fifth of a second, and 1 MB to sum. Without the wait,
two ranks fill two cores, and the machine rightly counts as too busy."""
RANKED = "{kind: command, command: python ranks.py}"
SCRIPT = """
import os, subprocess, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for iteration in range(40):
    if STOPS and iteration == 20 and dist.get_rank() == 1:
        own = os.getpid()
        subprocess.Popen(["sh", "-c", f"kill -STOP {own}; sleep 2; kill -CONT {own}"])
    time.sleep(0.15)
    dist.all_reduce(torch.ones(250_000))
dist.destroy_process_group()
"""
"""Eight seconds of iterations. With STOPS, one rank is stopped once, for 2 s, whenever that iteration comes."""
CAUGHT = """
import time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for iteration in range(24):
    time.sleep(0.1)
    dist.all_reduce(torch.ones(250_000))
    if iteration == 12:
        last = torch.zeros(1).expand(12) if dist.get_rank() == 1 else torch.zeros(12)
        try:
            dist.all_gather_into_tensor(last, torch.arange(4.0))
        except RuntimeError:
            pass
dist.destroy_process_group()
"""
"""One rank's result cannot be written where it belongs, and the script goes on."""
COMMAND = """
import time
until = time.monotonic() + 8
while time.monotonic() < until:
    time.sleep(0.002)
"""
"""It uses a core for a twentieth of the time, and nobody knows what it does."""
THREE, ALONE = ("star(hosts=3)", "ring"), ("star(hosts=3)", "")
SLOW = "[{kind: slow, slowdown: 4, workers: [h1]}]"
STEP = "[{kind: rate, links: [h1], share: 0.5, at: 0.3 s, until: 0.8 s}]"


@dataclass(frozen=True)
class SetUp:
    """What runs, what is wrong with it, and the checks that may say so, none where it is good; ``spoils`` names the
    numbers that are wrong then."""

    name: str
    network: tuple[str, str]
    mbps: int
    seen_by: frozenset[str] = frozenset()
    fault: Fault | None = None
    late_s: float = 0.0
    delay_s: float | None = None
    delay: str = "0 ms"
    compute: str = "none"
    overlap: str = "none"
    iterations: int = 6
    perturb: str = "[]"
    at_once: int = 1
    scheme: str | None = None
    spoils: Collection[str] = NUMBERS
    workload: str = ""
    """In place of the profile; its rates are not scaled."""
    program: str = RANKS
    """What the file has that a workload of ranks runs."""
    quota: float | None = None
    """Cores that the harness and all that it starts may use together, in place of ``CORES``."""
    retries: int = 0

    @property
    def spec(self) -> str:
        topology, scheme = self.network
        scale = 1 if self.workload else SCALE
        profile = PROFILE.format(scale=scale, iterations=self.iterations, compute=self.compute, overlap=self.overlap)
        return SPEC.format(
            topology=topology,
            scheme=f", scheme: {scheme}" if scheme else "",
            gbps=self.mbps * scale / 1000,
            workload=self.workload or profile,
            perturb=self.perturb,
            retries=self.retries,
            delay=self.delay,
        )

    def lab(self) -> NetnsLab:
        return FaultyLab(self.fault or (lambda _lab: nullcontext()), self.late_s, self.delay_s, self.scheme)


USUAL = "100mbit", "12500"
"""As tc writes what a link of 100 Mbit/s has."""
LOSSY, UNEVEN = "0 ms, loss: 1 %", "5 ms, jitter: 0.5 ms, loss: 0.1 %, reorder: 1 %, queue: 256 KiB"
"""Delay, and what else links do."""
LOWER = bucket("80mbit", "10k")
QUOTA = frozenset({"CPU quota", "CPU quota while synchronising"})
PAIR = "star(hosts=2)"
REAL = (("training", (PAIR, "ring"), TRAINED), ("script", (PAIR, "ring"), RANKED), ("command", (PAIR, ""), RANKED))
PACED = "{mode: paced, pace: {32: 0.1 s}}"
SET_UPS = (
    SetUp("18 links at 1 Gbit/s", BML, 1000, CPU),
    SetUp("two runs at once, 18 links at 700 Mbit/s each", BML, 700, CPU, iterations=40, at_once=2),
    SetUp("hogs on both cores", RING, 200, CPU, fault=hogs),
    SetUp("bucket at twice its rate", PS, 100, frozenset({"read back"}), bucket("200mbit", "50k")),
    SetUp("bucket at 0.8 of its rate", PS, 100, frozenset({"link rate"}), bucket("80mbit", "10k")),
    SetUp("bucket 100 times too deep", PS, 100, frozenset({"read back"}), bucket("100mbit", "1250k")),
    SetUp("bucket changed in mid-run", PS, 100, frozenset({"read back"}), bucket("110mbit", "14k", MID_RUN_S)),
    SetUp(
        "links twice as fast for a while, put back",
        *(PS, 100, frozenset({"read back"}), for_a_while("200mbit", "25000", USUAL, MID_RUN_S, MID_RUN_S + 2)),
        iterations=15,
    ),
    SetUp(
        "half the rate for a while, put back",
        *(PS, 100, frozenset({"read back"}), for_a_while("50mbit", "6250", USUAL, MID_RUN_S, MID_RUN_S + 4)),
        iterations=15,
    ),
    SetUp("route missing, detour", SPINES, 100, frozenset({"bytes on the wire"}), detour),
    SetUp("clock of one worker late", RING, 100, frozenset({"timers"}), late_clock, compute=PACED),
    SetUp("h0 sends with a delay of 6 ms instead of 2", RING, 50, frozenset({"delay"}), delay="2 ms", delay_s=0.006),
    SetUp("events late", RING, 100, frozenset({"events"}), late_s=0.05, perturb=STEP),
    SetUp(
        "a worker stopped for 0.4 s in every 0.7 s",
        *(RING, 100, frozenset({"stalls", "stalls while synchronising"}), stopped(0.4, every_s=0.7)),
        compute=PACED,
        iterations=12,
    ),
    SetUp(
        "a worker stopped for 45 ms in every 100 ms",
        *(("bcube(n=2,k=2)", "bml"), 200, frozenset({"stalls while synchronising"}), stopped(0.045, every_s=0.1)),
        compute=PACED,
        iterations=20,
    ),
    SetUp(
        "a worker stopped for 29 ms in every 70 ms",
        *(("bcube(n=2,k=2)", "bml"), 200, frozenset({"stalls while synchronising"}), stopped(0.029, every_s=0.0695)),
        compute=PACED,
        iterations=20,
    ),
    SetUp(
        "asynchronous PS, the server stopped for 45 ms in every 100 ms",
        *(ASYNC, 200, frozenset({"stalls while synchronising"}), stopped(0.045, every_s=0.1)),
        compute=PACED,
        iterations=20,
    ),
    SetUp(
        "a worker stopped once, for 2 s",
        *(RING, 100, frozenset({"stalls"}), stopped(2.0)),
        compute=PACED,
        iterations=12,
        spoils=("jct", "throughput"),
    ),
    SetUp("a real-time hog of 40 % on both cores", RING, 200, CPU, real_time_hog(0.4), compute=PACED),
    SetUp(
        "links 2 % too fast, and a slow machine",
        *(RING, 200, frozenset({"read back"}), all_at_once(bucket("204mbit", "25500"), real_time_hog(0.08))),
        compute=PACED,
    ),
    SetUp("workers follow another forest", PS, 100, frozenset({"bytes on the wire"}), scheme="ps(servers=1)"),
    SetUp("bucket at 0.8 of its rate, links lose 1 %", RING, 100, frozenset({"link rate"}), LOWER, delay=LOSSY),
    SetUp("route missing, detour, links lose 1 %", SPINES, 100, frozenset({"bytes on the wire"}), detour, delay=LOSSY),
    SetUp("a stranger sends, links lose 1 %", RING, 100, frozenset({"bytes on the wire"}), stranger, delay=LOSSY),
    *(
        SetUp(f"a quota of {cores:g} cores, {what}", network, 200, QUOTA, workload=workload, quota=cores)
        for what, network, workload in REAL
        for cores in (0.5, 0.25)
    ),
    *(SetUp(f"{what}, computing in real time", network, 200, workload=workload) for what, network, workload in REAL),
    *(
        SetUp(
            f"a {what}'s rank stopped for {stop_s * 1e3:.0f} ms in every 100 ms",
            *(network, 200, frozenset({"stalls", "stalls while synchronising"}), stopped(stop_s, every_s=0.1)),
            workload=RANKED,
            program=program,
        )
        for what, network, program in (("script", THREE, "STOPS = False" + SCRIPT), ("command", ALONE, COMMAND))
        for stop_s in (0.05, 0.01)
    ),
    SetUp(
        "a script's rank stopped once, for 2 s",
        *(THREE, 200, frozenset({"stalls"})),
        workload=RANKED,
        program="STOPS = True" + SCRIPT,
        spoils=("jct",),
    ),
    SetUp(
        "a command's rank stopped once, for 2 s",
        *(ALONE, 200, frozenset({"stalls"}), stopped(2.0)),
        workload=RANKED,
        program=COMMAND,
    ),
    SetUp(
        "an error of one rank that a script catches",
        *(THREE, 200, frozenset({"collectives"})),
        workload=RANKED,
        program=CAUGHT,
    ),
    SetUp(
        "a worker stopped once, for 2 s, in the first attempt",
        *(RING, 100),
        fault=in_first_trial(stopped(2.0)),
        compute=PACED,
        iterations=12,
        retries=1,
    ),
    SetUp("a script left alone", THREE, 200, workload=RANKED, program="STOPS = False" + SCRIPT),
    SetUp("a command left alone", ALONE, 200, workload=RANKED, program=COMMAND),
    SetUp("18 links at 200 Mbit/s", BML, 200),
    SetUp("PS", PS, 200),
    SetUp("ring", RING, 200),
    SetUp("BML", ("bcube(n=2,k=2)", "bml"), 200),
    SetUp("ring, paced", RING, 200, compute=PACED),
    SetUp("PS over two spines", SPINES, 100),
    SetUp("ring, one worker slow on purpose", RING, 100, compute=PACED, perturb=SLOW),
    SetUp("ATP", (RACKS, "atp"), 100, compute=PACED),
    SetUp("asynchronous PS, one worker slow on purpose", ASYNC, 200, compute=PACED, perturb=SLOW),
    SetUp("ring, both passes overlap", RING, 100, compute=PACED, overlap="both"),
    SetUp("ring, a link's rate changed on purpose", RING, 100, perturb=STEP),
    SetUp("ring, links of 2 ms", RING, 50, delay="2 ms"),
    SetUp("ring, links lose 1 %", RING, 100, delay=LOSSY),
    SetUp("ring, links of 5 ms that vary, lose and reorder", RING, 100, delay=UNEVEN),
    SetUp("two runs at once, ring at 50 Mbit/s each", RING, 50, iterations=3, at_once=2),
    SetUp("a real-time hog of 5 % on both cores", RING, 50, fault=real_time_hog(0.05), compute=PACED),
    SetUp("a real-time hog of 8 % on both cores", RING, 50, fault=real_time_hog(0.08), compute=PACED),
)


def measure(set_up: SetUp) -> list[dict[str, Any]]:
    """The records of one run: one, or one of each that ran at once."""
    with tempfile.TemporaryDirectory() as folder:
        if set_up.at_once > 1:
            return _at_once(set_up, Path(folder))
        (Path(folder) / "ranks.py").write_text(set_up.program)
        source = read(set_up.spec, set_up.name, Path(folder))
        limited = cpu_quota(set_up.quota) if set_up.quota else nullcontext()
        with limited, Experiment.new(source, Path(folder) / "run", partial(Here, set_up.lab)) as experiment:
            return experiment.go(lambda trials: Lines(trials, Console(stderr=True, quiet=True))).records


def _at_once(set_up: SetUp, folder: Path) -> list[dict[str, Any]]:
    """Commands of their own, as two users would start them."""
    (folder / "spec.yaml").write_text(set_up.spec)
    command = [sys.executable, "-m", "testbed", "run", str(folder / "spec.yaml"), "--out"]
    started = [
        subprocess.Popen([*command, str(folder / str(number))], stdout=subprocess.DEVNULL)
        for number in range(set_up.at_once)
    ]
    for process in started:
        process.wait()
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*/trials/*.json"))]


@dataclass
class Tally:
    """What came out of a set-up's runs."""

    set_up: SetUp
    runs: int = 0
    invalid: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    """By number: missed where the set-up is bad, false alarms where it is good."""

    def add(self, record: Mapping[str, Any]) -> None:
        self.runs += 1
        if record["status"] == "failed":
            self.wrong["failed"] += 1
            print(f"{self.set_up.name}: {record['error']}", file=sys.stderr)
            return
        names = {check["name"] for check in record["fidelity"]["checks"] if not check["ok"]}
        self.failed.update(names)
        for name, number in record["fidelity"]["numbers"].items():
            is_valid = number["verdict"] == "VALID"
            others = [attempt["numbers"].get(name) for attempt in record.get("attempts") or ()]
            self.wrong[f"{name} lost"] += not is_valid and "VALID" in others
            self.invalid[name] += not is_valid
            if not self.set_up.seen_by:
                self.wrong[name] += not is_valid
            elif name in self.set_up.spoils:
                excused = number["certified"] and self.set_up.seen_by <= CPU | QUOTA
                self.wrong[name] += not excused and (is_valid or not names & self.set_up.seen_by)

    def row(self) -> list[str]:
        """As printed."""
        by = ", ".join(f"{name} {count}" for name, count in self.failed.most_common())
        flagged = ", ".join(f"{name} {count}" for name, count in self.invalid.items() if count)
        wrong = ", ".join(f"{name} {count}" for name, count in self.wrong.items() if count)
        kind = "bad" if self.set_up.seen_by else "good"
        return [kind, self.set_up.name, str(self.runs), flagged or "-", by or "-", wrong or "-"]


def main(arguments: Sequence[str]) -> int:
    """Print the table; 0 when every run came out as it should."""
    parser = argparse.ArgumentParser(description="The confusion table of the fidelity verdict.")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", nargs="+", default=[""], help="set-ups whose name has one of these texts")
    given = parser.parse_args(arguments)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    tallies = [Tally(set_up) for set_up in SET_UPS if any(text in set_up.name for text in given.only)]
    for run in range(given.runs):
        for tally in tallies:  # interleaved, so that a slow hour touches all
            for record in measure(tally.set_up):
                tally.add(record)
            print(f"{run + 1}/{given.runs} {tally.row()[1:]}", file=sys.stderr)
    print(columns(("", "set-up", "runs", "INVALID", "by", "wrong"), [tally.row() for tally in tallies]))
    for kind, bad in (("missed", True), ("false alarms", False)):
        those = [tally for tally in tallies if bool(tally.set_up.seen_by) is bad]
        wrong, runs = sum(tally.wrong.total() for tally in those), sum(tally.runs for tally in those)
        print(f"{kind}: {wrong} numbers in {runs} runs")
    return 1 if any(tally.wrong.total() for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
