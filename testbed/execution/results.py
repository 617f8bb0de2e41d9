"""Results of a finished trial: metrics from its samples, its JSON, its Parquet tables and its row in results.csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from testbed import fidelity
from testbed.analysis import metrics
from testbed.analysis.jobs import JOB, singly
from testbed.analysis.record.columns import COLUMNS, OF_JOBS
from testbed.analysis.record.tables import in_lines, moments
from testbed.analysis.tables.parquet import packed
from testbed.analysis.verdicts import NUMBERS, WITHOUT_CERTIFICATE, numbers_of, verdict_of
from testbed.evidence.bounds import Bounds
from testbed.files.writing import write_bytes
from testbed.lab.measurements import Queues, Waited
from testbed.trial.job import Job
from testbed.trial.phases import Phase, contributions, gst_theory_s, wire_bytes
from testbed.workloads.kinds.evidence import Exchanged
from testbed.workloads.kinds.transfers import Carried

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which a formula begins."""
_SAMPLE_COLUMNS = {field.more["line"]: field.key for field in in_lines()}
"""Columns of samples, by their names in the lines of workers."""


def table(lines: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row for each (rank, iteration), from the workers' ``iteration`` lines; times on the machine's clock."""
    frame = pd.DataFrame(list(lines)).drop(columns="kind").rename(columns=_SAMPLE_COLUMNS)
    first = ["rank", "node", "iteration", "start_s", "ready_s", "sum_s", "end_s", "loss"]
    frame["loss"] = frame["loss"].astype(float)  # of profiles it is None: nothing is trained
    return frame[[*first, *(name for name in frame if name not in first)]].sort_values(
        ["rank", "iteration"], ignore_index=True
    )


def save_samples(path: Path, samples: pd.DataFrame, folder: int | None = None) -> None:
    """Write the table as Parquet, times relative to the trial's first start; ``folder`` as in :func:`write_bytes`.

    Raises:
        DiskFullError, OutputError: it cannot be written.
    """
    relative = samples.assign(**{name: samples[name] - samples["start_s"].min() for name in moments(samples.columns)})
    write_bytes(path, packed(relative), folder=folder)


def measure(
    job: Job, samples: pd.DataFrame, phases: Sequence[Phase], bounds: Bounds | None, sent_bytes: float | None
) -> dict[str, float | None]:
    """Return the job's metrics; ``sent_bytes`` are the bytes that all processes sent, headers of chunks included, if
    known."""
    gst = metrics.gst_s(samples, skip=job.work.warmup)
    each_s = metrics.iterations_s(samples, skip=job.work.warmup)
    median, size = float(gst.median()), job.gradient_bytes
    # Where they overlap, some bytes left before GST began.
    is_whole = job.kind.own_samples.measures.defines_bandwidth and job.work.overlap == "none"
    trained = contributions(phases) if job.kind.sums_together else len(samples)
    # Where workers do not wait for each other, one may do more iterations than the spec says.
    theory = gst_theory_s(phases).reindex(gst.index, method="ffill")
    return {
        "jct_s": metrics.jct_s(samples),
        "compute_s": metrics.compute_s(samples),
        "sync_s": metrics.sync_s(samples),
        "straggler_wait_s": float(np.nanmean(metrics.waits_s(samples, skip=job.work.warmup))),
        "gst_median_s": median,
        "gst_p95_s": float(gst.quantile(0.95)),
        "gst_p99_s": float(gst.quantile(0.99)),
        "gst_theory_s": float(theory.median()),
        "gst_ratio": _over_bound(gst, theory if bounds is None else bounds.gst_s),
        "iteration_median_s": float(each_s.median()),
        "iteration_p99_s": float(each_s.quantile(0.99)),
        "throughput_sps": metrics.throughput_sps(samples, job.batch * trained),
        "wire_bytes": sent_bytes,
        "wire_bytes_theory": wire_bytes(phases) if job.knows_bytes else None,
        "algbw_bps": metrics.algbw_bps(size, median) if is_whole else None,
        "busbw_bps": metrics.busbw_bps(size, median, job.world) if is_whole else None,
        **staleness(metrics.staleness(samples, skip=job.work.warmup)),
    }


def _over_bound(gst_s: pd.Series[float], bound_s: pd.Series[float]) -> float | None:
    """Median GST over the median of the least that it can be; None where nothing bounds most iterations."""
    least_s = float(bound_s.loc[gst_s.index].median())
    return float(gst_s.median()) / least_s if least_s > 0 else None


def staleness(updates: pd.Series[int] | None) -> dict[str, float | None]:
    """Return how stale updates were: the median, the 95th percentile and the most; each is None in a synchronous
    scheme, which has none."""
    if updates is None:
        return dict.fromkeys(("staleness_median", "staleness_p95", "staleness_max"))
    return {
        "staleness_median": float(updates.median()),
        "staleness_p95": float(updates.quantile(0.95)),
        "staleness_max": float(updates.max()),
    }


def burst(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a process's ``probe`` line that the trial's JSON keeps."""
    return {key: line[key] for key in ("name", "port_address", "rate_bps", "asked_bps")}


def pairs(job: Job, sent: Iterable[Exchanged]) -> list[dict[str, Any]]:
    """List the bytes that each process of a job has sent another, by the names of their nodes."""
    nodes = job.plan.nodes
    return [
        {"from": nodes[one.src], "to": nodes[one.dst]}
        | {"bytes": one.bytes, "theory_bytes": one.theory_bytes, "mp_bytes": one.mp_bytes}
        for one in sent
    ]


def attempt_count(record: Mapping[str, Any]) -> int:
    """Return how often a trial was measured, as its record has it."""
    return len(record.get("attempts") or ()) + 1


def row(record: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a trial's JSON into its row in results.csv."""
    flat = {**record, **(record["metrics"] or {}), **(record["accuracy"] or {}), **(record.get("sums") or {})}
    judged = record["fidelity"] or {}
    why = record["error"] if record["status"] == "failed" else fidelity.reasons(judged)
    flat |= {
        "trial": record["id"],
        "fidelity": judged.get("verdict"),
        "reasons": why,
        "attempts": attempt_count(record),
    }
    numbers = numbers_of(judged)
    for name in (*NUMBERS, *WITHOUT_CERTIFICATE):
        if number := verdict_of(numbers, name):
            flat |= {f"{name}_verdict": number.verdict, f"{name}_error": number.error}
    of_job = {name: flat.get(name) for name in OF_JOBS} if JOB in record else {}
    return {name: flat.get(name) for name in COLUMNS} | of_job | dict(record.get("point", {}))


def _no_formula(value: object) -> object:
    """Put an apostrophe before text that a spreadsheet would take for a formula, which makes it text there."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def save_csv(path: Path, records: Iterable[Mapping[str, Any]], folder: int | None = None) -> None:
    """Write results.csv: one row a trial, or a job where jobs share a network, in the order given, and nothing in it
    that a spreadsheet would compute; ``folder`` as in :func:`write_bytes`.

    Raises:
        DiskFullError, OutputError: it cannot be written.
    """
    rows = [row(record) for record in singly(records)]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, dict.fromkeys(chain(COLUMNS, *rows)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _no_formula(value) for name, value in one.items()} for one in rows)
    write_bytes(path, text.getvalue().encode(), folder=folder)


_OF_QUEUES = ("link", "most_bytes", "drops", "marks")


def queues_table(seen: Queues | None, start_s: float, end_s: float) -> pd.DataFrame | None:
    """Return a row for each window and directed link where something waited, or was dropped or marked, by time and
    link; None where the lab cannot tell.

    Times are relative to ``start_s``. Windows that begin before it are left out, since bursts that measure links are in
    them, and so are those from ``end_s`` on.
    """
    if seen is None:
        return None
    found = pd.DataFrame(list(seen.windows), columns=list(Waited._fields)).rename(columns={"directed_link": "link"})
    found = found.astype({name: int if name in _OF_QUEUES else float for name in found})  # also where there is no row
    found = found[(found["start_s"] >= start_s) & (found["start_s"] < end_s)].reset_index(drop=True)
    lasts_s = found["window_s"].clip(upper=end_s - found["start_s"])
    return found.assign(start_s=found["start_s"] - start_s, window_s=lasts_s)


def queues_record(seen: Queues | None) -> dict[str, Any] | None:
    """Return what the trial's JSON says of the readings; None where the lab cannot read queues."""
    if seen is None:
        return None
    return {"readings": seen.readings, "cost_s": seen.cost_s, "problem": seen.problem}


_OF_TRANSFERS = ("from", "to", "purpose", "members", "shard")
_MOMENTS = ("start_s", "end_s", "arrived_s")
_NAMES = {"source": "from", "target": "to"}


def transfers_table(told: Sequence[Carried] | None, start_s: float) -> pd.DataFrame | None:
    """Return a row for each transfer, in the order in which they were to begin, with times relative to ``start_s``;
    None for a kind that plans none."""
    if told is None:
        return None
    found = pd.DataFrame(list(told), columns=list(Carried._fields)).rename(columns=_NAMES)
    found = found.astype(
        {name: int if name in _OF_TRANSFERS else float for name in found}
    )  # also where nobody told, or no row
    found = found.assign(**{name: found[name] - start_s for name in _MOMENTS})
    return found.sort_values(["start_s", "from", "to"], ignore_index=True)
