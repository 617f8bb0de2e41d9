"""Execution traces: what is in one, and those that are made of an experiment's schemes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.base.errors import OutputError, UsageError
from testbed.experiment.finding import settled
from testbed.experiment.repeats import Planned
from testbed.experiment.selection import Wanted
from testbed.files import foreign
from testbed.files.writing import whole_file, write_json
from testbed.spec import load
from testbed.workloads.trace import chakra, files
from testbed.workloads.trace.graph import critical_path, order
from testbed.workloads.trace.transfers import transfers

NETWORKS = {"star": "Switch"}
"""Topologies that ASTRA-sim's analytical network has, with its names for them."""


def show(path: Path, most_nodes: int = chakra.MOST_NODES) -> dict[str, Any]:
    """Say what the trace of a rank has; times are in microseconds.

    Raises:
        SpecError: it is absent, or no trace that can be played.
        MissingToolError: protobuf is not installed.
    """
    read, groups = files.read(path, foreign.opened, most_nodes)
    nodes = order(read.nodes, str(path))
    whole_us, critical = critical_path(nodes)
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for node in nodes:
        kind = node.collective.name if node.collective is not None else node.kind.name
        counts[kind] += 1
        sizes[kind] += node.bytes
    return {
        "file": str(path),
        "version": read.version,
        "about": read.about,
        "nodes": len(nodes),
        "types": [{"type": kind, "count": count, "bytes": sizes[kind]} for kind, count in counts.most_common()],
        "groups": {name: list(ranks) for name, ranks in groups.items()}
        or {node.group: [] for node in nodes if node.group},
        "computes_us": sum(node.duration_us for node in nodes if node.computes),
        "critical_path_us": whole_us,
        "critical_path": critical,
        "odd": dict(read.odd),
    }


def export(spec: Path, arm: str, out: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Write one synchronisation of an arm as a trace, a file for each node that takes part, with the files by which
    ASTRA-sim takes it as its own collective.

    Raises:
        SpecError: the experiment cannot be, or the arm's transfers are not known beforehand.
        UsageError: there is no such arm.
        OutputError: a file cannot be written.
        MissingToolError: protobuf is not installed.
    """
    source = settled(load(spec, overrides))
    trials = Planned(source, only=Wanted(arms=[arm]).of(source)).trials
    if len({trial.id for trial in trials}) > 1 and len({trial.job.gradient_bytes for trial in trials}) > 1:
        raise UsageError(f"arm {arm} has gradients of several sizes", fix="choose one: --set KEY=VALUE")
    trial = trials[0]
    names, ranks = transfers(trial.job.plan, trial.job.gradient.floats)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out} cannot be made: {error.strerror}", fix="name another folder") from None
    about = {"writer": "testbed", "trial": trial.id, "scheme": trial.job.plan.scheme, "units": "us, bytes"}
    stem, written = trial.id, list[str]()
    for rank, nodes in ranks.items():
        path = out / f"{stem}.{rank}.et"
        with whole_file(path) as file:
            chakra.write(file, rank, nodes, {**about, "rank": str(rank), "node": names[rank]})
        written.append(str(path))
    own = {"all-reduce-implementation-custom": [stem], "collective-optimization": "localBWAware"}
    write_json(out / f"{stem}.system.json", own)
    write_json(out / f"{stem}.groups.json", {"0": list(ranks)})
    written += [str(out / f"{stem}.{what}.json") for what in ("system", "groups")]
    text = trial.network.topology_text
    network = NETWORKS.get(text.partition("(")[0], "") if len(ranks) == len(trial.job.plan.workers) else ""
    left_out = "" if network else f"ASTRA-sim's analytical network has no {text} with these ranks: none is written"
    if not left_out:
        rate = f"{trial.network.slowest_bps / 8e9:.9g}"
        described = f"topology: [ {network} ]\nnpus_count: [ {len(ranks)} ]\nbandwidth: [ {rate} ]  # GB/s\n"
        with whole_file(out / f"{stem}.network.yml") as file:
            file.write(f"{described}latency: [ 0.0 ]  # ns\n".encode())
        written.append(str(out / f"{stem}.network.yml"))
    sends = sum(node.kind.name == "COMM_SEND" for nodes in ranks.values() for node in nodes)
    return {"trial": trial.id, "ranks": len(ranks), "sends": sends, "files": written, "left_out": left_out}
