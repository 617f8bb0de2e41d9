"""Checkpoints: who writes what, how fast, and that it is there."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.job import Compute
from testbed.workloads.learning import training
from testbed.workloads.learning.checkpoint import Checkpoint, Keeper, part

from ..test_worker import TRAINING, Cluster, cluster, of

__all__ = ["cluster"]  # a fixture
FAST = 1e12


@given(st.integers(1, 300), st.integers(1, 12), st.data())
def test_each_float_is_written_by_as_many_workers_as_asked(floats: int, world: int, data: st.DataObject) -> None:
    spread = data.draw(st.integers(1, world))
    count = np.zeros(floats, int)
    for rank in range(world):
        spans = part(floats, (spread, world, rank))
        for start, stop in spans:
            count[start:stop] += 1
        assert sum(stop - start for start, stop in spans) <= -(-floats * spread // world)
    assert (count == spread).all()


def test_the_last_complete_checkpoint_stays(tmp_path: Path) -> None:
    weights = np.arange(10, dtype=np.float32)
    keeper = Keeper(Checkpoint(3, FAST, str(tmp_path / "checkpoint"), 7), lambda: weights)
    found = []
    for done in range(8):
        weights += 1
        keeper.after(done)
        found.append(np.fromfile(tmp_path / "checkpoint", np.float32).tolist() if keeper.count else None)
    first, second = (list(range(begin, begin + 10)) for begin in (4, 7))
    assert found == [None, None, None, first, first, first, second, second]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert keeper.said() == {"checkpoints": 2, "checkpoint_bytes": 80, "checkpoint_s": keeper.took_s}


def test_updates_that_are_applied_together_make_one_checkpoint(tmp_path: Path) -> None:
    keeper = Keeper(Checkpoint(3, FAST, str(tmp_path / "checkpoint"), 20), lambda: np.zeros(1, np.float32))
    assert [keeper.after(done) for done in (0, 2, 5, 5, 6, 13, 14, 19, 20)] == [
        *(False, False, True, False, True, True, False, True, False)
    ]


def test_a_checkpoint_takes_its_time(tmp_path: Path) -> None:
    """1 MB at 10 MB/s. The disk may be slower, and never seems faster."""
    weights, begun_s = np.zeros(250_000, np.float32), time.monotonic()
    keeper = Keeper(Checkpoint(1, 1e7, str(tmp_path / "checkpoint"), 2), lambda: weights)
    keeper.after(1)
    assert 0.1 <= keeper.took_s <= time.monotonic() - begun_s


def test_something_else_goes_on_from_the_beginning_until_all_is_written(tmp_path: Path) -> None:
    weights, seen = np.zeros(10_000, np.float32), list[int]()
    keeper = Keeper(Checkpoint(1, 1e6, str(tmp_path / "checkpoint"), 9), lambda: weights)

    def look() -> None:
        part = tmp_path / "checkpoint.part"
        seen.append(1 if part.exists() else 0)

    keeper.after(1, look)
    assert seen[0] == 0
    assert sum(seen) >= 2, "in 40 ms, and a piece is written at once"
    del seen[:]
    keeper.after(1, look)
    assert seen == [], "there was nothing to write"


def test_without_checkpoints_nothing_is_written_or_told() -> None:
    keeper = Keeper(None, lambda: np.zeros(1, np.float32))
    keeper.after(1)
    assert keeper.said() == {}


@pytest.mark.parametrize(
    ("hosts", "scheme", "writers", "total"),
    [
        (3, "ring", {0: None}, TRAINING.iterations),
        (3, "ring", {rank: (2, 3, rank) for rank in range(3)}, TRAINING.iterations),
        (4, "async_ps(servers=2)", {2: None, 3: None}, 2 * TRAINING.iterations),
    ],
)
def test_processes_write_their_parts_while_they_train(
    cluster: Cluster, hosts: int, scheme: str, writers: dict[int, tuple[int, int, int] | None], total: int
) -> None:
    training.warm_up()
    cluster.write(f"star(hosts={hosts})", scheme, compute=Compute("real"))
    for at, job in enumerate(cluster.jobs):
        if job.node in writers:
            path = str(cluster.directory / f"{job.node}.checkpoint")
            asked = Checkpoint(1, FAST, path, total, writers[job.node])
            cluster.jobs[at] = dataclasses.replace(job, checkpoint=asked)
    seen = cluster.run()
    floats = cluster.jobs[0].buckets[-1][1]
    written = {}
    for node, share in writers.items():
        (done,) = of("done", seen[node])
        spans = part(floats, share) if len(writers) != 2 else [(0, floats // 2)]
        size = 4 * sum(stop - start for start, stop in spans)
        assert (done["checkpoints"], done["checkpoint_bytes"]) == (total - 1, (total - 1) * size)
        written[node] = np.fromfile(cluster.directory / f"{node}.checkpoint", np.float32)
        assert written[node].nbytes == size
    for node in set(seen) - set(writers):
        assert "checkpoints" not in of("done", seen[node])[0]
    if scheme == "ring" and len(writers) > 1:  # what two workers wrote of the same floats is the same
        middle = floats // 3
        assert np.array_equal(written[0][middle:], written[1][: len(written[0]) - middle])


def test_an_iterations_pace_begins_after_the_checkpoint(cluster: Cluster) -> None:
    """Else a checkpoint would take no time where workers are paced."""
    training.warm_up()
    cluster.write("star(hosts=2)", "ring", compute=Compute("paced", pace_s=0.3))
    asked = Checkpoint(1, 2e6, str(cluster.directory / "checkpoint"), TRAINING.iterations)
    cluster.jobs[0] = dataclasses.replace(cluster.jobs[0], checkpoint=asked)
    found = of("iteration", cluster.run()[0])
    assert all(one["ready"] - one["start"] >= 0.3 for one in found)
