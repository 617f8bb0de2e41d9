"""A trial's timeline as Chrome trace JSON, which Perfetto and ``chrome://tracing`` open.

Each rank is a process of the trace. Its first row has iterations, with computing, waiting for the sum and the
optimiser's step in them. The rows below have its collectives, or the layers of its gradient; those that overlap are in
different rows. Transfers between nodes, and what was done to the trial, are processes of their own.

The format: "Trace Event Format", Google, 2016. Complete events (``X``) of one row are within each other or apart.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Any, NamedTuple

import pandas as pd

from testbed.analysis.recorded import Trial
from testbed.base.errors import OutputError
from testbed.workloads.kinds.transfers import Purpose

MOST_EVENTS = 1_000_000
"""The most events of a file; Perfetto opens that many in a few seconds."""
PHASES = (("compute", "ready_s"), ("wait for the sum", "sum_s"), ("step", "end_s"))
"""Phases of an iteration, each with the moment at which it ends."""
ITERATIONS = "iterations"
TOLD = ("loss", "exposed_s", "hidden_s", "staleness")
"""Columns of samples that an iteration's event has."""
US = 1e6
"""Microseconds, the format's unit, in a second."""


class Span(NamedTuple):
    """Something that takes time: parts of it are spans within it."""

    name: str
    category: str
    start_s: float
    end_s: float
    told: Mapping[str, Any] = {}
    parts: Sequence[Any] = ()


@dataclass
class _Process:
    """A process of the trace: its name, and spans by row."""

    name: str
    rows: dict[str, list[Span]] = field(default_factory=dict)


def trace(trial: Trial) -> dict[str, Any]:
    """Make the trace of a trial.

    Raises:
        OutputError: the trial left no table of what its processes did; one is damaged; or the trace would be too large.
    """
    processes = [*_ranks(trial), *_transfers(trial)]
    if not processes:
        raise OutputError(
            f"{trial.id} left nothing to draw: neither samples nor collectives nor transfers",
            fix="name a trial whose workers told of iterations, or an arm with a scheme",
        )
    spans = [span for one in processes for row in one.rows.values() for span in row]
    moments = [event.begun_s for event in trial.events if event.begun_s is not None]
    events = sum(1 + len(span.parts) for span in spans) + len(moments)
    if events > MOST_EVENTS:
        raise OutputError(
            f"{trial.id} has {events:,} events, and a trace may have {MOST_EVENTS:,}", fix="run fewer iterations"
        )
    first_s = min(0.0, *moments, *(span.start_s for span in spans))
    found = [event for pid, one in enumerate(processes) for event in _written(pid, one, first_s)]
    found += _marks(trial, len(processes), first_s)
    told = {"trial": trial.id, "arm": trial.label, "topology": trial.topology, "scheme": trial.scheme}
    return {"traceEvents": found, "displayTimeUnit": "ms", "otherData": told}


def _ranks(trial: Trial) -> Iterator[_Process]:
    samples, calls = trial.samples, trial.calls
    ranks = {int(rank) for table in (samples, calls) if table is not None for rank in table["rank"].unique()}
    for rank in sorted(ranks):
        one = _Process(f"rank {rank}")
        if samples is not None:
            own = samples[samples["rank"] == rank]
            one.rows[ITERATIONS] = list(_iterations(own))
            one.rows |= _lanes("layers", _layers(own))
        if calls is not None:
            one.rows |= _lanes("collectives", _collectives(trial, calls[calls["rank"] == rank]))
        yield one


def _iterations(samples: pd.DataFrame) -> Iterator[Span]:
    """Yield a rank's iterations. A script's rank may have its first gradient before the first iteration begins."""
    end_s = -float("inf")
    for row in samples.sort_values("iteration").to_dict("records"):
        start_s = max(end_s, row["start_s"])
        end_s = max(start_s, row["end_s"])
        parts, at_s = [], start_s
        for name, moment in PHASES:
            until_s = min(max(at_s, row[moment]), end_s)
            parts.append(Span(name, "phase", at_s, until_s))
            at_s = until_s
        told: dict[str, Any] = {name: row[name] for name in TOLD if name in row}
        yield Span(f"iteration {int(row['iteration'])}", "iteration", start_s, end_s, told, parts)


def _layers(samples: pd.DataFrame) -> Iterator[Span]:
    """Yield the layers of a rank's gradient: from when each was ready, its bytes gone to the kernel, to all of its
    weights back."""
    layers = takewhile(lambda layer: f"ready_s_{layer}" in samples, count(1))
    for layer in layers:
        names = [f"{what}_s_{layer}" for what in ("ready", "pushed", "back")]
        if not set(names) <= set(samples):
            continue
        for iteration, ready_s, pushed_s, back_s in samples[["iteration", *names]].itertuples(index=False):
            if ready_s <= pushed_s <= back_s:
                parts = [Span("until its last byte was sent", "layer", ready_s, pushed_s)]
                yield Span(f"layer {layer}", "layer", ready_s, back_s, {"iteration": int(iteration)}, parts)


def _collectives(trial: Trial, calls: pd.DataFrame) -> Iterator[Span]:
    """Yield a rank's collectives: until the first chunk was there, and from then to the last byte."""
    for row in calls.to_dict("records"):
        if row["kind"] >= len(trial.collectives):
            raise OutputError(
                f"{trial.id}: its table of collectives names a kind {row['kind']}, which its JSON does not have",
                fix="remove the table from collectives/, or run the trial again",
            )
        kind = trial.collectives[row["kind"]]
        asked_s, came_s, done_s = row["asked_s"], row["came_s"], row["done_s"]
        parts = []
        if asked_s <= came_s <= done_s:  # false for NaN
            parts = [Span("until the first chunk", "chunk", asked_s, came_s), Span("chunks", "chunk", came_s, done_s)]
        told = {name: getattr(kind, name) for name in ("dtype", "bytes", "by", "ranks")}
        told |= {name: row[name] for name in ("group", "sequence", "held_s")}
        yield Span(kind.op, "collective", asked_s, done_s, told, parts)


def _transfers(trial: Trial) -> Iterator[_Process]:
    """Yield the transfers that were planned one by one, by the node that sends."""
    if trial.transfers is None:
        return
    for source, own in trial.transfers.groupby("from"):
        spans = []
        for row in own.to_dict("records"):
            end_s = row["arrived_s"] if row["arrived_s"] >= row["start_s"] else row["end_s"]
            told = {name: row[name] for name in ("size_bytes", "members", "shard")} | {"planned_end_s": row["end_s"]}
            name = f"{Purpose(row['purpose']).text} to node {row['to']}"
            spans.append(Span(name, "transfer", row["start_s"], end_s, told))
        yield _Process(f"transfers of node {source}", _lanes("transfers", spans))


def _lanes(name: str, spans: Iterable[Span]) -> dict[str, list[Span]]:
    """Divide spans into as few rows as there are at a time."""
    rows: list[list[Span]] = []
    free: list[tuple[float, int]] = []
    for span in sorted(spans, key=lambda one: one.start_s):
        if free and free[0][0] <= span.start_s:
            _, row = heapq.heappop(free)
        else:
            row = len(rows)
            rows.append([])
        rows[row].append(span)
        heapq.heappush(free, (span.end_s, row))
    return {f"{name} {i}" if i else name: row for i, row in enumerate(rows)}


def _written(pid: int, process: _Process, first_s: float) -> Iterator[dict[str, Any]]:
    """Yield the events of a process, times from ``first_s`` on."""
    yield _named(pid, 0, "process_name", name=process.name)
    yield _named(pid, 0, "process_sort_index", sort_index=pid)
    for tid, (name, row) in enumerate(process.rows.items()):
        yield _named(pid, tid, "thread_name", name=name)
        yield _named(pid, tid, "thread_sort_index", sort_index=tid)
        for span in row:
            yield _complete(pid, tid, span, first_s)
            yield from (_complete(pid, tid, part, first_s) for part in span.parts)


def _named(pid: int, tid: int, what: str, **told: object) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "ts": 0, "name": what, "args": told}


def _complete(pid: int, tid: int, span: Span, first_s: float) -> dict[str, Any]:
    """Make the event of a span. Its end is rounded as its beginning is, so that spans that touch do not overlap."""
    start_us, end_us = round((span.start_s - first_s) * US), round((span.end_s - first_s) * US)
    told = {name: value for name, value in span.told.items() if value == value and value is not None}  # no NaN
    return {
        **{"ph": "X", "pid": pid, "tid": tid, "ts": start_us, "dur": end_us - start_us},
        **{"name": span.name, "cat": span.category, "args": told},
    }


def _marks(trial: Trial, pid: int, first_s: float) -> Iterator[dict[str, Any]]:
    """Yield what was done to the trial, as instants of the whole trace."""
    happened = [event for event in trial.events if event.begun_s is not None]
    if happened:
        yield _named(pid, 0, "process_name", name="perturbations")
    for event in happened:
        assert event.begun_s is not None
        at = {"ph": "i", "s": "g", "pid": pid, "tid": 0, "ts": round((event.begun_s - first_s) * US)}
        yield {**at, "name": event.what, "cat": event.kind, "args": {"done_s": event.done_s, "error": event.error}}
