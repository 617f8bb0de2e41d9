"""What workers and their server say of an asynchronous trial, and what follows for its theory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from testbed.base.errors import WorkerError
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.model import Trial
from testbed.workloads.kinds.asynchronous.account import attribute, orders, updates_a_round
from testbed.workloads.kinds.base import Told
from testbed.workloads.learning.parts import merged
from testbed.workloads.learning.updates import Update
from testbed.workloads.sync.forest import Forest

from ....testbed.conftest import SPEC

ORDER = [Update(0, 0, 0), Update(0, 1, 1), Update(1, 0, 0), Update(0, 2, 2), Update(0, 3, 4), Update(1, 1, 3)]


def made(scheme: str, perturb: str = "[]") -> Trial:
    """Two workers and a server, three iterations."""
    text = SPEC.replace("compute: none", "compute: {mode: paced, pace: {2: 0.1 s}}").replace(
        "scheme: ps", f"scheme: {scheme}"
    )
    text = text.replace("seed: 1", f"seed: 1\nperturb: {perturb}")
    return trials(read(text, "spec.yaml", Path()))[0]


def plan(scheme: str) -> Forest:
    return made(scheme).job.plan


@pytest.fixture
def samples() -> pd.DataFrame:
    rows = [(at, one.rank, one.iteration, one.version) for at, one in enumerate(ORDER)]
    return pd.DataFrame(rows, columns=["update", "rank", "iteration", "version"]).sort_values(["rank", "iteration"])


def said(updates: list[Update]) -> list[dict[str, object]]:
    return [{"name": "h0"}, {"name": "h2", "updates": [[one.rank, one.iteration, one.version] for one in updates]}]


_OTHER = [(1, 0, 0), (0, 0, 0), (0, 1, 2), (1, 1, 1), (0, 2, 3), (0, 3, 5)]
OTHER = [Update(*one, server=1) for one in _OTHER]
"""The same updates as another server applied them."""


def said_by_both(other: list[Update]) -> list[dict[str, object]]:
    return [*said(ORDER), {"name": "h3", "updates": [[one.rank, one.iteration, one.version] for one in other]}]


def made_by_both(scheme: str = "async_ps(servers=2)") -> Trial:
    """Two workers, two servers."""
    text = SPEC.replace("compute: none", "compute: {mode: paced, pace: {2: 0.1 s}}")
    return trials(
        read(text.replace("star(hosts=3), scheme: ps", f"star(hosts=4), scheme: {scheme}"), "s.yaml", Path())
    )[0]


def test_the_servers_order_is_taken_if_the_scheme_could_have_made_it() -> None:
    assert orders(plan("async_ps"), said(ORDER), 3) == [ORDER]
    with pytest.raises(WorkerError) as caught:
        orders(plan("ssp(staleness=1)"), said(ORDER), 3)
    assert caught.value.problem == (
        "the server's updates are not those of scheme ssp(staleness=1): "
        "worker 0 began iteration 2 when it was 2 ahead of the slowest"
    )


def test_an_update_that_is_missing_fails_the_trial() -> None:
    with pytest.raises(WorkerError, match="5 updates were applied, of 6"):
        orders(plan("async_ps"), said(ORDER[:-1]), 3)


def test_workers_must_tell_the_servers_story(samples: pd.DataFrame) -> None:
    assert attribute(samples, [ORDER]) is samples
    other = [*ORDER[:4], replace(ORDER[4], version=3), ORDER[5]]
    with pytest.raises(WorkerError) as caught:
        attribute(samples, [other])
    assert caught.value.problem == (
        "update 4 is Update(rank=0, iteration=3, version=3, server=0) to the server, and (4, 0, 3, 4) to worker 0"
    )
    with pytest.raises(WorkerError, match="workers have samples of 5 updates, the server of 6"):
        attribute(samples[samples["update"] < 5], [ORDER])


def test_all_servers_must_have_applied_the_same_updates(samples: pd.DataFrame) -> None:
    forest = made_by_both().job.plan
    assert orders(forest, said_by_both(OTHER), 3) == [ORDER, OTHER]
    known = {(one.rank, one.iteration): (at, one.version) for at, one in enumerate(OTHER)}
    whose = list(zip(samples["rank"], samples["iteration"], strict=True))
    both = samples.assign(update_1=[known[one][0] for one in whose], version_1=[known[one][1] for one in whose])
    assert attribute(both, [ORDER, OTHER]) is both
    with pytest.raises(WorkerError, match=r"update 0 is Update\(rank=1, .*server=1\) to the server, and"):
        attribute(both.assign(version_1=7), [ORDER, OTHER])
    fewer = [*OTHER[:3], Update(0, 2, 3, 1), Update(0, 3, 4, 1), Update(0, 4, 5, 1)]
    with pytest.raises(WorkerError) as caught:
        orders(forest, said_by_both(fewer), 3)
    assert caught.value.problem == (
        "the servers h2, h3 do not agree: iteration 4 of worker 0 was applied by one of servers 0 and 1 only"
    )
    late = [replace(OTHER[0], version=1), *OTHER[1:]]
    with pytest.raises(WorkerError, match="the updates of h3 are not those of scheme async_ps"):
        orders(forest, said_by_both(late), 3)


@pytest.mark.parametrize(
    ("replicated", "digest", "problem"),
    [
        ([[one.rank, one.iteration] for one in ORDER], "a1", ""),
        ([[one.rank, one.iteration] for one in ORDER], "b2", "the replica h3 ended with other weights than"),
        ([[one.rank, one.iteration] for one in ORDER[:-1]], "a1", "the replica h3 has other updates than"),
    ],
)
def test_a_replica_must_have_what_its_server_has(replicated: list[list[int]], digest: str, problem: str) -> None:
    forest = made_by_both("async_ps(replication=chain)").job.plan
    (server,) = (line for line in said(ORDER) if "updates" in line)
    done = [{**server, "part_sha256": "a1"}, {"name": "h3", "replicated": replicated, "part_sha256": digest}]
    if not problem:
        assert orders(forest, done, 3) == [ORDER]
        return
    with pytest.raises(WorkerError, match=f"{problem} the server h2"):
        orders(forest, done, 3)


def test_each_servers_link_carries_its_part_of_all_updates(samples: pd.DataFrame) -> None:
    trial = made_by_both()
    forest, size = trial.job.plan, 4 * trial.job.floats
    both = samples.assign(update_1=0, version_1=0)
    told = Told(both, merged([ORDER, OTHER]), updates_a_round(both, 2, 3))
    found = trial.job.kind.cost_as_run(forest, trial.network.topology, size, told)
    assert found is not None
    by_host = 3 * found.link_bytes.reshape(-1, 2) / size
    assert by_host[:, 0].tolist() == pytest.approx([4, 2, 3, 3])
    assert by_host[:, 1].tolist() == pytest.approx([4, 2, 3, 3])


def test_theory_is_of_as_many_updates_as_each_worker_made(samples: pd.DataFrame) -> None:
    trial = made("async_ps")
    told = trial.job.kind.told(trial.job.plan, samples, said(ORDER), 3)
    size = 4 * trial.job.floats
    found = trial.job.kind.cost_as_run(trial.job.plan, trial.network.topology, size, told)
    assert found is not None
    assert found.wire_bytes == pytest.approx(trial.job.cost.wire_bytes)
    by_host = 3 * found.link_bytes.reshape(-1, 2)[:, 0] / size
    assert by_host.tolist() == pytest.approx([4, 2, 6])


def test_the_least_jct_is_that_of_workers_alone_or_of_the_busiest_link() -> None:
    """LeNet-5 takes 0.55 s a way at 200 Mbit/s: two workers keep the server's link busy; slow ones do not."""
    trial = made("async_ps")
    way_s = trial.job.gst_theory_s / 2
    early_bytes = 25_000 + 65_536 * 1514 / 1448  # a bucket of 1 ms, and the last packet
    assert way_s == pytest.approx((4 * 3_274_634 * 1514 / 1448 - early_bytes) * 8 / 200e6)
    assert trial.job.jct_theory_s == pytest.approx(3 * max(2 * way_s, 0.1 + 2 * way_s))
    slow = made("async_ps", "[{kind: slow, workers: [h0], slowdown: 20}]")
    rate = 1 / (2.0 + 2 * way_s) + 1 / (0.1 + 2 * way_s)
    assert slow.jct_theory_s == pytest.approx(6 / rate)
    assert slow.jct_theory_s < made("ps(colocated=false)", "[{kind: slow, workers: [h0], slowdown: 20}]").jct_theory_s  # type: ignore[operator]
