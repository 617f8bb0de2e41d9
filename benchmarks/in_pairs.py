"""Trials with something and without it, in pairs, in an order that alternates: what benchmarks of costs share."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ending
from rich.console import Console

from testbed.base.columns import columns
from testbed.experiment.progress import Lines
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.netns import NetnsLab
from testbed.spec import read

PAIRS = 10
CORES = 2
REACH = 1.02
SPEC = """
name: cost
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: vgg19, scale: 200, batch: 32, iterations: 30, compute: none}
arms: [{topology: "bcube(n=3,k=2)", scheme: bml}]
retries: 0
quiet: 0 s
"""

Found = Mapping[bool, Sequence[Mapping[str, Any]]]
"""Records of trials, with and without."""


def trial() -> dict[str, Any]:
    """The record of one trial of nine workers that fill 18 links."""
    with tempfile.TemporaryDirectory() as folder:
        source = read(SPEC, "cost", Path())
        with Experiment.new(source, Path(folder) / "run", partial(Here, NetnsLab)) as experiment:
            record = experiment.go(lambda trials: Lines(trials, Console(stderr=True, quiet=True))).records[0]
    ending.with_failed([record])
    return record


def measured(what: str, arguments: Sequence[str], measure: Callable[[bool], dict[str, Any]]) -> Found:
    """As many pairs as the command line asks for; ``what`` is its description."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    pairs = parser.parse_args(arguments).pairs
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    found: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for pair in range(pairs):
        for having in (True, False) if pair % 2 else (False, True):
            found[having].append(measure(having))
    return found


def told(found: Found, heads: tuple[str, str], more: Mapping[str, str] | None = None) -> int:
    """Print the table, with ``heads`` for JCT with and without; 0 when it costs no more than the reach."""
    jct_s = {having: [one["metrics"]["jct_s"] for one in records] for having, records in found.items()}
    ratios = [with_s / without_s for with_s, without_s in zip(jct_s[True], jct_s[False], strict=True)]
    ratio, besides = statistics.median(ratios), more or {}
    medians = (f"{statistics.median(jct_s[having]):.3f} s" for having in (True, False))
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    said = "reached" if ratio <= REACH else "NOT REACHED"
    names = ("pairs", *heads, *besides, "ratio, median", "all ratios", f"reach: {REACH}")
    print(columns(names, [(str(len(ratios)), *medians, *besides.values(), f"{ratio:.4f}", spread, said)]))
    return 0 if ratio <= REACH else 1
