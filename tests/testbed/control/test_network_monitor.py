"""What the network monitor tells of links that perturbations have changed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from testbed.control.network_monitor import EVERY_S, NetworkMonitor, shaped
from testbed.lab.base import LinkChange
from testbed.perturb.conductor import Record
from topologies.build import build
from workloads.link_rates import NAME, Follower

STAR = build("star(hosts=2)", rate_bps=100)


def done(*links: LinkChange, **other: Any) -> Record:
    return Record("rate", "slow", begun_s=1.0, links=links, **({"done_s": 2.0} | other))


def test_links_have_the_rate_that_they_were_given_last() -> None:
    records = [done(LinkChange(1, rate_bps=10), LinkChange(2, rate_bps=20)), done(LinkChange(1, rate_bps=100))]
    assert shaped(STAR, records) == {0: 100, 1: 100, 2: 20, 3: 100}


def test_a_link_that_carries_nothing_has_rate_0_until_it_carries_again() -> None:
    cut = done(LinkChange(0, blocked=True))
    assert shaped(STAR, [cut])[0] == 0
    assert shaped(STAR, [cut, done(LinkChange(0, blocked=False))])[0] == 100


def test_what_is_not_done_or_failed_has_changed_nothing() -> None:
    change = LinkChange(0, rate_bps=1)
    assert shaped(STAR, [done(change, done_s=None), done(change, error="refused")])[0] == 100


def test_each_change_is_told_once(tmp_path: Path) -> None:
    records: list[Record] = []
    context = SimpleNamespace(
        trial=SimpleNamespace(topology=STAR), files=SimpleNamespace(work=tmp_path), records=records
    )
    follower = Follower(tmp_path / NAME, 4)
    with NetworkMonitor(context) as monitor:  # type: ignore[arg-type]
        assert monitor.look(None) == EVERY_S  # type: ignore[arg-type]
        assert follower.new() == []
        records.append(done(LinkChange(1, rate_bps=10)))
        for _ in range(2):
            monitor.look(None)  # type: ignore[arg-type]
        ((_, rates_bps),) = follower.new()
        assert rates_bps == {1: 10}
