"""What a finished trial says: metrics from its samples, its JSON, its Parquet table and its row in results.csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics
from testbed import fidelity
from testbed.deaths import Course, sentence, spoilt_bytes, unasked
from testbed.files import write_bytes, write_through
from testbed.lab.base import Counters
from testbed.monitor import CpuLog
from testbed.phases import Phase, contributions, gst_theory_s, link_bytes, wire_bytes
from testbed.trials import Trial
from workloads.sync.cost import goodput

SCHEMA = 1

COLUMNS = (
    *("trial", "label", "topology", "scheme", "batch", "iterations", "world", "status"),
    *("jct_s", "compute_s", "sync_s", "gst_median_s", "gst_p95_s", "gst_theory_s", "gst_ratio"),
    *("throughput_sps", "wire_bytes", "test_accuracy", "weights_error", "fidelity", "reasons"),
    *("kind", "model", "scale", "wrong_elements", "straggler_wait_s"),
)
SAMPLE_COLUMNS = {
    "start": "start_s",
    "ready": "ready_s",
    "sum": "sum_s",
    "end": "end_s",
    "i": "iteration",
}
"""Names of the workers' fields in the table, where they differ."""


def table(lines: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row for each (rank, iteration), from the workers' ``iteration`` lines; times on the machine's clock."""
    frame = pd.DataFrame(list(lines)).drop(columns="kind").rename(columns=SAMPLE_COLUMNS)
    first = ["rank", "node", "iteration", "start_s", "ready_s", "sum_s", "end_s", "loss"]
    frame["loss"] = frame["loss"].astype(float)  # of profiles it is None: nothing is trained
    return frame[[*first, *(name for name in frame if name not in first)]].sort_values(
        ["rank", "iteration"], ignore_index=True
    )


def save_samples(path: Path, samples: pd.DataFrame) -> None:
    """Write the table as Parquet, times relative to the trial's first start.

    Raises:
        DiskFullError, OutputError: it cannot be written.
    """
    moments = ["start_s", "ready_s", "sum_s", "end_s"]
    relative = samples.assign(**{name: samples[name] - samples["start_s"].min() for name in moments})
    write_through(path, lambda temporary: relative.to_parquet(temporary, index=False))


def measure(
    trial: Trial, samples: pd.DataFrame, phases: Sequence[Phase], sent_bytes: float | None
) -> dict[str, float | None]:
    """The trial's metrics; ``sent_bytes`` is what all processes sent, headers of chunks included, if known."""
    gst = metrics.gst_s(samples, skip=trial.work.warmup)
    median, size = float(gst.median()), gradient_bytes(trial)
    theory = gst_theory_s(phases, trial.spec.links.mtu)[gst.index]
    return {
        "jct_s": metrics.jct_s(samples),
        "compute_s": metrics.compute_s(samples),
        "sync_s": metrics.sync_s(samples),
        "straggler_wait_s": float(np.nanmean(metrics.waits_s(samples, skip=trial.work.warmup))),
        "gst_median_s": median,
        "gst_p95_s": float(gst.quantile(0.95)),
        "gst_theory_s": float(theory.median()),
        "gst_ratio": float((gst / theory).median()),
        "throughput_sps": metrics.throughput_sps(samples, trial.batch * contributions(phases)),
        "wire_bytes": sent_bytes,
        "wire_bytes_theory": wire_bytes(phases) if knows_bytes(trial) else None,
        "algbw_bps": metrics.algbw_bps(size, median),
        "busbw_bps": metrics.busbw_bps(size, median, trial.network.world),
    }


def knows_bytes(trial: Trial) -> bool:
    """Whether the forest's bytes are what goes over the wire; not where a library or a command does something else."""
    library = trial.network.forest.library
    return not trial.command and (library is None or library.exact)


def gradient_bytes(trial: Trial) -> int:
    """Size of one gradient."""
    return 4 * trial.network.floats


def links(
    trial: Trial, phases: Sequence[Phase], counters: Iterable[Counters], probed_bytes: Mapping[int, float]
) -> list[dict[str, Any]]:
    """For each directed link what the kernel counted during training and what theory expects, headers included.

    ``probed_bytes`` is the burst's part of the count, by directed link.
    """
    topology = trial.network.topology
    theory = link_bytes(phases) / goodput(trial.spec.links.mtu)
    known = knows_bytes(trial)
    found = []
    for count in counters:
        link = count.directed_link
        found.append(
            {
                "link": link,
                "from": topology.nodes[topology.tail(link)].name,
                "to": topology.nodes[topology.head(link)].name,
                "rate_bps": topology.links[link // 2].rate_bps,
                "bytes": max(0, round(count.bytes - probed_bytes.get(link, 0.0))),
                "drops": count.drops,
                "theory_bytes": round(theory[link]) if known else None,
            }
        )
    return found


def judge(
    trial: Trial,
    samples: pd.DataFrame,
    probes: Sequence[Mapping[str, Any]],
    expected_probes: int,
    link_counts: Sequence[Mapping[str, Any]],
    cpu: CpuLog,
    aggregators_s: Mapping[str, float],
    course: Course,
) -> dict[str, Any]:
    """The trial's fidelity verdict with all its checks; warm-up iterations are left out.

    ``aggregators_s`` is the CPU time of each node that only adds for others, by name.
    """
    counted = samples[samples["iteration"] >= trial.work.warmup]
    by = counted.groupby("iteration")
    last = by[["ready_s", "sum_s"]].max()
    begin = last["ready_s"] if trial.work.overlap == "none" else by["start_s"].min()  # gradients leave all along
    windows = list(zip(begin, last["sum_s"], strict=True))
    checks = [fidelity.link_rate(probes, expected_probes, goodput(trial.spec.links.mtu))]
    library = trial.network.forest.library
    gst_s = float((last["sum_s"] - last["ready_s"]).median())
    if library and library.polls:
        checks.append(fidelity.polled(library.name, gst_s, trial.gst_theory_s))
    else:
        checks += fidelity.cpu(windows, cpu)
        if trial.work.overlap != "both":  # then the next forward pass is computed meanwhile
            checks.append(fidelity.run_queue(counted))
    if aggregators_s:
        checks.append(fidelity.aggregators(aggregators_s, metrics.sync_s(samples)))
    if trial.compute.mode == "paced":
        checks.append(fidelity.overrun(counted, trial.compute.pace_s))
    total = sum(link["bytes"] for link in link_counts)
    if library and not knows_bytes(trial):
        checks.append(fidelity.wire_unknown(library.name, library.algorithm))
    else:
        theory = sum(link["theory_bytes"] for link in link_counts)
        checks.append(fidelity.wire(total, theory, spoilt_bytes(trial, course)))
    checks.append(fidelity.drops(link_counts))
    if trial.work.overlap == "none":
        checks.append(fidelity.bound(counted, gst_theory_s(course.phases, trial.spec.links.mtu)))
    if course.deaths:
        checks.append(fidelity.workers(sentence(trial, course), unasked(trial, course)))
    return fidelity.verdict(checks)


def row(record: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's JSON as its row in results.csv."""
    flat = {**record, **(record["metrics"] or {}), **(record["accuracy"] or {}), **(record.get("sums") or {})}
    judged = record["fidelity"] or {}
    why = record["error"] if record["status"] == "failed" else fidelity.reasons(judged)
    flat |= {"trial": record["id"], "fidelity": judged.get("verdict"), "reasons": why}
    return {name: flat.get(name) for name in COLUMNS}


def save_csv(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write results.csv: one row a trial, in the order given.

    Raises:
        DiskFullError, OutputError: it cannot be written.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row(record) for record in records)
    write_bytes(path, text.getvalue().encode())
