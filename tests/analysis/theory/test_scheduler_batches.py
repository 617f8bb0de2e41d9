"""Batches like the paper's, and for how long they are timed."""

from __future__ import annotations

import random

import pytest

from testbed.analysis.theory import scheduler_batches
from testbed.analysis.theory.scheduler_batches import CHANCES, RATE_BPS, VERSION, made, measured_ms, timed_ms


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("count", [4, 40])
def test_a_batch_is_as_section_7_has_it(count: int, servers: int) -> None:
    topology, batch, rates = made(count, CHANCES[1], random.Random(0), servers)
    workers = max(30, count)
    assert topology.host_count == workers + servers + 1
    assert len({one.worker for one in batch.updates}) == len(batch.updates) == count
    assert all(10e6 <= sum(one.sizes_bytes) <= 100e6 for one in batch.updates)
    assert all(VERSION - 2 * count < one.version <= VERSION for one in batch.updates)
    assert len(batch.aggregators) == workers // 5
    assert batch.replication is not None
    assert not {*batch.aggregators} & {*batch.replication.aggregators}
    assert {rate_bps for ((_, rate_bps),) in rates.values()} == {0.1 * RATE_BPS, RATE_BPS}


def test_a_batch_is_timed() -> None:
    assert timed_ms(*made(4, CHANCES[0], random.Random(0))) > 0


@pytest.mark.parametrize(("most_s", "count"), [(1e9, 6), (0.0, 2)])
def test_each_kind_of_rates_is_timed_once_at_least(monkeypatch: pytest.MonkeyPatch, most_s: float, count: int) -> None:
    seen: list[tuple[float, ...]] = []

    def noted(_: int, chances: tuple[float, ...], __: random.Random) -> tuple[()]:
        seen.append(chances)
        return ()

    monkeypatch.setattr(scheduler_batches, "made", noted)
    monkeypatch.setattr(scheduler_batches, "timed_ms", lambda: 1.0)
    assert measured_ms(4, 3, most_s) == [1.0] * count
    assert seen == [*CHANCES] * (count // 2)
