"""The lab simulator: its engine beside SimGrid, and its times beside those of emulation.

    python benchmarks/simulator.py [--all]         # engines: the time that they take, and the time that they simulate
    python benchmarks/simulator.py --play queues 'star(hosts=65536)' ring  # one network
    python benchmarks/simulator.py --runs          # whole runs: many iterations beside few, and memory
    python benchmarks/simulator.py --sizes         # 1,024 hosts beside planning alone, 65,536 hosts beside 1,024
    python benchmarks/simulator.py --emulate RUN   # a new run: each scheme on each network, about 5 minutes a repeat
    python benchmarks/simulator.py --emulate RUN --scheme two_level  # on each of its networks
    python benchmarks/simulator.py --emulate RUN --jobs  # pairs of jobs that share links, about 2 minutes a repeat
    python benchmarks/simulator.py --emulate RUN --updates  # asynchronous schemes, about 3 minutes a repeat
    python benchmarks/simulator.py --emulate RUN --scheduled  # MLfabric's schemes, about 7 minutes a repeat
    python benchmarks/simulator.py --emulate RUN --repeats 5  # each trial five times
    python benchmarks/simulator.py --errors RUN... # simulated beside emulated trials; writes these schemes' rows of
                                                   # known_errors.json, and keeps the others

Engines: one synchronisation of 100 MB at 10 Gbit/s, the gradient in one piece a class. All get the same decisions from
the same player. Of ours its processor time counts, of SimGrid that of its process alone. That one is driven
from Python; ``in C++`` is what SimGrid 3.32 took for the same without Python. SimGrid plays what takes it less than a
minute, with ``--all`` all.

Whole runs: processor time of `testbed run` with 3 and with 100 iterations on 432 servers, start included, and the most
memory that it had with 1,024.

Sizes: processor time of planning and playing `ring` in full on 1,024 hosts beside that of `testbed forest` (each with
the start of Python), of `halving_doubling` there, and of playing one class for all on 65,536 hosts, medians of
interleaved processes. The last is beside playing in full, and beside planning and playing in full, start not included.

Emulation: GST of VALID trials, from the first of three iterations that are within 1 % of each other on. Nothing else
should use the machine. An error is simulated over emulated GST, less 1, of a scheme on a network. If there are several
trials of both, here or there, the median of each place counts, and the table says how far these are apart. Beside it
stands the error of max-min fair shares. Of asynchronous schemes and MLfabric's, the median GST of updates counts;
computing takes longer by chance, so that workers get apart under most schemes. That takes some iterations,
so the first half of each worker's does not count, nor does its last one, in which fewer workers are left. Of jobs, the
median GST counts of iterations in which all jobs ran, without the first one; a row has the jobs of a scheme beside
those of the others.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console

from testbed.base.columns import columns
from testbed.base.python import module_command
from testbed.execution.simulated import Simulator
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.fidelity.known_errors import PATH, row_name
from testbed.lab.netns import NetnsLab
from testbed.lab.simulator.place import LIMITS
from testbed.run_directory import stored
from testbed.spec import Source, read
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.fluid import Fluid
from testbed.workloads.play.links import Network
from testbed.workloads.play.player import Player
from testbed.workloads.play.queues import Queues
from testbed.workloads.play.simgrid import SimGrid
from testbed.workloads.sync.chunks import FLOAT_BYTES
from testbed.workloads.sync.schemes import build_plan

FLOATS, RATE_BPS = 25_000_000, 10**10
ENGINES: dict[str, Callable[[Topology], Network]] = {
    "queues": Queues.over,
    "fluid": Fluid.over,
    "simgrid": SimGrid.over,
}


class Row(NamedTuple):
    network: str
    scheme: str
    is_quick: bool
    """Whether SimGrid, driven from Python, takes less than a minute."""
    cxx_s: float | None
    """Processor time of SimGrid in C++."""


ROWS = (
    Row("star(hosts=128)", "ring", True, 0.09),
    Row("star(hosts=432)", "ring", False, 2.8),
    Row("star(hosts=1024)", "ring", False, 17),
    Row("star(hosts=64)", "ps", True, None),
    Row("star(hosts=128)", "ps", False, 9.0),
    Row("bcube(n=9,k=2)", "bml", True, 0.36),
    Row("fat_tree(k=8)", "halving_doubling", True, 1.5),
    Row("bcube(n=32,k=2)", "bml", False, None),
    Row("star(hosts=1024)", "halving_doubling", False, None),
)

STAR, BCUBE, NICS = "star(hosts=8)", "bcube(n=3,k=2)", "star(hosts=7,server_nics=3,routing=every_nic)"
RACKS = "spine_leaf(racks=2,hosts_per_rack=4,spines=1,ina=all)"
PLAIN_RACKS = RACKS.replace(",ina=all", "")
EVERYWHERE = ("ps", "ring", "halving_doubling", "tree", "double_binary_tree")
EMULATED = {
    STAR: (*EVERYWHERE, "multi_ring(strides=[1,3])", "bcube", "pbox", "pbox(aggregation=wide)", "pbox(colocated=true)"),
    RACKS: (*EVERYWHERE, "bcube", "hierarchical_ps", "two_level", "h_ar", "switchml", "atp", "rina"),
    BCUBE: (*EVERYWHERE, "bml", "hierarchical_ps", "two_level"),
    PLAIN_RACKS: ("pbox", "pbox(boxes=rack)", "pbox(boxes=rack,across=ring)"),
    NICS: ("pbox", "pbox(affinity=worker)"),
}
"""Schemes by network, without those that are another one there."""
SPEC = """
name: simulator-errors
lab: netns
links: {{rate: 200 Mbit/s}}
workload: {{kind: profile, model: lenet5, batch: 2, iterations: 8, compute: {{mode: paced, pace: {{2: 50 ms}}}}}}
arms:
{arms}
"""
JOBS = """
name: simulator-errors-of-jobs
lab: netns
links: {rate: 200 Mbit/s, level 2: {rate: 200 Mbit/s}}
workload: {kind: profile, model: lenet5, batch: 2, iterations: 10, compute: {mode: paced, pace: {2: 50 ms}}}
arms:
"""
UPDATES = """
name: simulator-errors-of-updates
lab: netns
links: {{rate: 600 Mbit/s}}
workload:
  {{kind: profile, model: lenet5, batch: 2, scale: 3, iterations: 30, compute: {{mode: paced, pace: {{2: 60 ms}}}}}}
perturb: [{{kind: jitter, sigma: 60 ms}}]
arms:
{arms}
"""
SERVED = ("async_ps", "async_ps(servers=2)", "async_ps(replication=chain)", "ssp(staleness=1)")
SMALL = "star(hosts=6)", "spine_leaf(racks=2,hosts_per_rack=3,spines=1)"
ASYNCHRONOUS = dict.fromkeys(SMALL, SERVED)
SCHEDULED = dict.fromkeys((*SMALL, STAR, PLAIN_RACKS), ("mlfabric_a", "mlfabric_ssp", "mlfabric_s"))
PAIRS = (("ring", "ps"), ("ring", "ring"), ("ps", "ps"))
PAIR = """\
  - label: {0}, {1}
    topology: "spine_leaf(racks=2,hosts_per_rack=4,spines=1)"
    jobs:
      - {{name: a, scheme: {0}, hosts: [h0, h4, h1, h5]}}
      - {{name: b, scheme: {1}, hosts: [h2, h3, h6, h7]}}
"""
"""Jobs across two racks, whose only link between them is as fast as a host's."""
ALIKE, SETTLED, LOTS = 1.01, 3, 25
BY_UPDATE = {"asynchronous", "fabric", "fabric_sync"}
"""Kinds of trial whose workers get apart, so that the second half of iterations counts."""
FEW, MANY, MOST_RATIO, MOST_MB = 3, 100, 3.0, 300
LARGE, LARGEST, LESS, TIMES = "star(hosts=1024)", "star(hosts=65536)", 100, 5
RUN = """
name: simulator-runs
lab: simulator
links: {{rate: 100 Gbit/s}}
workload:
  {{kind: profile, model: candle_dedicated, batch: 256, iterations: {iterations}, scale: {scale}, compute: {compute}}}
arms: [{{topology: "{network}", {scheme}}}]
"""
PACED = "{mode: paced, pace: {256: 1.03 s}}"
DATA = "scheme: ring, strategy: data"
ALIKE_RUNS = (
    ("star(hosts=432)", "scheme: ring", PACED),
    ("star(hosts=432)", "scheme: ring", "none"),
    ("star(hosts=432)", "scheme: ring", f"{PACED}, overlap: layer"),
    ("star(hosts=432)", DATA, PACED),
    ("fat_tree(k=12)", DATA, PACED),
    ("patch_panel(servers=432,degree=4,rings=[1,1])", "scheme: ring", PACED),
    ("patch_panel(servers=432,degree=4,rings=[1,1])", DATA, PACED),
)
"""Network, scheme and computing of runs whose iterations are alike."""


def play(engine: str, network: str, scheme: str) -> dict[str, float]:
    """Play a synchronisation: simulated time, processor time of planning, of the play and of all (s), and memory
    (MiB)."""
    plan_began_s = time.process_time()
    topology = build_topology(network, rate_bps=RATE_BPS)
    plan = build_plan(scheme, topology, [FLOATS])
    gradient = Gradient((FLOATS,), (range(1),), ((0, FLOATS),))
    work = kinds.of(plan).simulation.synchronisation(plan, (gradient, FLOAT_BYTES * FLOATS))
    player = Player(Arena(topology, engine=ENGINES[engine]), work)
    began_s = time.process_time()
    told = list(player.told())
    play_s = time.process_time() - began_s
    del player
    gc.collect()  # SimGrid's process ends
    mine, child = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    child_s = child.ru_utime + child.ru_stime
    return {
        "simulated_s": max(at_s for at_s, _ in told),
        "plan_s": began_s - plan_began_s,
        "play_s": child_s or play_s,
        "all_s": time.process_time() + child_s,
        "mib": mine.ru_maxrss / 1024,
    }


def engines(rows: Sequence[Row], *, judge_all: bool) -> bool:
    """Print a row for each network; return whether the engines agree and ours is as fast as asked."""
    cells, reached = [], True
    for row in rows:
        played: dict[str, dict[str, float]] = {}
        for engine in ENGINES if row.is_quick or judge_all else ("queues", "fluid"):
            played[engine] = _played(engine, row.network, row.scheme)
        ours, judge = played["fluid"], played.get("simgrid")
        seen = ["-"] * 3
        if judge is not None:
            off, ratio = judge["simulated_s"] / ours["simulated_s"] - 1, judge["play_s"] / ours["play_s"]
            asked = 100 if row.scheme == "ps" else 5
            reached &= abs(off) <= 1e-6 and ratio >= asked
            seen = [f"{judge['play_s']:.2f} s", f"{ratio:.0f} x (asked {asked})", f"{off:+.0e}"]
        cxx = "-" if row.cxx_s is None else f"{row.cxx_s:g} s"
        numbers = [number for each in (played["queues"], ours) for number in _numbers(each)]
        cells.append([row.network, row.scheme, *numbers, *seen, cxx])
        print(" ".join(cells[-1]), file=sys.stderr, flush=True)
    own = ("player", "with planning", "memory")
    head = ("network", "scheme", "queues", *own, "shares", *own, "SimGrid", "ratio", "off", "in C++")
    print(columns(head, cells, left=2))
    return reached


def _played(engine: str, network: str, scheme: str) -> dict[str, float]:
    """Play in a process of its own."""
    command = [sys.executable, __file__, "--play", engine, network, scheme]
    played: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return played


def _numbers(played: Mapping[str, float]) -> list[str]:
    seconds = f"{played['simulated_s']:.6f} s", f"{played['play_s']:.3f} s", f"{played['all_s']:.1f} s"
    return [*seconds, f"{played['mib']:.0f} MiB"]


def runs() -> bool:
    """Print processor time and memory of whole runs; return whether they are as asked."""
    cells, reached = [], True
    for network, scheme, compute in ALIKE_RUNS:
        (few_s, _), (many_s, mb) = (_run(network, scheme, compute, 5000, count) for count in (FEW, MANY))
        reached &= many_s <= MOST_RATIO * few_s
        times = f"{few_s:.1f} s", f"{many_s:.1f} s", f"{many_s / few_s:.2f} x (asked {MOST_RATIO:g})"
        cells.append([network, scheme, compute, *times, f"{mb:.0f} MB"])
    seconds, mb = _run("star(hosts=1024)", "scheme: ring", PACED, 270, FEW)
    reached &= mb <= MOST_MB
    times = f"{seconds:.1f} s", "-", "-"
    cells.append(["star(hosts=1024)", "scheme: ring", PACED, *times, f"{mb:.0f} MB (asked {MOST_MB})"])
    head = ("network", "scheme", "computing", f"{FEW} iterations", f"{MANY} iterations", "ratio", "memory")
    print(columns(head, cells, left=3))
    return reached


def _run(network: str, scheme: str, compute: str, scale: int, iterations: int) -> tuple[float, float]:
    """Run a spec in a process of its own; return its processor time (s) and the most memory that it had (MB)."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.yaml"
        spec.write_text(RUN.format(network=network, scheme=scheme, compute=compute, scale=scale, iterations=iterations))
        return _used("run", str(spec), "--out", str(Path(folder) / "run"), "--quiet", "0")


def _used(*words: str) -> tuple[float, float]:
    """Run testbed; return its processor time (s) and the most memory that it had (MB)."""
    with subprocess.Popen(module_command("testbed", *words), stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"testbed {words[0]} ended with exit status {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def sizes() -> bool:
    """Print what the size of a network costs; return whether it is as little as asked."""
    forest_s, full, swapped, alike = [], [], [], []
    for _ in range(TIMES):
        forest_s.append(_used("forest", "ring", LARGE)[0])
        full.append(_played("queues", LARGE, "ring"))
        swapped.append(_played("queues", LARGE, "halving_doubling"))
        alike.append(_played("queues", LARGEST, "ring"))

    def median_s(plays: Sequence[Mapping[str, float]], *parts: str) -> float:
        return statistics.median(sum(each[part] for part in parts) for each in plays)

    play_s, alike_s = median_s(full, "play_s"), median_s(alike, "play_s")
    planned_s = median_s(full, "plan_s", "play_s")
    ratio, asked = median_s(full, "all_s") / statistics.median(forest_s), 2.0
    swaps, swaps_asked = median_s(swapped, "play_s") / play_s, 20.0
    rows = (
        (f"ring, {LARGE}: all, over `testbed forest`", f"{ratio:.2f}", f"{asked:g}"),
        (f"halving_doubling over ring, {LARGE}: play", f"{swaps:.2f}", f"{swaps_asked:g}"),
        (f"ring, {LARGEST} over {LARGE}: play", f"1/{play_s / alike_s:.0f}", f"1/{LESS}"),
        (f"    the same over planning and play ({alike_s:.4f} s)", f"1/{planned_s / alike_s:.0f}", "-"),
    )
    print(columns(("what", "seen", "asked"), rows, left=1))
    return ratio <= asked and swaps <= swaps_asked and play_s >= LESS * alike_s


def specs(only: str | None) -> dict[str, str]:
    """Specs by what they are of; of schemes, all, or one alone."""
    return {
        "schemes": SPEC.format(arms=_arms(EMULATED, only)),
        "updates": UPDATES.format(arms=_arms(ASYNCHRONOUS, only)),
        "scheduled": UPDATES.format(arms=_arms(SCHEDULED, only)),
        "jobs": JOBS + "".join(PAIR.format(*pair) for pair in PAIRS),
    }


def _arms(every: Mapping[str, Sequence[str]], only: str | None) -> str:
    return "\n".join(
        f'  - {{scheme: "{scheme}", topology: "{network}"}}'
        for network, schemes in every.items()
        for scheme in schemes
        if only in (None, scheme)
    )


def emulate(run: Path, text: str, repeats: int) -> None:
    """Make a run of a spec in the lab netns."""
    source = read(f"repeats: {repeats}\n{text}", "simulator-errors", Path())
    with Experiment.new(source, run, partial(Here, NetnsLab)) as experiment:
        experiment.go(lambda trials: Lines(trials, Console(stderr=True)))


class Cell(NamedTuple):
    """A scheme on a network, as the spec with this number has it: runs of one spec are compared together."""

    scheme: str
    network: str
    spec: int


class Seen(NamedTuple):
    """A trial's GST (s), and how long it took (s)."""

    gst_s: float
    jct_s: float


def errors(runs: Sequence[Path]) -> None:
    """Write the errors of schemes, and print those of each scheme on each network, and those of max-min fair shares."""
    emulated: dict[Cell, list[Seen]] = defaultdict(list)
    queued: dict[Cell, list[Seen]] = defaultdict(list)
    fluid: dict[Cell, list[Seen]] = defaultdict(list)
    cells, seen, played = [], Counter[str](), dict[str, int]()
    for run in runs:
        source = stored.source_of(run, ["lab=simulator", f"repeats={LOTS}"])
        is_new = (spec := source.spec.model_dump_json()) not in played
        number = played.setdefault(spec, len(played))
        if is_new:
            for simulated, engine in ((queued, Queues.over), (fluid, Fluid.over)):
                for (scheme, network), trials in _simulated(source, engine).items():
                    simulated[Cell(scheme, network, number)] = trials
        for scheme, network, name, record in _cells(run):
            said, numbers = _emulated(run, name, record)
            seen[said] += 1
            emulated[Cell(scheme, network, number)] += [numbers] if numbers else []
    by_scheme: dict[str, list[tuple[str, float, int]]] = defaultdict(list)
    for cell, trials in emulated.items():
        if not trials:
            cells.append([cell.scheme, cell.network, "0", *["-"] * 7])
            continue
        error = _error(queued[cell], trials, 0)
        by_scheme[cell.scheme].append((cell.network, error, len(trials)))
        gst = [_text(trials, 0), _text(queued[cell], 0), f"{error:+.1%}", f"{_error(fluid[cell], trials, 0):+.1%}"]
        jct = [_text(trials, 1), _text(queued[cell], 1), f"{_error(queued[cell], trials, 1):+.1%}"]
        cells.append([cell.scheme, cell.network, str(len(trials)), *gst, *jct])
    times = ("emulated", "simulated", "error")
    head = ("scheme", "network", "trials", *times, "with shares", *(f"JCT {time}" for time in times))
    print(columns(head, sorted(cells), left=2))
    print(", ".join(f"{count} {said}" for said, count in seen.items()))
    known: dict[str, Any] = json.loads(PATH.read_text())
    known |= {
        scheme: {
            "median": round(statistics.median(abs(error) for _, error, _ in each), 4),
            "worst": round(max(abs(error) for _, error, _ in each), 4),
            "networks": sorted({network for network, *_ in each}),
            "trials": sum(count for *_, count in each),
        }
        for scheme, each in by_scheme.items()
    }
    PATH.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def _error(simulated: Sequence[Seen], emulated: Sequence[Seen], which: int) -> float:
    """Return by which share the median of simulated GST (0) or JCT (1) is off."""
    here_s, there_s = (statistics.median(seen[which] for seen in trials) for trials in (simulated, emulated))
    return here_s / there_s - 1


def _text(trials: Sequence[Seen], which: int) -> str:
    """Say the median of GST (0) or JCT (1), and from where to where it goes."""
    times_s = [seen[which] for seen in trials]
    spread = f" ({min(times_s):.3f} to {max(times_s):.3f})" if len(times_s) > 1 else ""
    return f"{statistics.median(times_s):.4f} s{spread}"


def _simulated(source: Source, engine: Callable[[Topology], Network]) -> dict[tuple[str, str], list[Seen]]:
    """Return simulated times of a spec's trials, by scheme and network."""
    found: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        with Experiment.new(source, run, partial(Here, partial(Simulator, LIMITS, engine))) as experiment:
            experiment.go(lambda trials: Lines(trials, Console(stderr=True)))
        for scheme, network, name, record in _cells(run):
            settled_s = _settled_s(run, name, record)
            if settled_s is None:  # the iterations of some go around in a circle
                settled_s = float(np.median(_gst_s(run, name, record)[SETTLED:]))
            found[scheme, network].append(Seen(settled_s, record["metrics"]["jct_s"]))
    return found


def _cells(run: Path) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield, of each trial or job of one, the row that its error is in, its network, the name of its samples, and its
    record."""
    for name, record in stored.records(run).items():
        jobs = record.get("jobs") or [record]
        for job in jobs:
            others = [other["scheme"] for other in jobs if other is not job]
            own = name if job is record else f"{name}+{job['job']}"
            yield row_name(job["scheme"], others), record["topology"], own, job


def _emulated(run: Path, name: str, record: Mapping[str, Any]) -> tuple[str, Seen | None]:
    """Say what GST of a trial counts as, and give its times where it counts."""
    verdict = record["fidelity"]["numbers"]["gst"]["verdict"] if record["status"] == "done" else "FAILED"
    settled_s = _settled_s(run, name, record) if verdict == "VALID" else None
    if settled_s is None:
        return ("never settled" if verdict == "VALID" else verdict), None
    return verdict, Seen(settled_s, record["metrics"]["jct_s"])


def _settled_s(run: Path, name: str, record: Mapping[str, Any]) -> float | None:
    """The median GST from the first iterations on that are alike; None where there are none. Of a job, that of
    iterations in which all jobs ran, without the first."""
    gst_s = _gst_s(run, name, record)
    if record["moves"] in BY_UPDATE:
        return float(np.median(gst_s))
    if "+" in name:
        ends_s = [_ends_s(path) for path in (run / "samples").glob(f"{name.partition('+')[0]}+*.parquet")]
        return float(np.median(gst_s[1:][_ends_s(run / "samples" / f"{name}.parquet")[1:] <= min(map(max, ends_s))]))
    for first in range(len(gst_s) - SETTLED + 1):
        some = gst_s[first : first + SETTLED]
        if some.max() <= ALIKE * some.min():
            return float(np.median(gst_s[first:]))
    return None


def _gst_s(run: Path, name: str, record: Mapping[str, Any]) -> NDArray[np.float64]:
    """GST of each iteration; where workers get apart, of the second half of each worker's updates or of iterations,
    without the last."""
    samples = pd.read_parquet(run / "samples" / f"{name}.parquet")
    if record["moves"] in BY_UPDATE:
        last = samples.groupby("rank")["iteration"].transform("max")
        samples = samples[(samples["iteration"] > last // 2) & (samples["iteration"] < last)]
    found: NDArray[np.float64]
    if "update" in samples:
        found = (samples["sum_s"] - samples["ready_s"] - samples["held_s"]).to_numpy()
        return found
    by = samples.groupby("iteration")
    found = (by["sum_s"].max() - by["ready_s"].max()).to_numpy()
    return found


def _ends_s(samples: Path) -> NDArray[np.float64]:
    ends: NDArray[np.float64] = pd.read_parquet(samples).groupby("iteration")["end_s"].max().to_numpy()
    return ends


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--emulate", type=Path, metavar="RUN")
    parser.add_argument("--scheme", help="with --emulate: this one alone")
    parser.add_argument("--repeats", type=int, default=1, help="with --emulate: how often each trial runs; default 1")
    parser.add_argument("--jobs", action="store_true", help="with --emulate: jobs, in place of schemes")
    parser.add_argument("--updates", action="store_true", help="with --emulate: asynchronous schemes")
    parser.add_argument("--scheduled", action="store_true", help="with --emulate: MLfabric's schemes")
    parser.add_argument("--errors", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--play", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.play:
        print(json.dumps(play(*asked.play)))
        return 0
    if asked.runs:
        return 0 if runs() else 1
    if asked.sizes:
        return 0 if sizes() else 1
    if asked.emulate:
        what = next((what for what in ("jobs", "updates", "scheduled") if getattr(asked, what)), "schemes")
        emulate(asked.emulate, specs(asked.scheme)[what], asked.repeats)
        return 0
    if asked.errors:
        errors(asked.errors)
        return 0
    return 0 if engines(ROWS, judge_all=asked.all) else 1


if __name__ == "__main__":
    sys.exit(main())
