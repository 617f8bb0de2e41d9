"""What a process may not be told by which other one: an error that names both, and no traceback."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import WorkerError
from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.plan import Options, fabric
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.processes.daemon import Daemon
from testbed.workloads.kinds.fabric.processes.messages import Gone, Gradient, Note, Ready
from testbed.workloads.kinds.fabric.processes.scheduler import Scheduler
from testbed.workloads.kinds.fabric.processes.server import Served, Server
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.link_rates import Follower

PLAN = fabric(build("star(hosts=4)", rate_bps=10**9), "test", Options(), 1)
"""Two workers, on nodes 0 and 1."""
ALONE = ((1.0, 1.0),)
UPDATES = 6


@pytest.mark.parametrize(
    ("source", "note", "problem"),
    [
        (0, Ready(1, 0, 1.0), "update 1 is the worker's on node 1, not on node 0"),
        (PLAN.server, Ready(0, 0, 1.0), f"update 0 is the worker's on node 0, not on node {PLAN.server}"),
        (0, Ready(-2, 0, 1.0), "there is no update -2: each of 2 workers has at most 6"),
        (0, Ready(2 * UPDATES, 0, 1.0), "there is no update 12: each of 2 workers has at most 6"),
        (PLAN.server, Gone(PLAN.scheduler, ()), r"node 3 may not be lost, only nodes \[0, 1\]"),
        (PLAN.server, Gone(9, ()), "node 9 may not be lost"),
    ],
)
def test_a_scheduler_hears_of_a_worker_only_what_can_be(tmp_path: Path, source: int, note: Note, problem: str) -> None:
    ours, theirs = socket.socketpair()
    rates = Follower(tmp_path / "rates", 2 * len(PLAN.links))
    with theirs, Scheduler(PLAN, {source: ours}, Work(12.0, UPDATES, 0.0, 1, 1.0), rates) as scheduler:
        with pytest.raises(WorkerError, match=f"from {PLAN.nodes[source]}, and does not expect it") as found:
            scheduler._came(scheduler._by_node[source], note, None)
        found.match(problem)


@pytest.mark.parametrize("number", [0, 2 * UPDATES - 2])
def test_a_fast_worker_may_have_more_updates_than_others(tmp_path: Path, number: int) -> None:
    ours, theirs = socket.socketpair()
    rates = Follower(tmp_path / "rates", 2 * len(PLAN.links))
    with theirs, Scheduler(PLAN, {0: ours}, Work(12.0, UPDATES, 0.0, 1, 1.0), rates) as scheduler:
        scheduler._came(scheduler._by_node[0], Ready(number, 0, 1.0), None)
        assert number in scheduler._planner._waiting


UPDATE = Gradient((0,), (0,), ALONE, 0, 1, norms=(0.0,))


@pytest.mark.parametrize(
    "note",
    [
        replace(UPDATE, members=(0, 2), versions=(0, 0), shares=2 * ALONE, norms=(0.0, 0.0)),
        replace(UPDATE, sums=2),
        replace(UPDATE, versions=()),
        replace(UPDATE, norms=()),
        replace(UPDATE, members=(), versions=(), shares=(), norms=()),
    ],
)
def test_an_aggregator_gets_one_update_at_a_time(note: Gradient) -> None:
    ours, theirs = socket.socketpair()
    worker, other = socket.socketpair()
    with theirs, other, Daemon(PLAN, 1, {0: ours}, worker, Memory.make(3), 0.9) as daemon:
        source = daemon._by_node[0]
        assert daemon._room(source, UPDATE) is not None
        with pytest.raises(WorkerError, match="h0, and does not expect it"):
            daemon._room(source, note)


@pytest.mark.parametrize(
    "note",
    [
        Gradient((), (), (), 0, 1),
        Gradient((0,), (), ALONE, 0, 1),
        Gradient((0,), (0,), (), 0, 1),
        Gradient((0,), (0,), ALONE, 0, 3),
        Gradient((0,), (0,), ALONE, 0, 1, 1),
        replace(UPDATE, norms=(0.0, 0.0)),
    ],
)
def test_a_server_takes_a_sum_of_something(note: Gradient) -> None:
    ours, theirs = socket.socketpair()
    served = Served((np.zeros(3, np.float32),), lambda *_: None)
    with theirs, Server(PLAN, PLAN.server, {0: ours}, served) as server:
        source = server._by_node[0]
        assert server._room(source, UPDATE) is not None
        with pytest.raises(WorkerError, match="h0, and does not expect it"):
            server._room(source, note)
