"""``testbed run --on``: what it costs, what a second worker gains, and what is left when workers are killed.

    python benchmarks/spread.py [cost | gain | kills] [--pairs 3] [--kills 20] [--seed 1]

- ``cost``: 20 short trials on ``local://1`` over a plain run of the same spec: the median of the ratios of pairs, in
  turn. GST medians of each cell, over all runs of a side, are compared, too.
- ``gain``: 4 blocks of paced trials on ``local://2`` over ``local://1``.
- ``kills``: each run loses a worker at a random moment. It must end with exit code 0 and each trial done once, those of
  a block on one machine; no process, network namespace or temporary file may be left. A run that ended before its kill
  does not count, and another moment is drawn. This happens in private namespaces (:mod:`leftovers`).

Exit code 1 if anything was not reached.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import ending
import leftovers

from testbed.base.python import module_command

COST, GAIN, APART = 1.05, 0.6, 0.01
LIMIT_S = 300.0
SPEC = """\
name: spread
links: {{rate: {rates}}}
workload: {{kind: profile, model: lenet5, batch: 2, scale: 4, iterations: {iterations},
  compute: {{mode: paced, pace: {{2: {pace}}}}}}}
arms: [{{topology: star(hosts=3), scheme: [{schemes}]}}]
repeats: {repeats}
retries: 0
quiet: 0 s
"""
SHORT = SPEC.format(rates="1 Gbit/s", iterations=16, pace="0.05 s", schemes="ring, ps", repeats=10)
BLOCKS = "[0.8 Gbit/s, 1 Gbit/s, 1.2 Gbit/s, 1.4 Gbit/s]"
PACED = SPEC.format(rates=BLOCKS, iterations=20, pace="0.5 s", schemes="ring, ps", repeats=1)
HIT = SPEC.format(rates="[0.8 Gbit/s, 1 Gbit/s]", iterations=6, pace="0.05 s", schemes="ring, ps", repeats=1)
TRIALS = 4
"""Trials of ``HIT``."""


@dataclass(frozen=True)
class Ran:
    """A run that ended: how long it took, and the GST medians of its trials by cell."""

    took_s: float
    gst_s: dict[str, list[float]]


def ran(spec: str, *on: str) -> Ran:
    """Run a spec; end if it fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.yaml").write_text(spec)
        began_s = time.monotonic()
        words = module_command("testbed", "run", "spec.yaml", "--out", "run", *on)
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        took_s = time.monotonic() - began_s
        if done.returncode:
            sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        records = [json.loads(path.read_text()) for path in (folder / "run/trials").glob("*.json")]
    ending.with_failed(records)
    gst_s = defaultdict(list)
    for record in records:
        gst_s[f"{record['label']} at {record['at']}"].append(record["metrics"]["gst_median_s"])
    return Ran(took_s, gst_s)


def cost(pairs: int) -> bool:
    """Compare ``local://1`` with a plain run."""
    sides: list[tuple[Ran, Ran]] = []
    for number in range(pairs):
        plain, spread = sides_of(SHORT, (), ("--on", "local://1"), number)
        sides.append((plain, spread))
        print(f"20 trials: plain {plain.took_s:.1f} s, local://1 {spread.took_s:.1f} s", flush=True)
    ratio = statistics.median(spread.took_s / plain.took_s for plain, spread in sides)
    print(f"local://1 took {ratio:.3f} times as long (median of {pairs}; at most {COST})")
    apart = 0.0
    for cell in sides[0][0].gst_s:
        plain_s, spread_s = (statistics.median(s for pair in sides for s in pair[side].gst_s[cell]) for side in (0, 1))
        print(f"{cell}: GST {plain_s * 1e3:.2f} ms and {spread_s * 1e3:.2f} ms, {spread_s / plain_s - 1:+.2%}")
        apart = max(apart, abs(spread_s / plain_s - 1))
    print(f"GST medians are {apart:.2%} apart (at most {APART:.0%})")
    return ratio <= COST and apart <= APART


def gain(pairs: int) -> bool:
    """Compare two workers with one."""
    ratios = []
    for number in range(pairs):
        single, double = sides_of(PACED, ("--on", "local://1"), ("--on", "local://2"), number)
        ratios.append(double.took_s / single.took_s)
        print(f"4 blocks: one worker {single.took_s:.1f} s, two {double.took_s:.1f} s", flush=True)
    ratio = statistics.median(ratios)
    print(f"two workers took {ratio:.3f} of the time (median of {pairs}; at most {GAIN})")
    return ratio <= GAIN


def sides_of(spec: str, one: tuple[str, ...], other: tuple[str, ...], number: int) -> tuple[Ran, Ran]:
    """Run a spec in two ways, every second time the other way first."""
    if number % 2:
        second = ran(spec, *other)
        return ran(spec, *one), second
    return ran(spec, *one), ran(spec, *other)


def kills(count: int, seed: int) -> bool:
    """Hit runs, as PID 1 of private namespaces."""
    draw = random.Random(seed)
    whole = hit(None, draw)
    if whole.problems:
        sys.exit("\n".join(["a run that nothing was done to:", *whole.problems]))
    print(f"a run that nothing is done to takes {whole.took_s:.1f} s after its first block has begun", flush=True)
    killed = wrong = missed = 0
    while killed < count and missed <= count:
        at_s = draw.uniform(0, whole.took_s * 0.9)
        run = hit(at_s, draw)
        killed, missed = (killed + 1, missed) if run.killed else (killed, missed + 1)
        wrong += bool(run.problems)
        what = "a worker was killed" if run.killed else "no worker was there any more"
        said = f"[{killed}/{count}] {what} at {at_s:.1f} s of {run.took_s:.1f} s"
        print(said, *run.problems, sep="\n    ", flush=True)
    print(f"{missed} runs ended before their kill, and do not count among {killed}")
    print(f"{wrong} of all were incomplete, had a trial twice or left something (none)")
    return killed == count and not wrong


@dataclass(frozen=True)
class Hit:
    """A run that ended: how long it went on after its first block had begun, whether a worker was killed meanwhile,
    and what is not as it should be."""

    took_s: float
    killed: bool
    problems: Sequence[str]


def hit(at_s: float | None, draw: random.Random) -> Hit:
    """Run an experiment on two workers, and kill one so long after its first block has begun, if at all."""
    folder = Path(tempfile.mkdtemp())
    (folder / "spec.yaml").write_text(HIT)
    (folder / "tmp").mkdir()
    with (folder / "said").open("wb") as said:
        run = subprocess.Popen(
            module_command("testbed", "run", "spec.yaml", "--on", "local://2", "--out", "run"),
            cwd=folder,
            stdout=said,
            stderr=said,
            env={**os.environ, "TMPDIR": str(folder / "tmp")},
        )
    while not list((folder / "run/blocks").glob("*")) and run.poll() is None:
        time.sleep(0.05)
    began_s = time.monotonic()
    killed = at_s is not None and kill(run, at_s, draw)
    try:
        code = run.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        run.kill()
        code = run.wait()
    took_s = time.monotonic() - began_s
    said_at_end = (folder / "said").read_text()[-2000:]
    problems = [f"exit code {code}: {said_at_end}"] if code else wrong_in(folder / "run")
    problems += [f"a process is left: {line}" for line in leftovers.wait_until_alone(10.0)]
    if not leftovers.wait_until_one_namespace(60.0):
        problems.append("a network namespace is left")
    problems += [f"a temporary file is left: {path}" for path in (folder / "tmp").iterdir()]
    if not problems:
        shutil.rmtree(folder)
    return Hit(took_s, killed, problems)


def kill(run: subprocess.Popen[bytes], at_s: float, draw: random.Random) -> bool:
    """Kill one of a run's workers after so many seconds; return whether there was one."""
    with suppress(subprocess.TimeoutExpired):
        run.wait(at_s)
    there = workers(run.pid) if run.poll() is None else []
    if there:
        os.kill(draw.choice(there), signal.SIGKILL)
    return bool(there)


def workers(harness: int) -> list[int]:
    """Processes of a run's workers."""
    found = []
    for pid, parent in leftovers.processes().items():
        with suppress(OSError):
            if parent == harness and b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return sorted(found)


def wrong_in(run: Path) -> list[str]:
    """Say what is wrong with the trials of a run."""
    records = [json.loads(path.read_text()) for path in (run / "trials").glob("*.json")]
    with (run / "results.csv").open(newline="") as table:
        rows = [row["trial"] for row in csv.DictReader(table)]
    problems = [f"{record['id']}: {record['error']}" for record in records if record["status"] != "done"]
    if not len(records) == len(rows) == len(set(rows)) == TRIALS:
        problems.append(f"{len(records)} records and the rows {rows}, not {TRIALS} trials")
    machines = defaultdict(set)
    for record in records:
        machines[record["at"]].add(record["machine"])
    problems += [f"the block {at} is from {found}" for at, found in machines.items() if len(found) > 1]
    return problems + [f"{path} is left" for path in run.rglob("*") if path.name in ("blocks", "work")]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure testbed run --on.")
    parser.add_argument("only", nargs="?", choices=("cost", "gain", "kills"))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        return int(not kills(chosen.kills, chosen.seed))
    reached = [
        chosen.only not in (None, "cost") or cost(chosen.pairs),
        chosen.only not in (None, "gain") or gain(chosen.pairs),
        chosen.only not in (None, "kills") or not leftovers.privately([__file__, *sys.argv[1:], "--inside"]),
    ]
    print("reached" if all(reached) else "NOT REACHED")
    return int(not all(reached))


if __name__ == "__main__":
    sys.exit(main())
