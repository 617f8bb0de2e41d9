"""Files of others that were tampered with: does a reader end in a traceback, hang or swell?

    python benchmarks/fuzz_readers.py [--inputs N] [--readers NAME ...] [--seed N]

Honest files are changed at random, by their structure (a value of another type, an absurd number, a key that is gone)
and by their bytes, and each is given to its reader. Readers run in processes of their own: one that takes more than
10 s for an input hangs and is ended, one that grows by more than 200 MB swells. A reader may take the file, or raise
one of our named errors. Exit code 1 if any does something else. results.csv has no reader here: nothing reads it.

A report is written whole for each input, which takes a thousand times as long as reading a file, so there are 1 % as
many of these.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import io
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml

from analysis import compare, compare_output, measured, report, samples
from analysis.load import load
from testbed import failover, rundir, watch
from testbed.columns import columns
from testbed.errors import TestbedError
from testbed.foreign import UnfitError
from testbed.referee import read_weights
from topologies import build as topologies
from topologies.load import no_code
from topologies.parameters import at_most
from workloads.sync import schemes

HANG_S, SWELL_BYTES = 10.0, 200 * 2**20
SHOWN = 3
"""Tracebacks of a reader that are printed."""
ADDRESSES_BYTES = 8 * 2**30
"""What a reader may reserve, so that one that swells does not take the machine with it."""
OUTCOMES = ("named errors", "accepted", "tracebacks", "hangs", "swellings")
ALLOWED = OUTCOMES[:2]
FORK = multiprocessing.get_context("fork")
Mutate = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Reader:
    """One kind of file: honest ones, how they are changed, and what reads them from ``name`` in a run's directory."""

    called: str
    name: str
    honest: bytes
    mutate: Mutate
    read: Callable[[Path], object]
    share: float = 1.0
    """Of the inputs that are asked for."""


# Honest files.

HOSTS, ITERATIONS = 3, 4
ARMS = ("ring", "ps")
SPEC = """\
name: small
lab: netns
links: {rate: 100 Mbit/s}
workload: {model: lenet5, dataset: digits, batch: 16, iterations: 4}
arms:
  - {topology: star(hosts=3), scheme: ring}
  - {topology: star(hosts=3), scheme: ps}
repeats: 2
seed: 1
"""


def _record(arm: str, repeat: int) -> dict[str, Any]:
    names = ["gst", "jct", "throughput", "iterations", "waiting"]
    link = {"rate_bps": 10**8, "bytes": 123456, "other_bytes": 0, "drops": 0, "theory_bytes": 120000, "extra_bytes": 9}
    ends = [pair for i in range(HOSTS) for pair in ((f"h{i}", "s0"), ("s0", f"h{i}"))]
    jct_s = 1.5 + 0.1 * ARMS.index(arm) + 0.01 * repeat
    metrics = {
        **{"jct_s": jct_s, "compute_s": 0.9, "sync_s": 0.6, "straggler_wait_s": 0.01, "gst_median_s": 0.14},
        **{"gst_uncertainty_s": None, "gst_p95_s": 0.16, "gst_theory_s": 0.13, "gst_ratio": 1.07},
        **{"iteration_median_s": 0.37, "throughput_sps": 128.0, "wire_bytes": 1e6, "wire_bytes_theory": 9.9e5},
        **{"algbw_bps": 9e7, "busbw_bps": 1.2e8, "staleness_median": None, "staleness_max": None},
    }
    check = {"name": "cpu", "value": 0.4, "limit": 0.9, "unit": "", "ok": True, "detail": "of both cores"}
    number = {"verdict": "VALID", "error": 0.02, "bound_s": 0.13, "certified": True, "spoilt_by": [], "excused": []}
    attempt = {"verdict": "INVALID", "reasons": ["cpu: busy"], "started": "2026-01-01T00:00:00", "metrics": metrics}
    event = {"kind": "rate", "what": "h0: 50 Mbit/s", "planned_s": 0.1, "begun_s": 0.1, "done_s": 0.2, "error": None}
    return {
        "schema": 1,
        "id": f"{arm}-b16-r{repeat + 1}",
        "identity": "0" * 32,
        "inputs": {},
        "label": arm,
        "topology": f"star(hosts={HOSTS})",
        "scheme": arm,
        "kind": "train",
        "model": "lenet5",
        "scale": None,
        **{"batch": 16, "repeat": repeat, "iterations": ITERATIONS, "world": HOSTS},
        **{"point": {"links.rate": 100_000_000}, "at": "rate=100 Mbit/s"},
        **{"status": "done", "error": None, "by_perturb": False, "metrics": metrics},
        "accuracy": {
            "test_accuracy": 0.9,
            "test_loss": 0.3,
            "weights_error": 1e-7,
            "weights_equal": True,
            "curve": [[0, 0.1]],
        },
        "sums": {"checked_sums": 4, "sums_error": 1e-7, "sums_allowed": 1e-6},
        "loss": [2.3, 0.4],
        "fidelity": {"verdict": "VALID", "checks": [check], "numbers": dict.fromkeys(names, number)},
        "probes": [],
        "round_trips": [],
        "links": [{"link": i, "from": a, "to": b, **link} for i, (a, b) in enumerate(ends)],
        "events": [event],
        "failover": {
            "recoveries": [
                {"without": ["h1"], "first": 2, "world": 2, "scheme": arm, "called_s": 0.5, "recovered_s": 0.9}
            ]
        },
        "waited": None,
        "attempts": [attempt] if repeat else [],
        **{"started": f"2026-01-01T00:0{repeat}:00+00:00", "duration_s": 3.0},
    }


def _resolved() -> dict[str, Any]:
    return {
        "schema": 1,
        "name": "small",
        "lab": "netns",
        "links": {"rate_bps": 10**8, "delay_s": 0.0},
        "workload": {"kind": "train", "model": "lenet5", "batch": [16], "iterations": ITERATIONS, "warmup": 1},
        "arms": [{"label": arm, "topology": f"star(hosts={HOSTS})", "scheme": arm, "perturb": []} for arm in ARMS],
        "sweep": {"links.rate": [10**8]},
        **{"repeats": 2, "seed": 1, "planned": 4, "overrides": [], "folder": "."},
    }


def _environment() -> dict[str, Any]:
    lab = {"nodes": {"host": 3}, "mtu": 1500, "sysctls": {"ipv4/ip_forward": {"0": 3}}, "devices": {"cpu": 3}}
    return {
        "schema": 1,
        **{"kernel": "6.1", "machine": "x86_64", "cpu": {"model": "a CPU", "cores": 2}, "memory_bytes": 2**33},
        **{"sysctls": {"net.ipv4.tcp_rmem": "4096 131072"}, "congestion_control": "reno", "python": "3.11"},
        **{"packages": {"numpy": "2.4", "torch": "2.13"}, "git": None, "seed": 1},
        "lab": {_record(arm, repeat)["id"]: lab for arm in ARMS for repeat in range(2)},
        "parts": {"one": {"sysctls": {"net.ipv4.tcp_rmem": "4096 131072"}}, "two": {"kernel": "6.2"}},
    }


def _samples() -> pd.DataFrame:
    rank, iteration = np.meshgrid(range(HOSTS), range(ITERATIONS))
    start_s = 0.4 * iteration.ravel()
    times = {"start_s": start_s, "ready_s": start_s + 0.2, "sum_s": start_s + 0.34, "end_s": start_s + 0.35}
    return pd.DataFrame(
        {"rank": rank.ravel(), "node": rank.ravel(), "iteration": iteration.ravel(), **times, "loss": 1.0, "name": "h0"}
    )


def _lines() -> bytes:
    done = {"wire_bytes": 9, "sent": {"1": {"payload_bytes": 5, "wire_bytes": 9}}, "max_rss_bytes": 9, "cpu_s": 0.1}
    done |= {"late_s": 0.0, "stalled_s": 0.0, "halted_s": 0.0, "sent_segments": 1, "resent_segments": 0}
    probe = {"port_address": "10.0.0.1", "rate_bps": 9e7, "asked_bps": 10**8, "bytes": 5, "sent_bytes": 5}
    times = {"start": 1.0, "ready": 1.1, "sum": 1.2, "end": 1.3, "loss": 2.0, "compute_s": 0.1}
    lines: list[dict[str, Any]] = [
        {"kind": "hello", "rank": 0, "node": 0, "device": "cpu", "congestion_control": "reno", "time": 0.5},
        {"kind": "probe", "node": 0, **probe, "acknowledged_bytes": 1},
        {"kind": "begin", "time": 1.0},
        *({"kind": "iteration", "i": i, "rank": 0, "node": 0, **times} for i in range(ITERATIONS)),
        {"kind": "done", **done, "own": [[0, [1.0, 2.0]]], "summed": [[0, [1.0, 2.0]]], "wrong": [], "checked": 4},
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def honest_run(folder: Path) -> None:
    """Write a small run, as ``testbed run`` would."""
    for name in ("trials", "samples"):
        (folder / name).mkdir()
    (folder / "spec.yaml").write_text(SPEC)
    (folder / "resolved.json").write_text(json.dumps(_resolved()))
    (folder / "env.json").write_text(json.dumps(_environment()))
    for arm in ARMS:
        for repeat in range(2):
            record = _record(arm, repeat)
            (folder / "trials" / f"{record['id']}.json").write_text(json.dumps(record))
            _samples().to_parquet(folder / "samples" / f"{record['id']}.parquet", index=False)


# Changes.

ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        5,
        2**31,
        2**62,
        2**63,
        10**25,
        10**400,
        0.0,
        -0.5,
        1e-320,
        1e99,
        1e101,
        1e308,
        -1e308,
    ),
    *(
        float("nan"),
        float("inf"),
        "",
        "x",
        "nan",
        "VALID",
        "done",
        "x" * 3000,
        "\x1b[2J\x07",
        "\u202eabc",
        "=HYPERLINK(1)",
    ),
    *("\ud800", "../../etc/passwd", "./mine.py:f", "star(hosts=1000000000)", "9" * 5000, "[" * 500, "1 Mbit/s, 2=3"),
    *(
        [],
        {},
        [[]],
        [None],
        [1, "a"],
        {"a": None},
        {"": {}},
        [[[[[[1]]]]]],
        list(range(300)),
        {str(i): i for i in range(300)},
    ),
]
BYTES = [
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"NaN",
    b"1e999",
    b"9" * 5000,
    b"\0",
    b"\xff\xfe",
    b"\\ud800",
    b"\x1b[2J",
    b"\n",
    b"}",
    b",",
]


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """Some bytes changed, gone, doubled, or something odd put between them."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at, to = sorted(rng.choices(range(len(data) + 1), k=2))
        kind = rng.randrange(5)
        if kind == 0 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        elif kind == 1:
            del data[at : min(to, at + rng.choice([1, 8, 1000]))]
        elif kind == 2:
            data[at:at] = data[at : at + 200]
        elif kind == 3:
            data[at:at] = rng.choice(BYTES)
        else:
            del data[to:]
    return bytes(data)


def mutate_json(rng: random.Random, content: bytes) -> bytes:
    """A few values replaced, removed, doubled or exchanged; or bytes changed."""
    if rng.random() < 0.15:
        return mutate_bytes(rng, content)
    return json.dumps(_restructured(rng, json.loads(content))).encode()


def _restructured(rng: random.Random, value: Any) -> Any:
    for _ in range(rng.randint(1, 3)):
        value = _changed(rng, value)
    return value


def _changed(rng: random.Random, value: Any) -> Any:
    places = list(_places(value))
    if not places:
        return rng.choice(ODD)
    group, key = rng.choice(places)
    kind = rng.randrange(8)
    if kind == 0:
        del group[key]
    elif kind == 1 and isinstance(group, list):
        group.insert(key, copy.deepcopy(group[key]))
    elif kind == 2 and isinstance(group, dict):
        group[str(rng.choice(["schema", "label", "id", "x", "\x1b", "=a", ""]))] = rng.choice(ODD)
    elif kind == 3:
        other, there = rng.choice(places)
        with suppress(LookupError):
            group[key], other[there] = copy.deepcopy(other[there]), copy.deepcopy(group[key])
    elif kind == 4 and isinstance(group[key], int | float) and not isinstance(group[key], bool):
        group[key] = group[key] * rng.choice([0, -1, 10, 1e-300, 1e12, 1e80])
    else:
        group[key] = copy.deepcopy(rng.choice(ODD))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _places(inner)


def mutate_lines(rng: random.Random, content: bytes) -> bytes:
    """One line of JSON changed, gone, doubled or cut."""
    lines = content.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at])
    elif kind == 2:
        return mutate_bytes(rng, content)
    else:
        lines[at] = mutate_json(rng, lines[at]) + b"\n"
    return b"".join(lines)


def mutate_spec(rng: random.Random, content: bytes) -> bytes:
    """As JSON, written as YAML; or its bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, content)
    value = _restructured(rng, yaml.safe_load(content))
    return yaml.safe_dump(value, allow_unicode=True, width=10**9).encode(errors="replace")


def mutate_parquet(rng: random.Random, content: bytes) -> bytes:
    """Columns of another type, with odd values, missing, or of other lengths; or bytes of the file."""
    if rng.random() < 0.5:
        return mutate_bytes(rng, content)
    try:
        return _odd_table(rng, content)
    except (ValueError, TypeError, pa.ArrowException):  # which cannot be written
        return mutate_bytes(rng, content)


def _odd_table(rng: random.Random, content: bytes) -> bytes:
    table = pd.read_parquet(io.BytesIO(content))
    name = rng.choice(list(table))
    kind = rng.randrange(7)
    if kind == 0:
        table = table.drop(columns=name)
    elif kind == 1:
        table[name] = rng.choice(["x", "=1", None, True, 10**18, -1, 1e308, float("nan"), pd.Timestamp(0)])
    elif kind == 2:
        table = pd.concat([table] * rng.choice([2, 50]))
    elif kind == 3:
        table = table.iloc[: rng.randrange(len(table))]
    elif kind == 4:
        kinds: Any = rng.choice(["float32", "str", "int8", "category", "int64", "float64"])
        table[name] = table[name].astype(kinds)
    elif kind == 5:
        table = pd.DataFrame({one: np.zeros(rng.choice([10**5, 3 * 10**6]), np.int64) for one in table})
    else:
        table.loc[table.index[rng.randrange(len(table))], name] = rng.choice([10**9, -5, 0])
    out = io.BytesIO()
    table.to_parquet(out, index=rng.random() < 0.1, compression=rng.choice(["snappy", "gzip", "zstd", None]))
    return out.getvalue()


WORDS = ["star", "bcube", "fat_tree", "dragonfly", "patch_panel", "ring", "ps", "bml", "rina", "ina", "hosts", "n", "k"]
WORDS += ["servers", "racks", "true", "x.py:f", "./a.py:b"]
MARKS = ["(", ")", "=", ",", "[", "]", "-", ":", "'", " ", "\n", "\x1b"]
SIZES = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "64",
    "1000",
    "262144",
    "1000000000",
    "9" * 30,
    "-1",
    "1e9",
    "nan",
    "[1,2]",
    "[[0,1]]",
]


def mutate_expression(rng: random.Random, content: bytes) -> bytes:
    """One of several expressions with words, marks and numbers changed."""
    text = rng.choice(content.decode().splitlines())
    for _ in range(rng.randint(0, 4)):
        at, to = sorted(rng.choices(range(len(text) + 1), k=2))
        piece = rng.choice(rng.choice([WORDS, MARKS, SIZES]))
        text = text[:at] + piece + text[rng.choice([at, at + 1, to]) :]
    return text.encode()


# Readers.

TOPOLOGIES = b"star(hosts=4)\nbcube(n=2,k=2)\nfat_tree(k=4)\nspine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=all)\n\
dragonfly(a=2,g=3,h=1)\npatch_panel(servers=4,degree=2,rings=[1,3])"
SCHEMES = b"ring\nps(servers=2)\nps(place=tensor,colocated=false)\nmulti_ring(strides=[1])\nssp(staleness=3)"


def _topology(path: Path) -> None:
    """As a report draws the network of a record with a thousand links."""
    with no_code("a report", "none"), at_most(1000):
        topologies.build(path.read_text(), rate_bps=10**8)


def _scheme(path: Path) -> None:
    with no_code("a report", "none"):
        schemes.build(path.read_text(), topologies.build("star(hosts=4)", rate_bps=10**8), [1000, 500, 10])


def _source(path: Path) -> None:
    with no_code("testbed merge", "none"):
        rundir.source_of(path.parent)


def _said(path: Path) -> None:
    watch.iterations(path)
    watch.tail(path)
    watch.read_checked(path, 2**22)


def _run(path: Path) -> None:
    load(path.parent, samples=False)
    rundir.made(path.parent)
    rundir.environment(path.parent)


def _records(path: Path) -> None:
    load(path.parent.parent, samples=False)
    rundir.records(path.parent.parent)


def _compared(path: Path) -> None:
    run = path.parent.parent if path.parent.name == "trials" else path.parent
    base, new = measured.read(run / "base.json"), measured.read(run)
    compare_output.text(compare.compare(base, new, thresholds=dict.fromkeys(measured.METRICS, 0.03)))


def _reported(path: Path) -> None:
    run = path.parent if path.name in ("resolved.json", "env.json") else path.parent.parent
    for form in report.FORMATS:
        report.text([run], form)


def _unfit(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """With the error that its callers turn into one of ours."""

    def there(path: Path) -> None:
        try:
            read(path)
        except (UnfitError, OSError) as error:
            raise TestbedError(str(error)) from None

    return there


def readers(run: Path) -> list[Reader]:
    """Every reader, with honest files from ``run``."""
    trial = "trials/ring-b16-r2.json"
    for form in report.FORMATS:  # what it imports takes seconds, which each reader's process then need not
        report.text([run], form)
    record, resolved, environment = ((run / name).read_bytes() for name in (trial, "resolved.json", "env.json"))
    parquet = (run / "samples/ring-b16-r2.parquet").read_bytes()
    measured.write_baseline(measured.read(run, iterations=True), run / "base.json")
    baseline = (run / "base.json").read_bytes()
    weights = io.BytesIO()
    np.save(weights, np.zeros(100, np.float32))
    return [
        Reader("records", trial, record, mutate_json, _records),
        Reader("resolved.json", "resolved.json", resolved, mutate_json, _run),
        Reader("env.json", "env.json", environment, mutate_json, _run),
        Reader("spec.yaml", "spec.yaml", SPEC.encode(), mutate_spec, _source),
        Reader("samples, lines", "h0.jsonl", _lines(), mutate_lines, _said),
        Reader(
            "samples, Parquet",
            "s.parquet",
            parquet,
            mutate_parquet,
            _unfit(lambda path: samples.read(path, path.parent)),
        ),
        Reader("baseline", "base.json", baseline, mutate_json, measured.read),
        Reader("topologies", "topology", TOPOLOGIES, mutate_expression, _topology),
        Reader("schemes", "scheme", SCHEMES, mutate_expression, _scheme),
        Reader(
            "who left",
            "h0.left",
            b'{"completed": 3, "error": "h1 is gone"}',
            mutate_json,
            _unfit(lambda path: failover.read_left(path, 5)),
        ),
        Reader(
            "weights", "weights.npy", weights.getvalue(), mutate_bytes, _unfit(lambda path: read_weights(path, 100))
        ),
        Reader("compare: records", trial, record, mutate_json, _compared, 0.1),
        Reader("compare: resolved", "resolved.json", resolved, mutate_json, _compared, 0.1),
        Reader("compare: env", "env.json", environment, mutate_json, _compared, 0.1),
        Reader("compare: baseline", "base.json", baseline, mutate_json, _compared, 0.1),
        Reader("report: records", trial, record, mutate_json, _reported, 0.01),
        Reader("report: resolved", "resolved.json", resolved, mutate_json, _reported, 0.01),
        Reader("report: env", "env.json", environment, mutate_json, _reported, 0.01),
        Reader("report: Parquet", "samples/ring-b16-r2.parquet", parquet, mutate_parquet, _reported, 0.01),
    ]


# Processes.


@dataclass
class Tally:
    """What became of a reader's inputs, and the first tracebacks."""

    counts: dict[str, int]
    shown: list[str]

    @property
    def failed(self) -> bool:
        return any(count for name, count in self.counts.items() if name not in ALLOWED)


def fuzz(reader: Reader, run: Path, inputs: int, seed: int) -> Tally:
    """Give a reader so many inputs; ``run`` is an honest run, which is as before after that."""
    tally = Tally(dict.fromkeys(OUTCOMES, 0), [])
    path = run / reader.name
    before = path.read_bytes() if path.exists() else None
    at = FORK.Value(ctypes.c_longlong, 0)
    while at.value < inputs:
        ours, theirs = FORK.Pipe(duplex=False)
        child = FORK.Process(target=_child, args=(reader, path, at, inputs, seed, theirs))
        child.start()
        theirs.close()
        _watched(child, ours, at, tally)
    path.unlink()
    if before is not None:
        path.write_bytes(before)
    return tally


def _watched(child: multiprocessing.process.BaseProcess, said: Any, at: Synchronized[int], tally: Tally) -> None:
    """Until the process has ended, or stands still: then that input was its last."""
    last, since_s = at.value, time.monotonic()
    with suppress(EOFError):
        while True:
            if said.poll(0.5):
                outcome, count, text = said.recv()
                tally.counts[outcome] += count
                if text and len(tally.shown) < SHOWN:
                    tally.shown.append(text)
            if at.value != last:
                last, since_s = at.value, time.monotonic()
            elif time.monotonic() - since_s > HANG_S and child.is_alive():
                child.kill()
                tally.counts["hangs"] += 1
                tally.shown.append(f"input {last} hangs")
                at.value += 1
                break
    child.join()
    if child.exitcode and at.value == last and child.exitcode != -9:
        tally.counts["tracebacks"] += 1
        tally.shown.append(f"input {last} ends the process with {child.exitcode}")
        at.value += 1


def _child(reader: Reader, path: Path, at: Synchronized[int], inputs: int, seed: int, tell: Any) -> None:
    """Take inputs until all are done, or one has made the process swell."""
    path.write_bytes(reader.honest)
    outcome, text = _tried(reader, path)
    if outcome != "accepted" and reader.called not in ("topologies", "schemes"):  # these are several in one
        tell.send(("tracebacks", 1, f"the honest one is not taken: {text}\n"))
        at.value = inputs
        return
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_BYTES, ADDRESSES_BYTES))
    begin = _peak_bytes()
    counts = dict.fromkeys(ALLOWED, 0)
    while at.value < inputs:
        path.write_bytes(reader.mutate(random.Random(f"{seed} {reader.called} {at.value}"), reader.honest))
        before = _peak_bytes()
        outcome, text = _tried(reader, path)
        grown = _peak_bytes() - before
        swells = grown > SWELL_BYTES or _peak_bytes() - begin > 2 * SWELL_BYTES
        if grown > SWELL_BYTES:
            outcome, text = "swellings", f"grew by {grown >> 20} MiB"
        if outcome in counts:
            counts[outcome] += 1
        else:
            tell.send((outcome, 1, f"input {at.value}: {text}"))
        at.value += 1
        if swells:
            break
    for name, count in counts.items():
        tell.send((name, count, ""))


def _tried(reader: Reader, path: Path) -> tuple[str, str]:
    try:
        reader.read(path)
    except TestbedError as error:
        return "named errors", str(error)
    except MemoryError:
        return "swellings", traceback.format_exc()
    except Exception:
        return "tracebacks", traceback.format_exc()
    return "accepted", ""


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Fuzz, and print what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="for each reader")
    parser.add_argument("--readers", nargs="*", metavar="NAME", help="those whose names begin so; default: all")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rows, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        honest_run(Path(folder))
        for reader in readers(Path(folder)):
            if asked.readers and not any(reader.called.startswith(name) for name in asked.readers):
                continue
            count = max(1, round(asked.inputs * reader.share))
            tally = fuzz(reader, Path(folder), count, asked.seed)
            rows.append([reader.called, f"{count:,}", *(f"{tally.counts[name]:,}" for name in OUTCOMES)])
            failed |= tally.failed
            print("\n".join([*tally.shown, "  ".join(rows[-1])]), file=sys.stderr, flush=True)
    print(columns(["reader", "inputs", *OUTCOMES], rows))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
