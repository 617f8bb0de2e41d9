"""Files of others that were tampered with: does a reader end in a traceback, hang or swell?

    python benchmarks/fuzz_readers.py [--inputs N] [--only NAME ...] [--seed N]

Honest files are changed at random, by their structure (a value of another type, an absurd number, a key that is gone)
and by their bytes, and each is given to its reader. A reader may take the file, or raise one of our named errors. Exit
code 1 if there are findings (``fuzzing.py``). results.csv has no reader here: nothing reads it.

A comparison takes a few times as long as reading a file, a report a hundred times, so there are 10 % and 1 % as many of
these.
"""

from __future__ import annotations

import copy
import functools
import io
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml
from fuzzing import Change, Subject, Take, arguments, report

from testbed.analysis.comparing import compare, compare_output, measured
from testbed.analysis.load import load
from testbed.analysis.report import FORMATS
from testbed.analysis.report import text as report_text
from testbed.analysis.tables import trial as tables
from testbed.base.errors import TestbedError
from testbed.control import endings
from testbed.control.feed import Feed
from testbed.evidence.referee import read_weights
from testbed.files import foreign
from testbed.files.foreign import UnfitError
from testbed.recovery import failover
from testbed.run_directory import stored
from testbed.topologies import build as topologies
from testbed.topologies import formats
from testbed.topologies.load import no_code
from testbed.topologies.parameters import at_most
from testbed.workloads.sync import schemes
from testbed.workloads.trace import chakra, files, pytorch
from testbed.workloads.trace.graph import Collective, Kind, Node, critical_path, order

ADDRESSES_BYTES = 8 * 2**30
"""A reader may reserve so much: pyarrow reserves more than it uses."""


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
        "arms": [
            {"label": arm, "topology": f"star(hosts={HOSTS})", "scheme": arm, "perturb": [], "jobs": jobs}
            for arm, jobs in zip(ARMS, ([], [{"name": "a", "copies": 2}, {"name": "b", "copies": 1}]), strict=True)
        ],
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


def _queues() -> pd.DataFrame:
    link, window = (part.ravel() for part in np.meshgrid(range(2 * HOSTS), range(20)))
    waited = {"most_bytes": 1000 * link, "mean_bytes": 500.0 * link, "full_share": 0.5, "drops": 1, "marks": 0}
    return pd.DataFrame({"link": link, "start_s": 0.02 * window, "window_s": 0.02, **waited})


def _transfers() -> pd.DataFrame:
    at = np.arange(3 * ITERATIONS * HOSTS)
    ends = {"from": at % HOSTS, "to": HOSTS - at % HOSTS, "purpose": at % 3, "members": at % 3, "size_bytes": 1e6}
    ends |= {"shard": at % 2}
    return pd.DataFrame(ends | {"start_s": 0.01 * at, "end_s": 0.01 * at + 0.1, "arrived_s": 0.011 * at + 0.1})


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
    for name in ("trials", "samples", "queues", "transfers"):
        (folder / name).mkdir()
    (folder / "spec.yaml").write_text(SPEC)
    (folder / "resolved.json").write_text(json.dumps(_resolved()))
    (folder / "env.json").write_text(json.dumps(_environment()))
    for arm in ARMS:
        for repeat in range(2):
            record = _record(arm, repeat)
            (folder / "trials" / f"{record['id']}.json").write_text(json.dumps(record))
            _samples().to_parquet(folder / "samples" / f"{record['id']}.parquet", index=False)
            _queues().to_parquet(folder / "queues" / f"{record['id']}.parquet", index=False)
            _transfers().to_parquet(folder / "transfers" / f"{record['id']}.parquet", index=False)


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
        return _odd(rng)
    group, key = rng.choice(places)
    kind = rng.randrange(8)
    if kind == 0:
        del group[key]
    elif kind == 1 and isinstance(group, list):
        group.insert(key, copy.deepcopy(group[key]))
    elif kind == 2 and isinstance(group, dict):
        group[str(rng.choice(["schema", "label", "id", "x", "\x1b", "=a", ""]))] = _odd(rng)
    elif kind == 3:
        other, there = rng.choice(places)
        with suppress(LookupError):
            group[key], other[there] = copy.deepcopy(other[there]), copy.deepcopy(group[key])
    elif kind == 4 and isinstance(group[key], int | float) and not isinstance(group[key], bool):
        with suppress(OverflowError):  # 10**400 as a float
            group[key] = group[key] * rng.choice([0, -1, 10, 1e-300, 1e12, 1e80])
    else:
        group[key] = _odd(rng)
    return value


def _odd(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(ODD))  # so that later changes do not change ODD, and with it later inputs


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


_spec = functools.cache(yaml.safe_load)


def mutate_spec(rng: random.Random, content: bytes) -> bytes:
    """As JSON, written as YAML; or its bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, content)
    value = _restructured(rng, copy.deepcopy(_spec(content)))
    return yaml.safe_dump(value, allow_unicode=True, width=10**9).encode(errors="replace")


@functools.cache
def _table(content: bytes) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(content))


def mutate_parquet(rng: random.Random, content: bytes) -> bytes:
    """Columns of another type, with odd values, missing, or of other lengths; or bytes of the file."""
    if rng.random() < 0.5:
        return mutate_bytes(rng, content)
    try:
        return _odd_table(rng, content)
    except (ValueError, TypeError, pa.ArrowException):  # which cannot be written
        return mutate_bytes(rng, content)


def _odd_table(rng: random.Random, content: bytes) -> bytes:
    table = _table(content).copy()
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
    """An expression with words, marks and numbers changed."""
    text = content.decode()
    for _ in range(rng.randint(0, 4)):
        at, to = sorted(rng.choices(range(len(text) + 1), k=2))
        piece = rng.choice(rng.choice([WORDS, MARKS, SIZES]))
        text = text[:at] + piece + text[rng.choice([at, at + 1, to]) :]
    return text.encode()


# Readers.

TOPOLOGIES = [
    *(b"star(hosts=4)", b"bcube(n=2,k=2)", b"fat_tree(k=4)", b"dragonfly(a=2,g=3,h=1)"),
    *(b"spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=all)", b"patch_panel(servers=8,degree=4,rings=[1,3])"),
]
SCHEMES = [b"ring", b"multi_ring(strides=[1])", b"ps(servers=2)", b"ssp(staleness=3)"]
SCHEMES += [b"ps(place=tensor,colocated=false)"]


def _topology(path: Path) -> None:
    """As a report draws the network of a record with a thousand links."""
    with no_code("a report", "none"), at_most(1000):
        topologies.build(path.read_text(), rate_bps=10**8)


def _network(path: Path) -> None:
    topologies.build(str(path), rate_bps=10**8)


def _scheme(path: Path) -> None:
    with no_code("a report", "none"):
        schemes.build(path.read_text(), topologies.build("star(hosts=4)", rate_bps=10**8), [1000, 500, 10])


def _source(path: Path) -> None:
    with no_code("testbed merge", "none"):
        stored.source_of(path.parent)


def _said(path: Path) -> None:
    Feed({"h0": path}).done("h0")
    endings.tail(path)
    endings.read_checked(path, 2**22)


def _run(path: Path) -> None:
    load(path.parent, samples=False)
    stored.made(path.parent)
    stored.environment(path.parent)


def _records(path: Path) -> None:
    load(path.parent.parent, samples=False)
    stored.records(path.parent.parent)


def _compared(path: Path) -> None:
    run = path.parent.parent if path.parent.name == "trials" else path.parent
    base, new = measured.read(run / "base.json"), measured.read(run)
    compare_output.text(compare.compare(base, new, thresholds=dict.fromkeys(measured.METRICS, 0.03)))


def _reported(path: Path) -> None:
    run = path.parent if path.name in ("resolved.json", "env.json") else path.parent.parent
    for form in FORMATS:
        report_text([run], form)


def _unfit(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """With the error that its callers turn into one of ours."""

    def there(path: Path) -> None:
        try:
            read(path)
        except (UnfitError, OSError) as error:
            raise TestbedError(str(error)) from None

    return there


def reader(
    run: Path, called: str, name: str, honest: Sequence[bytes], change: Change, read: Callable[[Path], object]
) -> Subject:
    """What reads the file ``name`` of a run directory, in a copy of ``run``."""

    def begin() -> Take:
        path = Path(shutil.copytree(run, Path(tempfile.mkdtemp()) / "run")) / name

        def take(content: bytes) -> None:
            path.unlink(missing_ok=True)  # ext4 writes a file that is truncated to the disk at once, which takes 5 ms
            path.write_bytes(content)
            read(path)

        for one in honest:
            take(one)
        return take

    return Subject(called, honest, change, begin, ADDRESSES_BYTES)


HOST_TRACE = json.dumps(
    {
        "schema": "1.1.1-chakra.0.0.4",
        "nodes": [
            {"id": 3, "name": pytorch.GROUPS, "inputs": {"values": ['[{"pg_name": "1", "ranks": [0, 1]}]']}},
            {"id": 5, "name": "c10d::allreduce_", "inputs": {"values": [[[1, 2, 0, 2212, 4, "cpu"]], "<Object>"]}},
            {"id": 7, "name": "c10d::broadcast_", "inputs": {"values": [[[1, 2, 0, 5, 4, "cpu"]], "<Object>", 1, 0]}},
        ],
    }
).encode()


PARAM_TRACE = json.dumps(
    [
        {"comms": "init", "pg_id": 1, "global_ranks": [0, 1]},
        {"comms": "all_reduce", "in_msg_size": 100, "dtype": "float32", "pg_id": 1, "startTime_ns": 5, "req": 1},
        {"compute": "gemm", "mm_dim": 10},
        {"comms": "isend", "in_msg_size": 8, "dtype": "half", "dst_rank": 1, "req": [3, True]},
        {"comms": "wait", "req": [3, True]},
    ]
).encode()
CHAKRA_JSON = b"""{"version": "1.0.0", "attr": [{"name": "rank", "stringVal": "0"}]
}{"id": "1", "name": "a", "type": "COMP_NODE", "durationMicros": "300"
}{"id": "2", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "ctrlDeps": ["1"], "attr": [
{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "uint64Val": "4096"},
{"name": "is_cpu_op", "boolVal": true}]}"""
GOAL = b"""num_ranks 2
rank 0 {
l1: calc 5000 cpu 1
l2: send 8192b to 1 tag 7 cpu 0 nic 0
l3: recv 16b from 1
l2 requires l1
l3 irequires l2
}
rank 1 {
}
"""


def _trace() -> bytes:
    """A trace of Chakra's with a node of each kind."""
    file = io.BytesIO()
    computes = Node(1, "forward", Kind.COMP, duration_us=300)
    sums = Node(2, "sum", Kind.COMM_COLL, (1,), bytes=4096, collective=Collective.ALL_REDUCE, group="0")
    sends = Node(3, "out", Kind.COMM_SEND, (1,), (2,), bytes=64, peer=1, tag=7)
    chakra.write(file, 0, [computes, sums, sends, sends._replace(id=4, kind=Kind.COMM_RECV)], {"trial": "ring"})
    return file.getvalue()


def _traced(path: Path) -> object:
    read, _ = files.read(path, foreign.opened)
    return critical_path(order(read.nodes, path.name))


GML = b"""graph [ directed 1
  node [ id 0 label "Brno" Longitude 16.6 Latitude 49.2 ] node [ id 1 label "Zlin" kind "host" ] node [ id 2 rack 3 ]
  edge [ source 0 target 1 LinkSpeed "2.5" LinkSpeedUnits "G" ] edge [ source 1 target 0 LinkSpeedRaw 2500000000.0 ]
  edge [ source 2 target 0 ends "2:0 Brno:1" number 3 delay_s 0.001 ]
]"""


def _networks(run: Path) -> list[Subject]:
    """The readers of networks in files of other tools."""
    honest = topologies.build("spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=all)", rate_bps=10**8)
    graphml, lab, fabric = (formats.write(honest, form).encode() for form in formats.FORMATS)
    return [
        reader(run, "networks, GraphML", "net.graphml", [graphml], mutate_bytes, _network),
        reader(run, "networks, GML", "net.gml", [GML], mutate_bytes, _network),
        reader(run, "networks, containerlab", "net.clab.yml", [lab], mutate_spec, _network),
        reader(run, "networks, InfraGraph", "net.json", [fabric], mutate_json, _network),
    ]


def readers(run: Path) -> list[Subject]:
    """Every reader, with honest files from ``run``."""
    trial, parquet = "trials/ring-b16-r2.json", "samples/ring-b16-r2.parquet"
    waited = "queues/ring-b16-r1.parquet"  # of the trial in the middle, which a report reads
    carried = "transfers/ring-b16-r1.parquet"
    for form in FORMATS:  # what it imports takes seconds, which each reader's process then need not
        report_text([run], form)
    weights = io.BytesIO()
    np.save(weights, np.zeros(100, np.float32))
    measured.write_baseline(measured.read(run, iterations=True), run / "base.json")

    def recorded(called: str, name: str, read: Callable[[Path], object], share: float = 1.0) -> Subject:
        change = mutate_parquet if name.endswith(".parquet") else mutate_json
        return replace(reader(run, called, name, [(run / name).read_bytes()], change, read), share=share)

    table = _unfit(lambda path: tables.samples(path, path.parent))
    checked_in = _unfit(lambda path: failover.read_left(path, 5))
    left = [b'{"completed": 3, "error": "h1 is gone"}']
    sums = _unfit(lambda path: read_weights(path, 100))
    return [
        recorded("records", trial, _records),
        recorded("resolved.json", "resolved.json", _run),
        recorded("env.json", "env.json", _run),
        reader(run, "spec.yaml", "spec.yaml", [SPEC.encode()], mutate_spec, _source),
        reader(run, "samples, lines", "h0.jsonl", [_lines()], mutate_lines, _said),
        recorded("samples, Parquet", parquet, table),
        recorded("queues, Parquet", waited, lambda path: tables.queues(path.parent.parent, path.stem)),
        recorded("transfers, Parquet", carried, lambda path: tables.transfers(path.parent.parent, path.stem)),
        recorded("baseline", "base.json", measured.read),
        reader(run, "topologies", "topology", TOPOLOGIES, mutate_expression, _topology),
        reader(run, "schemes", "scheme", SCHEMES, mutate_expression, _scheme),
        reader(run, "check-ins", "h0.left", left, mutate_json, checked_in),
        reader(run, "traces, Chakra", "x.et", [_trace()], mutate_bytes, _traced),
        reader(run, "traces, PyTorch", "x.json", [HOST_TRACE, PARAM_TRACE], mutate_json, _traced),
        reader(run, "traces, Chakra's JSON", "x.json", [CHAKRA_JSON], mutate_bytes, _traced),
        reader(run, "traces, GOAL", "x.goal", [GOAL], mutate_bytes, _traced),
        *_networks(run),
        reader(run, "weights", "weights.npy", [weights.getvalue()], mutate_bytes, sums),
        recorded("compare: records", trial, _compared, 0.1),
        recorded("compare: resolved", "resolved.json", _compared, 0.1),
        recorded("compare: env", "env.json", _compared, 0.1),
        recorded("compare: baseline", "base.json", _compared, 0.1),
        recorded("report: records", trial, _reported, 0.01),
        recorded("report: resolved", "resolved.json", _reported, 0.01),
        recorded("report: env", "env.json", _reported, 0.01),
        recorded("report: Parquet", parquet, _reported, 0.01),
        recorded("report: queues", waited, _reported, 0.01),
        recorded("report: transfers", carried, _reported, 0.01),
    ]


def main() -> None:
    """Fuzz, and print what became of it."""
    asked = arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        honest_run(Path(folder))
        report(readers(Path(folder)), asked)


if __name__ == "__main__":
    main()
