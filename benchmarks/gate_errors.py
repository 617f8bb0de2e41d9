"""How often the gate is wrong: identical runs called worse, and a slowdown of 5 % not called worse.

    python benchmarks/gate_errors.py          # three minutes: measures, then compares
    python benchmarks/gate_errors.py RUN      # compares what an earlier one measured, such as runs/gate-errors

Two arms run in turn, the same ring of three hosts, in one of which the rate of one host's link is cut by 5 %. From the
recorded trials, 200 comparisons each are drawn:

- *identical*: the trials of each arm are dealt to two sides at random, the gate's default number of repeats to each.
  No trial is on both sides, so the sides differ as two runs do.
- *5 % slower*: BASE draws from the first arm, NEW from the second, with replacement, as new trials would scatter.

Each is judged as ``testbed run --baseline`` does it, all three metrics at once: what is suspicious is drawn once more,
and only that counts. Reached when at most 1 % of the first and at least 95 % of the second are called worse.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from testbed.analysis.cell import Cell
from testbed.analysis.comparing.compare import REPEATS, THRESHOLDS, Comparison, compare
from testbed.analysis.comparing.measured import Measured, Side, read
from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read as read_spec

COMPARISONS = 200
POOL = 24
ALARMS, FOUND = 0.01, 0.95
BASE, SLOWER = "base", "5 % slower"
SPEC = f"""
name: gate-errors
links: {{rate: 2 Gbit/s}}
workload: {{kind: profile, model: lenet5, batch: 16, iterations: 12, scale: 10, compute: none}}
arms:
  - {{label: {BASE}, topology: star(hosts=3), scheme: ring}}
  - label: {SLOWER}
    topology: star(hosts=3)
    scheme: ring
    perturb: [{{kind: rate, links: h0, share: 95 %}}]
repeats: {POOL}
"""


def measure() -> Path:
    """Run the experiment; its directory."""
    source = read_spec(SPEC, "gate-errors", Path())
    with Experiment.new(source, None, partial(Here, NetnsLab)) as experiment:
        return experiment.go(lambda trials: Lines(trials, Console(stderr=True))).path


def correlation(run: Run, label: str) -> float:
    """Intraclass correlation of GST: the share of its variance that lies between trials (Shrout and Fleiss 1979)."""
    gst = np.array([one.gst_s for one in run.trials if one.label == label and one.gst_s is not None])
    count = gst.shape[1]
    between, within = count * gst.mean(axis=1).var(ddof=1), gst.var(axis=1, ddof=1).mean()
    return float((between - within) / (between + (count - 1) * within))


def drawn(whole: Side, name: str, pools: Mapping[str, Sequence[Measured]]) -> Side:
    """A side with these trials for each arm."""
    trials = [
        replace(one, cell=Cell(label, one.cell.batch), repeat=i)
        for label, pool in pools.items()
        for i, one in enumerate(pool)
    ]
    arms = dict.fromkeys(pools, whole.arms[BASE])
    return replace(whole, name=name, path=Path(name), arms=arms, trials=tuple(trials))


def deal(generator: np.random.Generator, pool: Sequence[Measured]) -> tuple[list[Measured], list[Measured]]:
    """Two sides of REPEATS trials each, none on both."""
    order = generator.permutation(len(pool))
    return [pool[i] for i in order[:REPEATS]], [pool[i] for i in order[REPEATS : 2 * REPEATS]]


def again(found: Comparison, base: Side, new: Side, second: Side) -> Comparison:
    """The comparison after suspicious cells were measured once more."""
    if not found.suspicious:
        return found
    kept = [one for one in new.trials if one.cell not in found.suspicious]
    measured = [one for one in second.trials if one.cell in found.suspicious]
    return compare(base, replace(new, trials=(*kept, *measured), again=frozenset(found.suspicious)))


def identical(whole: Side, pools: dict[str, list[Measured]]) -> tuple[int, int]:
    """How many of the comparisons call something worse: at once, and after what was suspicious was measured again."""
    generator, first, last = np.random.default_rng(1), 0, 0
    for _ in range(COMPARISONS):
        dealt = {label: deal(generator, pool) for label, pool in pools.items()}
        sides = [{label: two[i] for label, two in dealt.items()} for i in range(2)]
        base, new = drawn(whole, "a", sides[0]), drawn(whole, "b", sides[1])
        second = drawn(whole, "b", {label: deal(generator, pool)[1] for label, pool in pools.items()})
        found = compare(base, new)
        first += bool(found.of("worse"))
        last += bool(again(found, base, new, second).of("worse"))
    return first, last


def slower(whole: Side, pools: dict[str, list[Measured]]) -> tuple[dict[str, int], dict[str, int]]:
    """By metric, how many of the comparisons call it worse, at once and after measuring again."""
    generator = np.random.default_rng(2)
    first, last = dict.fromkeys(THRESHOLDS, 0), dict.fromkeys(THRESHOLDS, 0)
    for _ in range(COMPARISONS):
        base, new, second = (
            drawn(whole, name, {BASE: [pools[label][i] for i in generator.integers(0, len(pools[label]), REPEATS)]})
            for name, label in (("a", BASE), ("b", SLOWER), ("b", SLOWER))
        )
        found = compare(base, new)
        for count, one in ((first, found), (last, again(found, base, new, second))):
            for judged in one.of("worse"):
                count[judged.metric] += 1
    return first, last


def main() -> int:
    """Print both shares beside what to reach; 0 when they are."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else measure()
    run, whole = load(path), read(path)
    pools = {label: [one for one in whole.trials if one.cell.label == label] for label in (BASE, SLOWER)}
    valid = {label: [one for one in pool if all(map(one.valid_in, THRESHOLDS))] for label, pool in pools.items()}
    for label, pool in valid.items():
        gst = [one.values["gst"] for one in pool]
        print(
            f"{label}: {len(pool)} of {len(pools[label])} trials VALID, median GST {1e3 * np.median(gst):.2f} ms, "
            f"trials scatter by {np.std(gst, ddof=1) / np.mean(gst):.2%}, intraclass correlation of iterations "
            f"{correlation(run, label):.2f}"
        )
    if min(map(len, valid.values())) < 2 * REPEATS:
        print(f"too few VALID trials: {2 * REPEATS} of each arm are needed; measure again on an idle machine")
        return 1
    alarms, (first, last) = identical(whole, valid), slower(whole, valid)
    rows = [["identical", "any", f"{alarms[0]}", f"{alarms[1]}", f"at most {ALARMS:.0%}"]]
    rows += [[SLOWER, one, f"{first[one]}", f"{last[one]}", f"at least {FOUND:.0%}"] for one in THRESHOLDS]
    header = ("", "metric", f"called worse of {COMPARISONS}", "after measuring again", "reach")
    print(f"\n{REPEATS} repeats a side\n{columns(header, rows, left=2)}")
    reached = alarms[1] <= ALARMS * COMPARISONS and last["gst"] >= FOUND * COMPARISONS
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
