"""Real worker processes and a server over loopback: what they train is what one process trains in the same order."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from testbed.workloads.job import Compute
from testbed.workloads.kinds.asynchronous.ledger import disagreement, problem, staleness
from testbed.workloads.learning import accelerated, training
from testbed.workloads.learning.parts import merged, spans
from testbed.workloads.learning.reference import (
    MOST_REPEATED,
    accuracy,
    reference,
    relative_error,
    repeated,
    training_error,
)
from testbed.workloads.learning.replay import Values
from testbed.workloads.learning.updates import Update

from ...test_worker import PACE_S, REPLAY, TRAINING, Cluster, cluster, of

__all__ = ["cluster"]  # a fixture

WORLD, SERVER = 3, 3
PACED = Compute("paced", PACE_S)
BATCHES = ((0, 90_000),)


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    training.warm_up()


def order_of(
    seen: dict[int, list[dict[str, Any]]], bound: int | None = None, servers: tuple[int, ...] = (SERVER,)
) -> list[Update]:
    """The servers', which must be the workers', too."""
    lines = [line for rank in range(WORLD) for line in of("iteration", seen[rank])]
    orders, stale = [], dict.fromkeys(((line["rank"], line["i"]) for line in lines), 0)
    for number, server in enumerate(servers):
        (done,) = of("done", seen[server])
        order = [Update(*one, number) for one in done["updates"]]
        orders.append(order)
        assert problem(order, WORLD, WORLD * TRAINING.iterations, bound) == ""
        update, version = (f"{name}_{number}" if number else name for name in ("update", "version"))
        known = sorted((line[update], line["rank"], line["i"], line[version]) for line in lines)
        assert known == [(at, one.rank, one.iteration, one.version) for at, one in enumerate(order)]
        for one, missed in zip(order, staleness(order), strict=True):
            stale[one.rank, one.iteration] = max(missed, stale[one.rank, one.iteration])
    assert disagreement(orders) == ""
    assert all(line["staleness"] == stale[line["rank"], line["i"]] for line in lines)
    return merged(orders)


def slow(cluster: Cluster, rank: int, factor: float) -> None:
    job = cluster.jobs[rank]
    cluster.jobs[rank] = dataclasses.replace(job, compute=dataclasses.replace(job.compute, factor=(factor,)))


@pytest.mark.parametrize(("scheme", "bound"), [("async_ps", None), ("ssp(staleness=1)", 1)])
def test_workers_train_as_one_that_makes_the_same_updates(cluster: Cluster, scheme: str, bound: int | None) -> None:
    cluster.write("star(hosts=4)", scheme, compute=PACED)
    slow(cluster, 0, 3.0)
    seen = cluster.run()
    order = order_of(seen, bound)
    counts = [sum(one.rank == rank for one in order) for rank in range(WORLD)]
    assert counts[0] < TRAINING.iterations < max(counts)
    done = [lines[-1] for lines in seen.values()]
    assert len({line["weights_sha256"] for line in done if "weights_sha256" in line}) == 1
    weights = np.load(cluster.directory / "weights.npy")
    again = repeated(TRAINING, WORLD, order)
    assert relative_error(weights, again.weights) < 1e-6
    assert [iteration for iteration, _ in again.accuracy] == [0, 1, 2]
    assert again.accuracy[-1][1] == accuracy(TRAINING, weights)[0]
    # each update is a gradient there and weights back, plus headers, notes and barriers
    least = 2 * WORLD * TRAINING.iterations * 4 * len(weights)
    assert least < sum(line["wire_bytes"] for line in done) < 1.001 * least


@pytest.mark.parametrize(("scheme", "bound"), [("async_ps(servers=2)", None), ("ssp(staleness=1,servers=2)", 1)])
def test_workers_of_several_servers_train_as_one_that_mixes_the_same_versions(
    cluster: Cluster, scheme: str, bound: int | None
) -> None:
    cluster.write("star(hosts=5)", scheme, compute=PACED)
    slow(cluster, 0, 3.0)
    seen = cluster.run()
    order = order_of(seen, bound, (3, 4))
    done = [lines[-1] for lines in seen.values()]
    assert len({line["weights_sha256"] for line in done if "weights_sha256" in line}) == 1
    weights = np.load(cluster.directory / "weights.npy")
    again = repeated(TRAINING, WORLD, order)
    assert relative_error(weights, again.weights) < 1e-6
    assert [iteration for iteration, _ in again.accuracy] == [0, 1, 2]
    assert again.accuracy[-1][1] == accuracy(TRAINING, weights)[0]
    least = 2 * WORLD * TRAINING.iterations * 4 * len(weights)
    assert least < sum(line["wire_bytes"] for line in done) < 1.001 * least


def test_replicas_end_with_their_servers_weights(cluster: Cluster) -> None:
    """And with two servers, each has those of its own; workers have got what replicas had before."""
    cluster.write("star(hosts=7)", "async_ps(servers=2,replication=chain)", compute=PACED)
    seen = cluster.run()
    order = order_of(seen, None, (3, 4))
    weights = np.load(cluster.directory / "weights.npy")
    assert relative_error(weights, repeated(TRAINING, WORLD, order).weights) < 1e-6
    for server, (start, stop) in zip((3, 4), spans(len(weights), 2), strict=True):
        (done,), (kept,) = of("done", seen[server]), of("done", seen[server + 2])
        assert kept["replicated"] == [[rank, iteration] for rank, iteration, _ in done["updates"]]
        digest = hashlib.sha256(weights[start:stop].data).hexdigest()
        assert (kept["part_sha256"], done["part_sha256"]) == (digest, digest)
    least = 3 * WORLD * TRAINING.iterations * 4 * len(weights)
    assert least < sum(lines[-1]["wire_bytes"] for lines in seen.values()) < 1.001 * least


def test_parts_of_one_version_are_the_whole_and_other_versions_show() -> None:
    """With the same order at both servers, as if there were one; with another order at one of them, other weights."""
    alone = [Update(0, 0, 0), Update(1, 0, 0), Update(1, 1, 2), Update(0, 1, 1)]
    both = merged([[dataclasses.replace(one, server=server) for one in alone] for server in (0, 1)])
    once = repeated(TRAINING, 2, alone)
    assert np.array_equal(once.weights, repeated(TRAINING, 2, both).weights)
    assert once.accuracy == repeated(TRAINING, 2, both).accuracy
    mixed = [
        dataclasses.replace(one, version=2) if (one.rank, one.server) == (0, 1) and one.iteration else one
        for one in both
    ]
    assert training_error(repeated(TRAINING, 2, mixed).weights, once.weights, TRAINING) > MOST_REPEATED


def test_in_another_order_other_weights_would_have_come_out(cluster: Cluster) -> None:
    """What :func:`repeated` is worth: one update moved by one place shows."""
    cluster.write("star(hosts=4)", "async_ps")
    order = order_of(cluster.run())
    weights = np.load(cluster.directory / "weights.npy")
    fresh = [dataclasses.replace(one, version=at) for at, one in enumerate(order)]  # as if nothing was ever stale
    assert order != fresh
    assert relative_error(weights, repeated(TRAINING, WORLD, order).weights) < 1e-6
    assert relative_error(weights, repeated(TRAINING, WORLD, fresh).weights) > 1e-5


def test_without_staleness_and_momentum_it_is_synchronous_sgd(cluster: Cluster) -> None:
    plain = dataclasses.replace(TRAINING, momentum=0.0)
    cluster.write("star(hosts=4)", "ssp(staleness=0)", training=plain)
    seen = cluster.run()
    assert max(staleness(order_of(seen, 0))) == WORLD - 1
    weights = np.load(cluster.directory / "weights.npy")
    assert relative_error(weights, reference(plain, WORLD).weights) < 1e-6


def test_one_worker_after_the_other_is_a_larger_world_of_one() -> None:
    """Never stale, and each of all samples: the reference of one rank, whose gradient counts whole."""
    order = [Update(0, i, i) for i in range(TRAINING.iterations)]
    assert np.array_equal(repeated(TRAINING, 1, order).weights, reference(TRAINING, 1).weights)


def test_a_device_with_memory_of_its_own_gets_the_weights(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU stands for the GPU: other buffers, the same copies."""
    monkeypatch.setattr(accelerated, "device_for", lambda _compute, _rank: torch.device("cpu"))
    cluster.write("star(hosts=4)", "async_ps")
    order = order_of(cluster.run())
    weights = np.load(cluster.directory / "weights.npy")
    assert relative_error(weights, repeated(TRAINING, WORLD, order).weights) < 1e-5


@pytest.mark.parametrize("scheme", ["async_ps", "ssp(staleness=1)", "ssp(staleness=1,servers=3)"])
def test_a_profile_is_played_and_all_that_comes_back_is_right(cluster: Cluster, scheme: str) -> None:
    replay = dataclasses.replace(REPLAY, iterations=4, shares=(1.0,))
    cluster.write(
        "star(hosts=6)" if "servers" in scheme else "star(hosts=4)",
        scheme,
        training=replay,
        buckets=BATCHES,
        compute=Compute("paced", 0.02),
    )
    slow(cluster, 1, 4.0)
    seen = cluster.run()
    assert sum(seen[rank][-1]["checked"] for rank in range(WORLD)) == WORLD * replay.iterations
    for rank in range(WORLD):
        assert seen[rank][-1]["wrong"] == []
        assert len(of("iteration", seen[rank])) == seen[rank][-1]["checked"]


def test_a_wrong_gradient_is_counted_by_all_who_get_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 sends its first gradient again in place of the second."""
    fill = Values.fill
    monkeypatch.setattr(Values, "fill", lambda self, i: fill(self, 0 if i == 1 and self.rank == 1 else i))
    replay = dataclasses.replace(REPLAY, iterations=4, shares=(1.0,))
    cluster.write("star(hosts=4)", "ssp(staleness=0)", training=replay, buckets=BATCHES, compute=Compute("none"))
    seen = cluster.run()
    for rank in range(WORLD):
        wrong = dict(seen[rank][-1]["wrong"])
        assert sorted(wrong) == [1, 2, 3]
        assert min(wrong.values()) > 0.9 * 90_000


def test_a_server_that_never_comes_is_named(cluster: Cluster, tmp_path: Path) -> None:
    cluster.write("star(hosts=3)", "async_ps", start_timeout_s=0.3)
    del cluster.jobs[2]
    cluster.start()
    assert cluster.wait() == {0: 1, 1: 1}
    assert "h0 could not reach h2" in cluster.lines(0)[-1]["error"]
    assert "Traceback" not in (tmp_path / "0.log").read_text()
