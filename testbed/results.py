"""What a finished trial says: metrics from its samples, its JSON, its Parquet table and its row in results.csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import metrics
from testbed import fidelity
from testbed.deaths import Course, sentence, spoilt_bytes, unasked
from testbed.files import write_bytes, write_through
from testbed.jobs import bursts
from testbed.lab.base import Counters
from testbed.monitor import CpuLog
from testbed.phases import Phase, contributions, gst_theory_s, link_bytes, wire_bytes
from testbed.trial import Trial, link_settings
from topologies.sharing import groups
from workloads.sync.cost import goodput
from workloads.sync.flows import pairs
from workloads.sync.ledger import most_stale

SCHEMA = 1
ETHERNET_BYTES = 14

COLUMNS = (
    *("trial", "label", "topology", "scheme", "batch", "iterations", "world", "status"),
    *("jct_s", "compute_s", "sync_s", "gst_median_s", "gst_p95_s", "gst_theory_s", "gst_ratio"),
    *("throughput_sps", "wire_bytes", "test_accuracy", "weights_error", "fidelity", "reasons"),
    *("kind", "model", "scale", "wrong_elements", "straggler_wait_s"),
    *("staleness_median", "staleness_p95", "staleness_max", "repeat"),
)
"""Of every run; after them come the fields that are swept, by their names."""
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
    # Of an asynchronous scheme a worker may do more iterations than there are rounds.
    theory = gst_theory_s(phases, trial.spec.links.mtu).reindex(gst.index, method="ffill")
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
        "algbw_bps": None if trial.asynchronous else metrics.algbw_bps(size, median),
        "busbw_bps": None if trial.asynchronous else metrics.busbw_bps(size, median, trial.network.world),
        **staleness(metrics.staleness(samples, skip=trial.work.warmup)),
    }


def staleness(updates: pd.Series[int] | None) -> dict[str, float | None]:
    """How stale updates were; None in a synchronous scheme, which has none."""
    if updates is None:
        return dict.fromkeys(("staleness_median", "staleness_p95", "staleness_max"))
    return {
        "staleness_median": float(updates.median()),
        "staleness_p95": float(updates.quantile(0.95)),
        "staleness_max": float(updates.max()),
    }


def knows_bytes(trial: Trial) -> bool:
    """Whether the forest's bytes are what goes over the wire; not where a library or a command does something else."""
    library = trial.network.forest.library
    return not trial.command and (library is None or library.exact)


def gradient_bytes(trial: Trial) -> int:
    """Size of one gradient."""
    return 4 * trial.network.floats


def since(before: Iterable[Counters], after: Iterable[Counters]) -> list[Counters]:
    """What the kernel counted between two readings."""
    return [
        replace(now, bytes=now.bytes - then.bytes, packets=now.packets - then.packets, drops=now.drops - then.drops)
        for then, now in zip(before, after, strict=True)
    ]


def burst(line: Mapping[str, Any]) -> dict[str, Any]:
    """What the trial's JSON keeps of a process's ``probe`` line."""
    return {key: line[key] for key in ("name", "port_address", "rate_bps", "asked_bps")}


def links(
    trial: Trial,
    phases: Sequence[Phase],
    counters: Iterable[Counters],
    other_bytes: Mapping[int, float],
    extra_bytes: Mapping[int, float],
) -> list[dict[str, Any]]:
    """For each directed link what the kernel counted during training and what theory expects, headers included.

    ``other_bytes`` is the part of the count, by directed link, of bursts and of background flows, and ``extra_bytes``
    what TCP may have added on that link: acknowledgements, and what it sent again. ``bytes`` and ``drops`` of a link
    that the lab does not count are None.
    """
    topology = trial.network.topology
    theory = link_bytes(phases) / goodput(trial.spec.links.mtu)
    known = knows_bytes(trial)
    counted = {count.directed_link: count for count in counters}
    found = []
    for link in range(2 * len(topology.links)):
        count, others = counted.get(link), other_bytes.get(link, 0.0)
        found.append(
            {
                "link": link,
                "from": topology.nodes[topology.tail(link)].name,
                "to": topology.nodes[topology.head(link)].name,
                "rate_bps": topology.links[link // 2].rate_bps,
                "bytes": max(0, round(count.bytes - others)) if count else None,
                "other_bytes": round(others),
                "drops": count.drops if count else None,
                "theory_bytes": round(theory[link]) if known else None,
                "extra_bytes": round(extra_bytes.get(link, 0.0)),
            }
        )
    return found


@dataclass(frozen=True)
class Evidence:
    """What a trial's verdict is found from, besides its samples.

    Attributes:
        rates, expected_rates: bursts as ``link_rate`` wants them, and how many there should be.
        round_trips: as ``delay`` wants them.
        links: as :func:`links` gives them.
        cpu: how busy the cores were.
        done: the last line of each process, with its ``name``.
        aggregators: the names of those that only add for others.
        differs: what the kernel had that was not asked for, after the trial.
        events: what was done to the trial on purpose, as its JSON holds it.
        course: who died in it.
    """

    rates: Sequence[Mapping[str, Any]]
    expected_rates: int
    round_trips: Sequence[Mapping[str, Any]]
    links: Sequence[Mapping[str, Any]]
    cpu: CpuLog
    done: Sequence[Mapping[str, Any]]
    aggregators: Collection[str]
    differs: str | None
    events: Sequence[Mapping[str, Any]]
    course: Course


DISTURBING = frozenset({"rates", "rate", "queue", "impair", "down", "freeze", "kill", "background", "circuits"})
"""Kinds of events that change links or fill them: TCP then has to send again, as it would on such a network."""
DROPPING = frozenset({"queue", "impair", "down", "freeze", "circuits"})
"""Those of them after which links drop packets."""


def asked_to_drop(trial: Trial, events: Iterable[Mapping[str, Any]]) -> bool:
    """Whether links were to drop packets: their queues are short on purpose, or something was done to them."""
    return link_settings(trial.spec).drops or any(one["kind"] in DROPPING for one in events)


def judge(trial: Trial, samples: pd.DataFrame, seen: Evidence) -> dict[str, Any]:
    """The trial's fidelity verdict with all its checks; warm-up iterations are left out."""
    counted = samples[samples["iteration"] >= trial.work.warmup]
    checks = [
        fidelity.link_rate(seen.rates, seen.expected_rates, goodput(trial.spec.links.mtu)),
        fidelity.delay(seen.round_trips),
        *_cores(trial, counted, seen.cpu),
        fidelity.timers({line["name"]: line["late_s"] for line in seen.done}),
    ]
    if seen.aggregators:
        cpu_s = {line["name"]: line["cpu_s"] for line in seen.done if line["name"] in seen.aggregators}
        checks.append(
            fidelity.aggregators(cpu_s, metrics.jct_s(samples), "during training")
            if trial.asynchronous
            else fidelity.aggregators(cpu_s, metrics.sync_s(samples))
        )
    if trial.compute.mode == "paced":
        checks.append(fidelity.overrun(counted, trial.compute.pace_s))
    library = trial.network.forest.library
    if library and not knows_bytes(trial):
        checks.append(fidelity.wire_unknown(library.name, library.algorithm))
    else:
        again = spoilt_bytes(trial, seen.course)
        if library:  # whose connections are its own; what each host sent again is known
            again += sum(line["resent_segments"] or 0 for line in seen.done) * (trial.spec.links.mtu + ETHERNET_BYTES)
        checks.append(fidelity.wire(seen.links, together(trial, seen.course, seen.links), again))
    happened = {event["kind"] for event in seen.events}
    counted_by = [line for line in seen.done if line["sent_segments"] is not None]
    segments = {line["name"]: (line["sent_segments"], line["resent_segments"]) for line in counted_by}
    checks.append(fidelity.drops(seen.links, asked=asked_to_drop(trial, seen.events)))
    disturbed = bool(DISTURBING & happened) or trial.spec.links.loss > 0 or trial.spec.links.reorder > 0
    checks.append(fidelity.resent(segments, asked=disturbed or asked_to_drop(trial, seen.events)))
    checks.append(fidelity.shaping(seen.differs))
    if seen.events:
        checks.append(fidelity.events(seen.events))
    if trial.asynchronous:
        checks += _of_updates(trial, samples)
    elif trial.work.overlap == "none":
        checks.append(fidelity.bound(counted, gst_theory_s(seen.course.phases, trial.spec.links.mtu)))
    if seen.course.deaths:
        checks.append(fidelity.workers(sentence(trial, seen.course), unasked(trial, seen.course)))
    return fidelity.verdict(checks)


def _of_updates(trial: Trial, samples: pd.DataFrame) -> list[fidelity.Check]:
    """What is judged of an asynchronous scheme alone."""
    asynchronous, world = trial.network.forest.asynchronous, trial.network.world
    assert asynchronous is not None
    allowed = len(samples) - 1 if asynchronous.staleness is None else most_stale(world, asynchronous.staleness)
    busiest_link_s = trial.iterations * trial.network.cost.round_s() / goodput(trial.spec.links.mtu)
    return [
        fidelity.staleness(int(samples["staleness"].max()), min(allowed, len(samples) - 1), len(samples)),
        fidelity.bound_of_updates(samples, trial.gst_theory_s, gradient_bytes(trial), busiest_link_s),
    ]


def _cores(trial: Trial, counted: pd.DataFrame, cpu: CpuLog) -> list[fidelity.Check]:
    """Whether there were cores enough while gradients were on the wire."""
    if trial.asynchronous:  # somebody's gradient is on the wire all along
        whole = (float(counted["start_s"].min()), float(counted["sum_s"].max()))
        return [*fidelity.cpu([whole], cpu, "during training"), fidelity.run_queue_of_updates(counted)]
    by = counted.groupby("iteration")
    last = by[["ready_s", "sum_s"]].max()
    library = trial.network.forest.library
    if library and library.polls:
        gst_s = float((last["sum_s"] - last["ready_s"]).median())
        return [fidelity.polled(library.name, gst_s, trial.gst_theory_s)]
    begin = last["ready_s"] if trial.work.overlap == "none" else by["start_s"].min()  # gradients leave all along
    checks = fidelity.cpu(list(zip(begin, last["sum_s"], strict=True)), cpu)
    if trial.work.overlap != "both":  # then the next forward pass is computed meanwhile
        checks.append(fidelity.run_queue(counted))
    return checks


def together(trial: Trial, course: Course, link_counts: Sequence[Mapping[str, Any]]) -> list[tuple[int, ...]]:
    """Positions in ``link_counts`` of links whose bytes theory knows only together; acknowledgements, bursts and
    background flows are shared like gradients."""
    topology = trial.network.topology
    used = [pair for phase in course.phases for pair in pairs(phase.network.forest)]
    used += [*((one.src, one.dst) for one in bursts(topology)), *trial.background]
    position = {link["link"]: i for i, link in enumerate(link_counts)}
    both = {*used, *((dst, src) for src, dst in used)}
    return [tuple(position[link] for link in links) for links in groups(topology, both)]


def row(record: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's JSON as its row in results.csv."""
    flat = {**record, **(record["metrics"] or {}), **(record["accuracy"] or {}), **(record.get("sums") or {})}
    judged = record["fidelity"] or {}
    why = record["error"] if record["status"] == "failed" else fidelity.reasons(judged)
    flat |= {"trial": record["id"], "fidelity": judged.get("verdict"), "reasons": why}
    return {name: flat.get(name) for name in COLUMNS} | dict(record.get("point", {}))


def save_csv(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write results.csv: one row a trial, in the order given.

    Raises:
        DiskFullError, OutputError: it cannot be written.
    """
    rows = [row(record) for record in records]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, dict.fromkeys(chain(COLUMNS, *rows)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_bytes(path, text.getvalue().encode())
