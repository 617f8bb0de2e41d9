"""A made-up run directory in the format of a real one: three arms, two batches, one trial INVALID and one failed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.analysis import metrics

ARMS = (
    # label, topology, scheme, theory's GST (s)
    ("PS on fat-tree", "star(hosts=9)", "ps", 0.1948),
    ("Ring on fat-tree", "star(hosts=9)", "ring", 0.1948),
    ("BML on BCube", "bcube(n=3,k=2)", "bml", 0.0974),
)
BATCHES = {16: 0.3, 64: 0.9}
WORLD, ITERATIONS, WARMUP = 9, 20, 1
GRADIENT_BYTES = 4 * 3_274_634
INVALID = "Ring on fat-tree", 64
FAILED = "PS on fat-tree", 64
PACKAGES = {"numpy": "2.4.6", "torch": "2.13.0+cpu", "pandas": "3.1.1"}


@pytest.fixture(scope="session")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run as ``testbed run`` leaves it, without its report; not to be changed."""
    return write_run(tmp_path_factory.mktemp("made") / "quickstart")


@pytest.fixture
def run_dir(quickstart: Path, tmp_path: Path) -> Path:
    """The same, for a test to change."""
    return copytree(quickstart, tmp_path / "quickstart")


@pytest.fixture
def edit() -> Callable[[Path, Callable[[dict[str, Any]], object]], None]:
    """Change one JSON file of a run in place."""

    def change(path: Path, how: Callable[[dict[str, Any]], object]) -> None:
        value = json.loads(path.read_text())
        how(value)
        path.write_text(json.dumps(value))

    return change


@pytest.fixture(scope="session")
def whole_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep over rates with three repeats, in which one trial is INVALID and one failed at each setting; not to be
    changed."""
    return write_run(tmp_path_factory.mktemp("made") / "swept", 3, (50, 100, 200))


@pytest.fixture
def swept(whole_sweep: Path, tmp_path: Path) -> Path:
    """The same, for a test to change."""
    return copytree(whole_sweep, tmp_path / "swept")


def write_run(directory: Path, repeats: int = 1, rates_mbps: Sequence[int | None] = (None,)) -> Path:
    """Make the run directory, of a sweep over rates if they are given; the same bytes each time."""
    for name in ("trials", "samples", "logs"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "spec.yaml").write_text("name: quickstart\nseed: 1  # <b>as given</b>\n")
    (directory / "resolved.json").write_text(json.dumps(_resolved() | {"repeats": repeats}))
    (directory / "env.json").write_text(json.dumps(_environment()))
    rng = np.random.default_rng(1)
    made = itertools.product(range(repeats), rates_mbps, _trials())
    for minute, (repeat, rate_mbps, (label, topology, scheme, theory_s, batch)) in enumerate(made):
        theory_s *= 200 / (rate_mbps or 200)
        trial_id = f"{scheme}-b{batch}" + (f"-{rate_mbps}" if rate_mbps else "") + (f"-r{repeat + 1}" * (repeats > 1))
        samples = _samples(rng, theory_s, batch)
        trial = _trial(trial_id, label, topology, scheme, batch, samples, theory_s) | {"repeat": repeat}
        if rate_mbps:
            trial |= {"point": {"links.rate": rate_mbps * 1_000_000}, "at": f"rate={rate_mbps} Mbit/s"}
        trial["started"] = f"2026-11-21T09:{minute // 60:02d}:{minute % 60:02d}+00:00"
        if (label, batch) == FAILED:
            _fail(trial)
        else:
            samples.to_parquet(directory / "samples" / f"{trial_id}.parquet")
        (directory / "trials" / f"{trial_id}.json").write_text(json.dumps(trial))
    return directory


SCHEDULED = "ring-b16", "bml-b16"
"""Trials of a made-up run that :func:`schedule` changes."""


@pytest.fixture
def scheduled(run_dir: Path) -> Path:
    """The made-up run, in which a scheduler planned the transfers of two trials; for a test to change."""
    return schedule(run_dir)


def schedule(run_dir: Path) -> Path:
    """Let two trials of a run be of the kind whose transfers are planned. Every tenth update was dropped, and every
    fourth of the others was summed; each transfer took 0.1 s, and every fifth half as long again."""
    (run_dir / "transfers").mkdir()
    for name in SCHEDULED:
        path = run_dir / "trials" / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"moves": "fabric"}))
        path = run_dir / "samples" / f"{name}.parquet"
        samples = pd.read_parquet(path)
        number = np.arange(len(samples))
        fate = np.where(number % 10 == 9, 2, np.where(number % 4 == 3, 1, 0))
        told = {"update": number, "version": number, "staleness": number % 7, "fate": fate, "held_s": 0.0}
        samples = samples.assign(**told)
        samples.to_parquet(path)
        start_s = samples["ready_s"].sort_values().to_numpy()
        moments = {"start_s": start_s, "end_s": start_s + 0.1, "arrived_s": start_s + np.where(number % 5, 0.1, 0.15)}
        ends = {
            "from": samples["node"],
            "to": 8,
            "purpose": fate % 2,
            "members": 1,
            "size_bytes": GRADIENT_BYTES,
            "shard": 0,
        }
        table = pd.DataFrame(ends | moments).astype({"size_bytes": float})
        table.to_parquet(run_dir / "transfers" / f"{name}.parquet", index=False)
    return run_dir


def _trials() -> Iterator[tuple[str, str, str, float, int]]:
    for batch in BATCHES:
        for arm in ARMS:
            yield *arm, batch


def _resolved() -> dict[str, Any]:
    arms = [{"label": label, "topology": topology, "scheme": scheme} for label, topology, scheme, _ in ARMS]
    workload = {"kind": "train", "model": "lenet5", "batch": list(BATCHES), "iterations": ITERATIONS, "warmup": WARMUP}
    return {"schema": 1, "name": "quickstart", "seed": 1, "workload": workload, "arms": arms}


def _environment() -> dict[str, Any]:
    return {
        "schema": 1,
        "kernel": "6.18.5",
        "cpu": {"model": "AMD EPYC", "cores": 2},
        "memory_bytes": 8 * 2**30,
        "sysctls": {"net.ipv4.tcp_rmem": "4096 131072 6291456"},
        "congestion_control": "cubic",
        "packages": PACKAGES,
        "python": "3.11.2",
        "git": {"commit": "8286cf1", "dirty": False},
        "seed": 1,
        "lab": {
            "ps-b16": {
                "nodes": {"host": 9},
                "mtu": 1500,
                "shapes": [{"rate_bps": 200_000_000, "qdisc": "htb, one class, bfifo leaf"}],
                "sysctls": {"ipv4/ip_forward": {"0": 9, "1": 1}},
                "congestion_controls": ["cubic", "reno"],
            }
        },
    }


def _samples(rng: np.random.Generator, theory_s: float, batch: int) -> pd.DataFrame:
    """Nine paced workers whose synchronisation takes 0 to 3 % over theory; losses depend on the batch only."""
    ranks = np.arange(WORLD)
    iterations = []  # arrays, for a table of each would take most of the time
    begin = 0.0
    for i in range(ITERATIONS):
        ready = begin + BATCHES[batch] + rng.uniform(0, 0.004, WORLD)
        total = ready.max() + theory_s * (1 + rng.gamma(2, 0.006)) - 0.001 * ranks
        loss = 2.1 * np.exp(-i * (1 + batch / 64) / 7) + 0.2 + 0.01 * np.sin(ranks + i)
        iterations.append((ranks, ranks, np.full(WORLD, i), np.full(WORLD, begin), ready, total, total + 0.004, loss))
        begin = total.max() + 0.004
    names = ("rank", "node", "iteration", "start_s", "ready_s", "sum_s", "end_s", "loss")
    table = dict(zip(names, map(np.concatenate, zip(*iterations, strict=True)), strict=True))
    return pd.DataFrame(table).assign(compute_s=0.1, overrun_s=0.0, cpu_s=0.05, wait_s=0.001)


def _trial(
    trial_id: str, label: str, topology: str, scheme: str, batch: int, samples: pd.DataFrame, theory_s: float
) -> dict[str, Any]:
    late = (label, batch) == INVALID
    busy = {"name": "cpu", "value": 0.97 if late else 0.41, "limit": 0.9, "unit": "", "ok": not late}
    rate = {"name": "link rate", "value": 0.991, "limit": 0.95, "unit": "", "ok": True, "detail": "slowest: h3 port 0"}
    return {
        "schema": 1,
        "id": trial_id,
        "label": label,
        "topology": topology,
        "scheme": scheme,
        "batch": batch,
        "iterations": ITERATIONS,
        "world": WORLD,
        "status": "done",
        "error": None,
        "metrics": _metrics(samples, batch, theory_s),
        "accuracy": {
            "test_accuracy": 0.931,
            "test_loss": 0.24,
            "weights_error": 3.1e-7,
            "weights_equal": True,
            "reference": "single-process SGD",
            "curve": [[i, 0.931 - 0.8 * 0.8**i] for i in range(0, ITERATIONS, 2)],
        },
        "loss": [2.3, 0.33],
        "fidelity": {
            "verdict": "INVALID" if late else "VALID",
            "checks": [busy | {"detail": "share of both cores in use while synchronising"}, rate],
        },
        "links": _links(scheme),
        "links_settings": {"mtu": 1500, "rate_bps": 200_000_000},
        "duration_s": 14.5,
    }


def _metrics(samples: pd.DataFrame, batch: int, theory_s: float) -> dict[str, float]:
    gst = metrics.gst_s(samples, WARMUP)
    median = float(gst.median())
    wire = 2 * (WORLD - 1) * GRADIENT_BYTES * ITERATIONS
    return {
        "jct_s": metrics.jct_s(samples),
        "compute_s": metrics.compute_s(samples),
        "sync_s": metrics.sync_s(samples),
        "gst_median_s": median,
        "gst_p95_s": float(gst.quantile(0.95)),
        "gst_theory_s": theory_s,
        "gst_ratio": median / theory_s,
        "throughput_sps": metrics.throughput_sps(samples, batch * len(samples)),
        "wire_bytes": round(wire * 1.048),
        "wire_bytes_theory": wire * 1.0456,
        "algbw_bps": metrics.algbw_bps(GRADIENT_BYTES, median),
        "busbw_bps": metrics.busbw_bps(GRADIENT_BYTES, median, WORLD),
    }


def _fail(trial: dict[str, Any]) -> None:
    """What a trial holds when one of its workers died."""
    trial.update(status="failed", error="h3: worker ended with status -9\n  last lines of its log: <none>")
    trial.update(metrics={}, accuracy=None, loss=None, fidelity=None, links=[])


def _links(scheme: str) -> list[dict[str, Any]]:
    """Every directed link, with nearly the bytes that theory says."""
    hosts = range(9)
    if scheme == "bml":
        cables = [(f"h{host}", f"s{level}.{_group(host, level)}") for host in hosts for level in range(2)]
    else:
        cables = [(f"h{host}", "s0") for host in hosts]
    theory = 2 * 8 * GRADIENT_BYTES * ITERATIONS * 1.0456 / len(cables)
    links = []
    for cable, ends in enumerate(cables):
        for direction, (source, target) in enumerate((ends, ends[::-1])):
            link = 2 * cable + direction
            links.append(
                {
                    "link": link,
                    "from": source,
                    "to": target,
                    "rate_bps": 200_000_000,
                    "bytes": int(theory * (1.001 + 0.0005 * (link % 5))),
                    "drops": 0,
                    "theory_bytes": theory,
                }
            )
    return links


def _group(host: int, level: int) -> int:
    """The BCube(3,2) switch at ``level`` that a host hangs on: its number without that digit."""
    return host // 3 if level == 0 else host % 3
