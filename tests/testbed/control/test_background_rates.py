"""What links carry besides a trial's own connections."""

from __future__ import annotations

import pytest

from testbed.control.background_rates import BackgroundRates
from testbed.lab.measurements import Passed, Stream, Traffic
from testbed.topologies.addressing import plan
from testbed.topologies.build import build

STAR = build("star(hosts=3)", rate_bps=10**8)
A, B = plan(STAR).flow(0, 1)


def _both(sent: int, received: int, port: int = 40000) -> tuple[Stream, Stream]:
    return Stream(A, B, (port, 10001), sent, 0), Stream(B, A, (10001, port), 0, received)


def traffic(at_s: float, sent: int, received: int, links: dict[int, tuple[int, int]]) -> Traffic:
    """h0 has sent so much to h1, which has got so much of it."""
    passed = [Passed(link, *links.get(link, (0, 0))) for link in range(6)]
    return Traffic(tuple(passed), _both(sent, received), at_s, 0.001)


def test_what_is_on_its_way_is_nobodys() -> None:
    rates = BackgroundRates(STAR)
    assert rates.since(traffic(1.0, 0, 0, {})) == {}
    # Of 900 bytes 300 wait at h0's NIC; h1 has got what has left at the switch.
    found = rates.since(traffic(2.0, 900, 500, {0: (600, 300), 3: (500, 100)}))
    assert set(found.values()) == {0.0}


def test_the_rest_is_other_traffic_by_link() -> None:
    rates = BackgroundRates(STAR)
    rates.since(traffic(1.0, 1000, 1000, {0: (1000, 0), 3: (1000, 0)}))
    found = rates.since(traffic(1.1, 2000, 2000, {0: (2050, 0), 3: (2000, 0), 4: (70, 0)}))
    assert {link: round(rate_bps) for link, rate_bps in found.items() if rate_bps} == {0: 4000, 4: 5600}


def test_a_connection_that_has_ended_leaves_a_link_unjudged_once() -> None:
    rates = BackgroundRates(STAR)
    rates.since(traffic(1.0, 1000, 1000, {0: (1000, 0), 3: (1000, 0)}))
    ended = traffic(2.0, 0, 0, {0: (1000, 0), 3: (1000, 0)})._replace(streams=())
    assert set(rates.since(ended)) == {4, 5}
    assert set(rates.since(ended._replace(at_s=3.0)).values()) == {0.0}


def test_a_connection_that_has_ended_leaves_its_links_unjudged_though_another_has_sent_more() -> None:
    rates = BackgroundRates(STAR)
    one, other, grown = _both(10**6, 10**6, 1), _both(10**6, 10**6, 2), _both(4 * 10**6, 4 * 10**6, 2)
    rates.since(traffic(1.0, 0, 0, {0: (2 * 10**6, 0), 3: (2 * 10**6, 0)})._replace(streams=one + other))
    later = traffic(1.1, 0, 0, {0: (5 * 10**6, 0), 3: (5 * 10**6, 0)})._replace(streams=grown)
    assert rates.since(later) == {4: 0.0, 5: 0.0}
    assert set(rates.since(later._replace(at_s=1.2)).values()) == {0.0}


def test_addresses_of_nobody_are_left_out() -> None:
    rates = BackgroundRates(STAR)
    strange = Traffic(
        (Passed(0, 5, 0),),
        (Stream("127.0.0.1", "127.0.0.1", (1, 2), 9, 9), Stream(A, "10.99.0.1", (1, 2), 9, 9)),
        1.0,
        0.001,
    )
    rates.since(strange)
    assert rates.since(strange._replace(at_s=2.0)) == {0: 0.0}


def test_counts_that_took_long_to_read_are_passed_over() -> None:
    rates = BackgroundRates(STAR)
    rates.since(traffic(1.0, 0, 0, {0: (0, 0)}))
    assert rates.since(traffic(1.1, 0, 0, {0: (5000, 0)})._replace(took_s=0.01)) == {}
    assert rates.since(traffic(1.2, 0, 0, {0: (5000, 0)}))[0] == pytest.approx(200_000)


def test_each_machine_has_a_clock_of_its_own() -> None:
    """h0's is an hour ahead, and it is read at other moments; what it says of another's end concerns no link of its."""
    rates, here, there = BackgroundRates(STAR), (0, 1), (2, 3)

    def of(links: tuple[int, ...], at_s: float, count: int, streams: tuple[Stream, ...] = ()) -> Traffic:
        return Traffic(tuple(Passed(link, count, 0) for link in links), streams, at_s, 0.001)

    rates.since(of(here, 3601.0, 0))
    rates.since(of(there, 1.0, 0))
    ours, strangers = Stream(A, B, (1, 2), 4000, 4000), Stream(B, A, (2, 1), 9000, 9000)
    assert rates.since(of(here, 3601.1, 5000, (ours, strangers))) == pytest.approx({0: 80_000, 1: 80_000})
    assert rates.since(of(there, 1.2, 5000)) == pytest.approx({2: 200_000, 3: 200_000})
    assert rates.since(of(here, 3601.1, 5000, (ours,))) == {}, "no time has passed"
