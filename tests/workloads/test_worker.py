"""Real worker processes over loopback: every scheme, overlap and compute mode, and what happens when one dies."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from testbed.evidence.sum_check import Checked, checked
from testbed.topologies.addressing import plan
from testbed.topologies.build import build as build_topology
from testbed.workloads import kinds, worker
from testbed.workloads.catalogue import tensor_sizes
from testbed.workloads.job import Compute, Peer, Probe, Replay, Training, WorkerJob
from testbed.workloads.learning import accelerated, training
from testbed.workloads.learning import reference as references
from testbed.workloads.learning.reference import reference, relative_error
from testbed.workloads.learning.replay import Values
from testbed.workloads.models import model
from testbed.workloads.sync import schemes
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.sums import FloatSums
from testbed.workloads.sync.transport import connect
from tests import ports
from tests.patience import until
from tests.processes import met

TRAINING = Training("resnet8", "digits", batch=4, iterations=3, learning_rate=0.01, momentum=0.9, seed=3)
PACE_S = 0.15

_ports = ports.blocks(20)
"""First port of each trial."""


class Cluster:
    """Worker processes forked from this one, as a lab does it, on addresses in 127.0.0.0/8."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.jobs: list[WorkerJob] = []
        self.pids: dict[int, int] = {}

    def write(self, topology: str, scheme: str, **changes: Any) -> None:
        """One job a host that takes part; ``changes`` are fields of WorkerJob."""
        network = build_topology(topology, rate_bps=10**9)
        forest = schemes.build(scheme, network, [floats for _, floats in tensor_sizes(TRAINING.model)])
        flow = plan(network).flow
        first = next(_ports)

        def peer(node: int, other: int) -> Peer:
            local, remote = ("127" + address.removeprefix("10") for address in flow(node, other))
            return Peer(other, local, remote, first + min(node, other))

        nodes = [process.node for process in kinds.of(forest).processes(forest)]
        peers = {node: tuple(peer(node, other) for other in met(forest, node)) for node in nodes}
        self.write_jobs(forest, peers, **changes)

    def write_jobs(self, forest: Forest, peers: dict[int, tuple[Peer, ...]], **changes: Any) -> None:
        kinds.save(forest, self.directory / "forest.npz")
        trained = changes.get("training", TRAINING)
        net = model(trained.model if isinstance(trained, Training) else TRAINING.model)
        if changes.get("overlap") == "layer":
            changes.setdefault("buckets", tuple(net.buckets()))
        rank = {node: r for r, node in enumerate(forest.workers)}
        for node, theirs in peers.items():
            job = WorkerJob(
                node=node,
                name=forest.nodes[node],
                rank=rank.get(node),
                world=len(rank),
                forest=str(self.directory / "forest.npz"),
                peers=theirs,
                training=TRAINING,
                compute=Compute("real"),
                overlap="none",
                buckets=((0, net.floats()),),
                chunk_bytes=1 << 13,
                congestion_control="reno",
                start_timeout_s=20,
                timeout_s=20,
                samples=str(self.directory / f"{node}.jsonl"),
                weights=str(self.directory / "weights.npy") if rank.get(node) == 0 else None,
            )
            self.jobs.append(dataclasses.replace(job, **changes))

    def start(self) -> None:
        for job in self.jobs:
            path = self.directory / f"{job.node}.json"
            job.save(path)
            self.pids[job.node] = self._fork(path, self.directory / f"{job.node}.log")

    def _fork(self, job: Path, log: Path) -> int:
        pid = os.fork()
        if pid == 0:
            output = os.open(log, os.O_WRONLY | os.O_CREAT, 0o644)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", 1)  # pytest has put others here
            os._exit(worker.main([str(job)]))
        return pid

    def wait(self) -> dict[int, int]:
        """Exit status of each process, negative for a signal."""
        return {node: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for node, pid in self.pids.items()}

    def run(self) -> dict[int, list[dict[str, Any]]]:
        self.start()
        assert self.wait() == dict.fromkeys(self.pids, 0), self.logs()
        return {node: self.lines(node) for node in self.pids}

    def lines(self, node: int) -> list[dict[str, Any]]:
        """What a process has written; nothing before it has begun."""
        path = self.directory / f"{node}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.directory.glob("*.log")))


@pytest.fixture(scope="module", autouse=True)
def _warm() -> Iterator[None]:
    """References have no accuracies: a pass over the test set takes as long as a training here."""
    training.warm_up()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "_evaluated", lambda *_: set())
        references.reference.cache_clear()
        yield
    references.reference.cache_clear()  # others look at accuracies


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    for pid in made.pids.values():
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue  # ended and waited for


def of(kind: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == kind]


def check_samples(lines: list[dict[str, Any]], mode: str) -> None:
    """The lines of one worker, in order and in time."""
    assert [line["kind"] for line in lines] == ["hello", "begin", *["iteration"] * TRAINING.iterations, "done"]
    assert lines[0]["congestion_control"] == "reno"
    before = lines[0]["time"]
    for i, line in enumerate(of("iteration", lines)):
        assert line["i"] == i
        assert before <= line["start"] <= line["ready"] <= line["sum"] <= line["end"]
        assert line["cpu_s"] >= 0
        assert line["wait_s"] is None or line["wait_s"] >= 0
        assert (line["compute_s"] == 0) == (mode == "none")
        before = line["end"]
    assert lines[-1]["max_rss_bytes"] > 2**20


def sums_checked(cluster: Cluster) -> Checked:
    """What the harness finds in the sums of a trial."""
    forest = kinds.load(cluster.directory / "forest.npz")
    done = [{**cluster.lines(node)[-1], "name": forest.nodes[node]} for node in cluster.pids]
    workers = [forest.nodes[node] for node in forest.workers]
    job = SimpleNamespace(plan=forest, kind=kinds.of(forest), workers=workers)
    whole = SimpleNamespace(first=0, stop=TRAINING.iterations, job=job)
    floats = model(TRAINING.model).floats()
    return checked(done, [whole], floats, cluster.jobs[0].chunk_bytes)  # type: ignore[list-item]


def test_partial_sums_that_are_a_little_too_small_are_found(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.workloads.sync.compiled.library", lambda: None)  # whose sums are not to be changed
    add = FloatSums.add
    monkeypatch.setattr(FloatSums, "add", lambda self, k, at, terms: add(self, k, at, terms * np.float32(0.9995)))
    cluster.write("star(hosts=3)", "ring")
    cluster.run()
    summed = sums_checked(cluster)
    assert summed.count == TRAINING.iterations
    assert summed.error > 10 * summed.allowed


@pytest.mark.parametrize(
    ("topology", "scheme", "mode", "overlap"),  # each two of these come together
    [
        (*place, mode, ("none", "layer")[(i + j) % 2])
        for i, place in enumerate((("star(hosts=3)", "ps"), ("star(hosts=3)", "ring"), ("bcube(n=2,k=2)", "bml")))
        for j, mode in enumerate(("real", "paced", "none"))
    ],
)
def test_workers_train_as_one(cluster: Cluster, topology: str, scheme: str, overlap: str, mode: str) -> None:
    cluster.write(topology, scheme, overlap=overlap, compute=Compute(mode, PACE_S if mode == "paced" else 0.0))  # type: ignore[arg-type]
    seen = cluster.run()
    for lines in seen.values():
        check_samples(lines, mode)
    done = [lines[-1] for lines in seen.values()]
    assert len({line["weights_sha256"] for line in done}) == 1
    world = len(seen)
    weights = np.load(cluster.directory / "weights.npy")
    assert relative_error(weights, reference(TRAINING, world, mode).weights) < 1e-5  # type: ignore[arg-type]
    summed = sums_checked(cluster)
    assert summed.count == (1 if mode == "none" else TRAINING.iterations)
    assert summed.error < summed.allowed
    # every scheme here moves 2 (N - 1) gradients an iteration, plus 4-byte headers and barriers
    least = TRAINING.iterations * 2 * (world - 1) * 4 * len(weights)
    assert least < sum(line["wire_bytes"] for line in done) < 1.003 * least


@pytest.mark.parametrize("overlap", ["none", "layer"])
def test_workers_whose_device_has_its_own_memory_train_as_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, overlap: str
) -> None:
    """A CPU stands for the GPU: other buffers, the same copies."""
    monkeypatch.setattr(accelerated, "device_for", lambda _compute, _rank: torch.device("cpu"))
    cluster.write("star(hosts=3)", "ring", overlap=overlap)
    seen = cluster.run()
    assert {lines[0]["device"] for lines in seen.values()} == {"cpu"}
    assert len({lines[-1]["weights_sha256"] for lines in seen.values()}) == 1
    weights = np.load(cluster.directory / "weights.npy")
    assert relative_error(weights, reference(TRAINING, 3).weights) < 1e-5


@pytest.mark.parametrize(
    ("name", "dataset", "rate"), [("lenet5", "digits", 0.01), ("bert_tiny", "python_reference", 0.1)]
)
def test_other_models_train_as_one_too(cluster: Cluster, name: str, dataset: str, rate: float) -> None:
    work = Training(name, dataset, 4, 6, rate, 0.9, 3)
    spans = model(name).buckets()
    half = len(spans) // 2
    fused = ((0, spans[half][1]), (spans[half][1], spans[-1][1]))
    cluster.write("star(hosts=3)", "ring", training=work, overlap="layer", buckets=fused, priority=True)
    lines = cluster.run()
    weights = np.load(cluster.directory / "weights.npy")
    assert relative_error(weights, reference(work, 3).weights) < 1e-5
    assert len({found[-1]["weights_sha256"] for found in lines.values()}) == 1


REPLAY = Replay(iterations=4, seed=3, shares=(0.1, 0.6, 0.3))
THREE = ((0, 30_000), (30_000, 30_001), (30_001, 90_000))


@pytest.mark.parametrize(
    ("overlap", "mode", "priority"),  # each two of these come together, but that one bucket has no priorities
    [
        *(("none", "paced", False), ("none", "none", False)),
        *(("layer", "paced", False), ("layer", "none", True)),
        *(("both", "paced", True), ("both", "none", False)),
    ],
)
def test_a_profile_is_played_and_its_sums_are_right(cluster: Cluster, overlap: str, mode: str, priority: bool) -> None:
    pace_s = PACE_S if mode == "paced" else 0.0
    one = overlap == "none"
    cluster.write(
        "star(hosts=4)",
        "ring",
        training=dataclasses.replace(REPLAY, shares=(1.0,)) if one else REPLAY,
        buckets=((0, 90_000),) if one else THREE,
        overlap=overlap,
        priority=priority,
        compute=Compute(mode, pace_s),  # type: ignore[arg-type]
    )
    for lines in cluster.run().values():
        assert lines[-1]["wrong"] == []
        iterations = [line for line in lines if line["kind"] == "iteration"]
        assert [line["i"] for line in iterations] == [0, 1, 2, 3]
        for line in iterations:
            assert line["start"] <= line["ready"] <= line["sum"] <= line["end"]
            assert line["loss"] is None
            assert line["ready"] - line["start"] >= pace_s - 1e-3


def test_a_wrong_sum_is_counted_by_every_worker(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 sends an older iteration's gradient again, and all count nearly all of the floats as wrong."""
    fill = Values.fill
    monkeypatch.setattr(Values, "fill", lambda self, i: fill(self, 1 if i == 2 and self.rank == 1 else i))
    buckets = ((0, 90_000),)
    replay = dataclasses.replace(REPLAY, shares=(1.0,))
    cluster.write("star(hosts=3)", "ps", training=replay, buckets=buckets, compute=Compute("none"))
    for lines in cluster.run().values():
        ((iteration, count),) = lines[-1]["wrong"]
        assert iteration == 2
        assert count > 0.9 * 90_000


@pytest.mark.parametrize("overlap", ["none", "layer"])
def test_paced_gradients_are_ready_at_the_pace_or_say_so(cluster: Cluster, overlap: str) -> None:
    cluster.write("star(hosts=3)", "ring", overlap=overlap, compute=Compute("paced", PACE_S))
    for lines in cluster.run().values():
        for begun_s, line in _paced_from(lines):
            assert line["ready"] - begun_s - PACE_S > -1e-4
            assert line["overrun_s"] > 0 or line["compute_s"] <= PACE_S


def _paced_from(lines: list[dict[str, Any]]) -> Iterator[tuple[float, dict[str, Any]]]:
    """Each iteration with when its pace began: when the sum before was there, so that it holds the optimizer's step."""
    sum_s = None
    for line in of("iteration", lines):
        yield line["start"] if sum_s is None else sum_s, line
        sum_s = line["sum"]


def test_a_pace_that_is_too_fast_is_counted(cluster: Cluster) -> None:
    cluster.write("star(hosts=2)", "ring", compute=Compute("paced", 1e-6))
    for lines in cluster.run().values():
        for begun_s, line in _paced_from(lines):
            computed_s = line["start"] - begun_s + line["compute_s"]
            assert line["overrun_s"] == pytest.approx(computed_s - 1e-6, abs=1e-6)


def test_mode_none_says_that_its_loss_is_constant(cluster: Cluster) -> None:
    cluster.write("star(hosts=2)", "ring", compute=Compute("none"))
    for lines in cluster.run().values():
        assert len({line["loss"] for line in of("iteration", lines)}) == 1


def test_loss_falls(cluster: Cluster) -> None:
    longer = dataclasses.replace(TRAINING, model="lenet5", batch=16, iterations=15, learning_rate=0.01)
    cluster.write("star(hosts=3)", "ps", training=longer)
    seen = cluster.run()
    loss = np.mean([[line["loss"] for line in of("iteration", lines)] for lines in seen.values()], axis=0)
    assert loss[-3:].mean() < loss[0] / 2


def test_one_worker_alone_trains(cluster: Cluster) -> None:
    alone = Forest(
        "alone", ("h0",), (0,), np.array([1]), np.full((1, 1), ROOT, np.int32), np.full((1, 1), ROOT, np.int32)
    )
    cluster.write_jobs(alone, {0: ()})
    lines = cluster.run()[0]
    check = np.load(cluster.directory / "weights.npy")
    assert relative_error(check, reference(TRAINING, 1).weights) < 1e-6
    assert of("done", lines)[0]["wire_bytes"] == 0


def test_a_node_without_a_rank_adds_and_passes_on(cluster: Cluster) -> None:
    """Two workers below a switch that sums: the tree's root has no gradient of its own."""
    up, down = np.array([[2, 2, ROOT]], np.int32), np.array([[2, 2, ROOT]], np.int32)
    forest = Forest("switch", ("h0", "h1", "s0"), (0, 1), np.array([1]), up, down)
    assert not (forest.reduce == ABSENT).any()
    port = next(_ports)
    peers = {
        0: (Peer(2, "127.0.0.1", "127.0.0.3", port),),
        1: (Peer(2, "127.0.0.2", "127.0.0.3", port + 1),),
        2: (Peer(0, "127.0.0.3", "127.0.0.1", port), Peer(1, "127.0.0.3", "127.0.0.2", port + 1)),
    }
    cluster.write_jobs(forest, peers, overlap="layer")
    seen = cluster.run()
    weights = np.load(cluster.directory / "weights.npy")
    assert relative_error(weights, reference(TRAINING, 2).weights) < 1e-5
    assert [line["kind"] for line in seen[2]] == ["hello", "done"]
    assert "weights_sha256" not in seen[2][-1]


def test_links_are_probed_before_training(cluster: Cluster) -> None:
    cluster.write("star(hosts=2)", "ring")
    port = cluster.jobs[0].peers[0].port + 10
    ends = ("127.77.0.1", "127.77.0.2")
    for node, job in enumerate(cluster.jobs):
        probe = Probe(ends[node], ends[1 - node], ends[1 - node], port, port, 10**9, 0.2)
        cluster.jobs[node] = dataclasses.replace(job, probes=(probe,))
    for node, lines in cluster.run().items():
        assert [line["kind"] for line in lines[:3]] == ["hello", "probe", "begin"]
        assert lines[1]["port_address"] == ends[node]
        assert lines[1]["asked_bps"] == 10**9
        assert lines[1]["rate_bps"] > 10**8
        assert lines[1]["bytes"] > 10**6


def test_a_killed_peer_is_named(cluster: Cluster) -> None:
    cluster.write("star(hosts=3)", "ring", training=dataclasses.replace(TRAINING, iterations=100_000))
    cluster.start()
    until(lambda: of("iteration", cluster.lines(1)))
    os.kill(cluster.pids[1], signal.SIGKILL)
    assert cluster.wait() == {0: 1, 1: -signal.SIGKILL, 2: 1}
    for node in (0, 2):
        last = cluster.lines(node)[-1]
        assert last["kind"] == "error"
    said = cluster.lines(0)[-1]["error"] + cluster.lines(2)[-1]["error"]
    assert "h1" in said
    assert "error: " in cluster.logs()
    assert "Traceback" not in cluster.logs()


def test_sigterm_ends_a_worker_at_once(cluster: Cluster) -> None:
    cluster.write("star(hosts=2)", "ring", training=dataclasses.replace(TRAINING, iterations=100_000))
    cluster.start()
    until(lambda: of("iteration", cluster.lines(0)))
    for pid in cluster.pids.values():
        os.kill(pid, signal.SIGTERM)
    assert cluster.wait() == {0: -signal.SIGTERM, 1: -signal.SIGTERM}


def test_a_worker_whose_peer_never_comes_says_so(cluster: Cluster) -> None:
    cluster.write("star(hosts=2)", "ring", start_timeout_s=0.3)
    del cluster.jobs[1]
    cluster.start()
    assert cluster.wait() == {0: 1}
    assert "h0 could not reach h1" in cluster.lines(0)[-1]["error"]


def test_a_silent_peer_is_named_after_the_timeout(cluster: Cluster) -> None:
    cluster.write("star(hosts=2)", "ring", start_timeout_s=1, timeout_s=1)
    silent = cluster.jobs.pop()
    cluster.start()
    sockets = connect(1, silent.peers, ["h0", "h1"], "reno", 10)
    assert cluster.wait() == {0: 1}
    assert "h1" in cluster.lines(0)[-1]["error"]
    for sock in sockets.values():
        sock.close()


def test_an_unknown_model_is_an_error_line(cluster: Cluster) -> None:
    cluster.write("star(hosts=2)", "ring")
    cluster.jobs = [dataclasses.replace(cluster.jobs[0], training=dataclasses.replace(TRAINING, model="lenet6"))]
    cluster.start()
    assert cluster.wait() == {0: 1}
    assert cluster.lines(0)[-1]["error"].startswith("unknown model 'lenet6'")


def test_a_missing_job_file_fails_with_a_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        assert worker.main([str(tmp_path / "none.json")]) == 1
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert "none.json" in capsys.readouterr().err


def test_reading_a_job_takes_no_torch(tmp_path: Path) -> None:
    """The harness reads jobs, too, when a node has died."""
    cluster = Cluster(tmp_path)
    cluster.write("star(hosts=2)", "ring")
    cluster.jobs[0].save(tmp_path / "job.json")
    script = (
        "import sys; from pathlib import Path; from testbed.workloads.job import WorkerJob;"
        "WorkerJob.load(Path(sys.argv[1]));"
        "print('torch' in sys.modules)"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "job.json")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_jobs_train_is_made_before_their_processes_are_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is missing or broken, or trains what there is not, is an error of its own process alone."""
    expected: list[Any] = []
    cluster = Cluster(tmp_path)
    cluster.write("star(hosts=2)", "ring")
    paths = [tmp_path / f"{name}.json" for name in ("none", "cut", "h0", "h1")]
    paths[1].write_text("{")
    for job, path in zip(cluster.jobs, paths[2:], strict=True):
        job.save(path)
    with monkeypatch.context() as patch:
        patch.setattr(training, "expect", expected.extend)
        worker.expect(paths)
    assert expected == [TRAINING, TRAINING]
    dataclasses.replace(cluster.jobs[0], training=dataclasses.replace(TRAINING, model="lenet6")).save(paths[0])
    worker.expect(paths[:1])
    assert ("lenet6", TRAINING.seed) not in training._made_before_the_fork


def test_the_collector_stays_off_until_all_parts_of_a_process_have_done_their_iterations() -> None:
    before = gc.isenabled()
    with worker._collector_off():
        with worker._collector_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    if not before:
        gc.disable()
