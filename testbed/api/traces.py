"""Execution traces: what is in one, and those that are made of an experiment's schemes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from testbed.analysis.load import load as load_run
from testbed.analysis.load import read_samples
from testbed.base.errors import OutputError, SpecError, TopologyError, UsageError
from testbed.base.nearest import nearest
from testbed.experiment.finding import settled
from testbed.experiment.repeats import Planned
from testbed.experiment.selection import Wanted
from testbed.files import foreign
from testbed.files.writing import whole_file, write_json
from testbed.run_directory import stored
from testbed.spec import load
from testbed.spec.grid import BATCH
from testbed.trial.job import Job
from testbed.trial.model import Trial, identity
from testbed.workloads.job import Replay
from testbed.workloads.kinds.parts import ModelParallel
from testbed.workloads.learning.replay import FORWARD
from testbed.workloads.sync.chunks import FLOAT_BYTES, cut
from testbed.workloads.trace import chakra, files, goal
from testbed.workloads.trace.graph import Kind, Node, critical_path, order
from testbed.workloads.trace.measured import Bucket, Iteration, collectives, passes
from testbed.workloads.trace.transfers import algorithm, network_file, transfers

FORMS = ("transfers", "goal", "msccl")
"""Forms of a scheme's export: Chakra's traces, a GOAL schedule, MSCCL's XML."""


def show(path: Path, most_nodes: int = chakra.MOST_NODES, rank: int | None = None) -> dict[str, Any]:
    """Say what the trace of a rank has; times are in microseconds. ``rank`` chooses among those of a file of all.

    Raises:
        SpecError: it is absent, or no trace that can be played.
        UsageError: a rank is chosen, and the file has only one.
        MissingToolError: protobuf is not installed.
    """
    if rank is not None and path.suffix != files.OF_ALL:
        raise UsageError(f"{path} is of one rank", fix=f"leave --rank out, or name a file that ends in {files.OF_ALL}")
    read, groups = files.read(path, foreign.opened, most_nodes, rank=rank or 0)
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


def export(
    spec: Path,
    arm: str,
    out: Path,
    overrides: Sequence[str] = (),
    points: Sequence[str] = (),
    form: str = FORMS[0],
    *,
    chunks: bool = False,
) -> dict[str, Any]:
    """Write one synchronisation of an arm in a form of :data:`FORMS`. Transfers are a file for each node that takes
    part, with the files by which ASTRA-sim takes them as its own collective; the other forms are one file. Of several
    points it is the first of those that ``points`` leaves. With ``chunks``, each chunk is a message.

    Raises:
        SpecError: the experiment cannot be, or the arm's transfers are not known beforehand.
        UsageError: there is no such arm or form.
        OutputError: a file cannot be written.
        MissingToolError: protobuf is not installed.
    """
    if form not in FORMS:
        raise UsageError(f"there is no form {form!r:.60}", fix=nearest(form, FORMS))
    source = settled(load(spec, overrides))
    trials = Planned(source, only=Wanted(arms=[arm], points=points).of(source)).trials
    if len({trial.id for trial in trials}) > 1 and len({trial.job.gradient_bytes for trial in trials}) > 1:
        raise UsageError(f"arm {arm} has gradients of several sizes", fix="choose one: --point NAME=VALUE")
    trial = trials[0]
    plan, gradient = trial.job.plan, trial.job.gradient
    if chunks and form == "msccl":
        raise UsageError("MSCCL's XML has chunks of its own", fix="leave --chunks out")
    told: dict[str, Any] = {"trial": trial.id, "point": _point(trials), "left_out": ""}
    if form == "msccl":
        text = algorithm(plan, gradient.floats)
        told |= {"ranks": len(plan.workers), "sends": text.count(b'type="s"')}
        return told | {"files": [_one_file(out / f"{trial.id}.xml", lambda file: file.write(text))]}
    cut_up = (lambda forest: cut(forest, gradient.floats, gradient.buckets, trial.job.chunk_bytes)) if chunks else None
    names, ranks = transfers(plan, gradient.floats, trial.network.topology, cut_up)
    sends = sum(node.kind == Kind.COMM_SEND for nodes in ranks.values() for node in nodes)
    told |= {"ranks": len(ranks), "sends": sends}
    if form == "goal":
        about = {**_about(trial), **{f"rank {rank}": name for rank, name in enumerate(names)}}
        return told | {"files": [_one_file(out / f"{trial.id}.goal", lambda file: goal.write(file, ranks, about))]}
    written = _written(out, trial, names, ranks)
    more, left_out = _for_astra_sim(out, trial, len(ranks))
    return told | {"files": written + more, "left_out": left_out}


def _one_file(path: Path, write: Callable[[BinaryIO], object]) -> str:
    """Write a file; return its name.

    Raises:
        OutputError: it cannot be written.
    """
    _make(path.parent)
    with whole_file(path) as file:
        write(file)
    return str(path)


def _for_astra_sim(out: Path, trial: Trial, ranks: int) -> tuple[list[str], str]:
    """Write the files by which ASTRA-sim takes transfers as its own collective; return their names, and what it is not
    told."""
    own = {"all-reduce-implementation-custom": [trial.id], "collective-optimization": "localBWAware"}
    write_json(out / f"{trial.id}.system.json", own)
    write_json(out / f"{trial.id}.groups.json", {"0": list(range(ranks))})
    written = [str(out / f"{trial.id}.{what}.json") for what in ("system", "groups")]
    if ranks > len(trial.job.plan.workers):
        return written, "nodes that add besides hosts are ranks, so there is no network file for ASTRA-sim"
    try:
        network = network_file(trial.network.topology, trial.job.plan.workers)
    except TopologyError as error:
        return written, f"{error.problem}, so there is no network file for ASTRA-sim"
    with whole_file(out / f"{trial.id}.network.yml") as file:
        file.write(network.encode())
    return [*written, str(out / f"{trial.id}.network.yml")], ""


def _point(trials: Sequence[Trial]) -> str:
    """Say that the first of several points is written, and how another one is chosen; empty where there is only one."""
    firsts = [trial for trial in trials if not trial.repeat]
    if len(firsts) == 1:
        return ""
    points = [{**trial.point, BATCH: trial.batch} for trial in firsts]
    swept = [name for name in points[0] if len({str(point.get(name)) for point in points}) > 1]
    choice = " ".join(f"--point {name}=VALUE" for name in swept)
    return f"the first of {len(firsts)} points is written, {firsts[0].id}; for another one: {choice}"


def export_measured(run: Path, trial_id: str, out: Path, iteration: int | None = None) -> dict[str, Any]:
    """Write the iterations of a trial that ran as a trace, or one of them: what each rank computed, its messages, and
    its sums, in the size that they have without the spec's ``scale``.

    Raises:
        OutputError: the run has no such trial or iteration, is damaged, or a file cannot be written.
        SpecError: it is not known what its iterations are made of.
        MissingToolError: protobuf is not installed.
    """
    done = {one.id: one for one in load_run(run, samples=False).trials if one.done}
    trials = {trial.id: trial for trial in Planned(settled(stored.source_of(run))).trials if trial.id in done}
    if trial_id not in trials:
        raise OutputError(f"{run}: there is no finished trial {trial_id!r:.200}", fix=nearest(trial_id, list(trials)))
    job = trials[trial_id].job
    model = job.kind.model_parallel
    make = _maker(job, model)
    if make is None:
        why = (
            "gradients leave in parts" if job.known_work and job.kind.sums_together else f"the kind is {job.kind.name}"
        )
        raise SpecError(
            f"{trial_id}: no trace is made of what its iterations did, as {why}",
            fix="take a trial of a synchronous scheme, without overlap, or of a profile with overlap: layer",
        )
    table = read_samples(run, trial_id, needed=True, warmup=0)
    assert table is not None  # it is needed
    if iteration is not None:
        table = table[table["iteration"] == iteration]
        if table.empty:
            raise OutputError(f"{trial_id} has no iteration {iteration}", fix="leave --iteration out: all are written")
    table = table.assign(waited_s=table[list(model.waits) if model else []].sum(axis=1))
    ranks = {
        int(str(rank)): make(int(str(rank)), map(Iteration._make, rows[[*Iteration._fields]].to_numpy().tolist()))
        for rank, rows in table.sort_values("iteration").groupby("rank")
    }
    names = [job.plan.nodes[node] for node in job.plan.workers]
    written = _written(out, trials[trial_id], names, ranks)
    if model:
        path = out / f"{trial_id}.groups.json"
        write_json(path, _groups(model.groups(job.plan)))
        written.append(str(path))
    return {"trial": trial_id, "ranks": len(ranks), "files": written, "left_out": "", "point": ""}


def _maker(job: Job, model: ModelParallel[Any] | None) -> Callable[[int, Iterable[Iteration]], list[Node]] | None:
    """Return a function that makes the nodes of a rank from its iterations, in the size that they have without
    ``scale``; None if it is not known what they are made of."""
    if model is None:
        buckets = _buckets(job)
        return (lambda _, iterations: collectives(iterations, buckets)) if buckets else None
    scale, floats, steps = job.work.scale, model.groups(job.plan), model.steps(job.plan)
    named, steps = _groups(floats), replace(steps, message_bytes=np.rint(scale * steps.message_bytes))

    def make(rank: int, iterations: Iterable[Iteration]) -> list[Node]:
        sums = {name: round(FLOAT_BYTES * scale * floats[ranks]) for name, ranks in named.items() if rank in ranks}
        return passes(rank, iterations, steps, sums)

    return make


def _groups(ranks: Iterable[tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Name groups by their numbers."""
    return {str(number): members for number, members in enumerate(ranks)}


def _buckets(job: Job) -> list[Bucket]:
    """Return the sums of an iteration, in the size that they have without ``scale``; empty if it has others besides, or
    if it is not known when each began."""
    if job.sums_once:
        return [Bucket(round(job.gradient_bytes * job.work.scale))]
    if not job.sums_with("layer") or job.work.is_trained:
        return []
    due = FORWARD + (1 - FORWARD) * np.cumsum(cast("Replay", job.training).shares)
    sizes = [round(FLOAT_BYTES * (stop - start) * job.work.scale) for start, stop in job.gradient.buckets]
    return [Bucket(*one) for one in zip(sizes, due.tolist(), strict=True)]


def _written(out: Path, trial: Trial, names: Sequence[str], ranks: Mapping[int, Sequence[Node]]) -> list[str]:
    """Write a file for each rank, with what the trial is called; return their names.

    Raises:
        OutputError: one cannot be written.
    """
    _make(out)
    about, written = _about(trial) | {"units": "us, bytes"}, []
    for rank, nodes in ranks.items():
        path = out / f"{trial.id}.{rank}.et"
        with whole_file(path) as file:
            chakra.write(file, rank, nodes, {**about, "rank": str(rank), "node": names[rank]})
        written.append(str(path))
    return written


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out} cannot be made: {error.strerror}", fix="name another folder") from None


def _about(trial: Trial) -> dict[str, str]:
    """Say who wrote a trace, and of which trial: its name, and the digest of all that its result depends on."""
    writer, digest = f"testbed {version('testbed')}", identity(trial)
    return {"writer": writer, "trial": trial.id, "identity": digest, "scheme": trial.job.plan.scheme}
