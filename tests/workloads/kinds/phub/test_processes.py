"""Real processes over loopback: they meet, get access, and every sum of a profile is right."""

from __future__ import annotations

import gc
import json
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.topologies.addressing import plan
from testbed.topologies.build import build as build_topology
from testbed.trial.ports import SYNC_PORT, Ports
from testbed.workloads import kinds, worker
from testbed.workloads.bursts.probe import Measured, measure
from testbed.workloads.job import Compute, Peer, Replay, WorkerJob
from testbed.workloads.kinds.phub.api import Handle
from testbed.workloads.kinds.phub.memory import Memory
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.sync.schemes import build_plan
from tests import ports
from tests.patience import until

TENSORS = (3000, 1000, 2000)
REPLAY = Replay(iterations=3, seed=3, shares=(0.5, 0.5))
_first_ports = ports.blocks(40)


def jobs(made: Plan, expression: str, folder: Path) -> list[WorkerJob]:
    """One for each process, as the harness writes them, at addresses in 127.0.0.0/8."""
    topology = build_topology(expression, rate_bps=10**9)
    processes = {process.name: process for process in made.processes()}
    numbers, first, addresses = Ports(processes, len(topology.nodes)), next(_first_ports), plan(topology)
    kinds.save(made, folder / "plan.npz")
    found = []
    for name, process in processes.items():
        peers = []
        for other in map(processes.__getitem__, process.meets):
            only = min((end.connection for end in (process, other) if end.connection is not None), default=0)
            local, remote = (
                "127" + address.removeprefix("10") for address in addresses.flow(process.node, other.node, only)
            )
            port = numbers.of(process, other) - SYNC_PORT + first
            peers.append(Peer(other.node, local, remote, port, other.name))
        job = WorkerJob(
            node=process.node,
            name=name,
            rank=process.parts[0].rank,
            world=len(made.workers),
            forest=str(folder / "plan.npz"),
            peers=tuple(peers),
            training=REPLAY,
            compute=Compute("none"),
            overlap="layer",
            buckets=((0, 4000), (4000, 6000)),
            chunk_bytes=1 << 13,
            congestion_control="reno",
            start_timeout_s=10,
            timeout_s=2,
            samples=str(folder / f"{name}.jsonl"),
        )
        found.append(job)
    return found


def test_a_job_that_fails_leaves_no_memory_in_processes_that_go_on_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs, each part in a thread as in a shared process, which does not collect garbage meanwhile. The worker h0
    of the first ends after an iteration; the second job takes a second."""
    memories: dict[str, weakref.ref[Memory]] = {}

    class Watched(Memory):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            memories[threading.current_thread().name] = weakref.ref(self)

    def begin(job: WorkerJob) -> int:
        threading.current_thread().name = job.job
        return worker._status(partial(worker._do, job))

    monkeypatch.setattr("testbed.workloads.kinds.phub.node.Memory", Watched)
    monkeypatch.setattr(gc, "enable", lambda: None)
    made = build_plan("pbox", build_topology("star(hosts=3)", rate_bps=10**9), TENSORS)
    assert isinstance(made, Plan)
    parts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for job in jobs(made, "star(hosts=3)", tmp_path / name):
            short = replace(REPLAY, iterations=1) if (name, job.name) == ("a", "h0") else REPLAY
            compute = Compute("paced", 0.0 if name == "a" else 0.3)
            parts.append(replace(job, name=f"{name}/{job.name}", job=name, training=short, compute=compute))
    try:
        with ThreadPoolExecutor(len(parts)) as threads:
            done = {job.name: threads.submit(begin, job) for job in parts}
            assert done["a/h2.core0"].result(20) == 1
            assert "lost the connection to h0" in (tmp_path / "a/h2.core0.jsonl").read_text()
            until(lambda: "b" in memories and memories["a"]() is None)  # once the thread's frame is gone
            assert not done["b/h2.core0"].done()
            assert memories["b"]() is not None, "the other job has its own"
            assert {name: one.result(20) for name, one in done.items() if name[0] == "b"} == dict.fromkeys(
                ["b/h0", "b/h1", "b/h2.core0", "b/h2.manager"], 0
            )
    finally:
        monkeypatch.undo()
        gc.enable()


def fates(made: Plan, expression: str, folder: Path) -> dict[str, int]:
    """Run all processes, forked from this one; return the exit code of each."""
    pids = {}
    for job in jobs(made, expression, folder):
        path = folder / f"{job.name}.json"
        job.save(path)
        pid = os.fork()
        if pid == 0:
            output = os.open(folder / f"{job.name}.log", os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.argv = [job.name]
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", 1)  # pytest has put others here
            os._exit(worker.main([str(path)]))
        pids[job.name] = pid
    return {name: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for name, pid in pids.items()}


def last_lines(names: Iterable[str], folder: Path) -> dict[str, dict[str, Any]]:
    return {name: json.loads((folder / f"{name}.jsonl").read_text().splitlines()[-1]) for name in names}


def run(made: Plan, expression: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Run all processes to their end; return the last line of each."""
    statuses = fates(made, expression, folder)
    logs = "\n".join(f"{path.name}: {path.read_text()}" for path in sorted(folder.glob("*.log")))
    assert statuses == dict.fromkeys(statuses, 0), logs
    return last_lines(statuses, folder)


@pytest.mark.parametrize(
    ("scheme", "network"),
    [
        ("pbox(key_bytes=2048)", "star(hosts=4)"),
        ("pbox(key_bytes=2048,cores=2,aggregation=wide)", "star(hosts=3,server_nics=2,routing=every_nic)"),
        pytest.param(
            *("pbox(key_bytes=2048,affinity=worker)", "star(hosts=5,server_nics=3,routing=every_nic)"),
            marks=pytest.mark.rehearse,
        ),
        ("pbox(key_bytes=2048,affinity=worker,cores=2)", "star(hosts=3,server_nics=3,routing=every_nic)"),
        pytest.param(
            "pbox(key_bytes=2048,boxes=rack)",
            "spine_leaf(racks=2,hosts_per_rack=3,spines=1,server_nics=2,routing=every_nic)",
            marks=pytest.mark.rehearse,
        ),
        (
            "pbox(key_bytes=2048,boxes=rack,across=ps)",
            "spine_leaf(racks=2,hosts_per_rack=3,spines=1,server_nics=2,routing=every_nic)",
        ),
        ("pbox(key_bytes=2048,boxes=rack,across=ring)", "spine_leaf(racks=3,hosts_per_rack=2,spines=1)"),
        ("pbox(key_bytes=0)", "star(hosts=4,server_nics=3,routing=every_nic)"),
        ("pbox(key_bytes=2048,colocated=true)", "star(hosts=3)"),
    ],
)
def test_every_sum_is_right(scheme: str, network: str, tmp_path: Path) -> None:
    made = build_plan(scheme, build_topology(network, rate_bps=10**9), TENSORS)
    assert isinstance(made, Plan)
    done = run(made, network, tmp_path)
    for node in made.workers:
        line = done[made.nodes[node]]
        assert (line["kind"], line["wrong"], line["checked"]) == ("done", [], REPLAY.iterations)
    cores = [done[name] for name in made.cores_at]
    assert sum(line["wire_bytes"] for line in cores) > 0
    assert all(line["kind"] == "done" for line in done.values())


def test_vital_signs_are_those_of_the_training_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager that only gives access is watched for a moment. A worker measures its links for longer before."""

    def slowly(*asked: Any) -> list[Measured]:
        found = measure(*asked)
        time.sleep(0.3 if sys.argv[0] == "h0" else 0.0)
        return found

    monkeypatch.setattr(worker, "measure", slowly)
    made = build_plan("pbox", build_topology("star(hosts=3)", rate_bps=10**9), TENSORS)
    assert isinstance(made, Plan)
    assert run(made, "star(hosts=3)", tmp_path)[made.manager]["watched_s"] < 0.2


def test_no_file_of_a_trial_has_its_nonce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nonce = bytes.fromhex("00c0ffee" * 4)
    monkeypatch.setattr(secrets, "token_bytes", lambda count: nonce[:count])
    made = build_plan("pbox", build_topology("star(hosts=3)", rate_bps=10**9), TENSORS)
    assert isinstance(made, Plan)
    run(made, "star(hosts=3)", tmp_path)
    told = [path.read_bytes() for path in tmp_path.iterdir()]
    assert len(told) > 2 * len(made.processes())
    for text in told:
        assert nonce not in text
        assert nonce.hex().encode() not in text
        assert repr(nonce).encode() not in text


def test_a_core_names_the_worker_that_shows_a_wrong_nonce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    show = Handle.show

    def wrongly(handle: Handle, sock: Any) -> None:
        """As rank 1 would that guesses."""
        guessed = sys.argv[0] == "h1"
        show(Handle(handle.namespace, b"guessed, 16bytes") if guessed else handle, sock)

    monkeypatch.setattr(Handle, "show", wrongly)
    made = build_plan("pbox", build_topology("star(hosts=3)", rate_bps=10**9), TENSORS)
    assert isinstance(made, Plan)
    with pytest.raises(AssertionError):
        run(made, "star(hosts=3)", tmp_path)
    (error,) = [json.loads(line) for line in (tmp_path / "h2.core0.jsonl").read_text().splitlines()]
    assert error["error"] == "h1 came with a wrong nonce"
