"""What links carry besides a trial's own connections."""

from __future__ import annotations

from testbed.control.background_rates import BackgroundRates
from testbed.lab.measurements import Passed, Stream, Traffic
from topologies.addressing import plan
from topologies.build import build

STAR = build("star(hosts=3)", rate_bps=10**8)
A, B = plan(STAR).flow(0, 1)


def _both(sent: int, received: int, port: int = 40000) -> tuple[Stream, Stream]:
    return Stream(A, B, (port, 10001), sent, 0), Stream(B, A, (10001, port), 0, received)


def traffic(sent: int, received: int, links: dict[int, tuple[int, int]]) -> Traffic:
    """h0 has sent so much to h1, which has got so much of it."""
    passed = [Passed(link, *links.get(link, (0, 0))) for link in range(6)]
    return Traffic(tuple(passed), _both(sent, received))


def test_what_is_on_its_way_is_nobodys() -> None:
    rates = BackgroundRates(STAR)
    assert rates.since(traffic(0, 0, {}), 1.0) == {}
    # Of 900 bytes 300 wait at h0's NIC; h1 has got what has left at the switch.
    found = rates.since(traffic(900, 500, {0: (600, 300), 3: (500, 100)}), 2.0)
    assert set(found.values()) == {0.0}


def test_the_rest_is_other_traffic_by_link() -> None:
    rates = BackgroundRates(STAR)
    rates.since(traffic(1000, 1000, {0: (1000, 0), 3: (1000, 0)}), 1.0)
    found = rates.since(traffic(2000, 2000, {0: (2050, 0), 3: (2000, 0), 4: (70, 0)}), 1.1)
    assert {link: round(rate_bps) for link, rate_bps in found.items() if rate_bps} == {0: 4000, 4: 5600}


def test_a_connection_that_has_ended_leaves_a_link_unjudged_once() -> None:
    rates = BackgroundRates(STAR)
    rates.since(traffic(1000, 1000, {0: (1000, 0), 3: (1000, 0)}), 1.0)
    ended = traffic(0, 0, {0: (1000, 0), 3: (1000, 0)})._replace(streams=())
    assert set(rates.since(ended, 2.0)) == {4, 5}
    assert set(rates.since(ended, 3.0).values()) == {0.0}


def test_a_connection_that_has_ended_leaves_its_links_unjudged_though_another_has_sent_more() -> None:
    rates = BackgroundRates(STAR)
    one, other, grown = _both(10**6, 10**6, 1), _both(10**6, 10**6, 2), _both(4 * 10**6, 4 * 10**6, 2)
    rates.since(traffic(0, 0, {0: (2 * 10**6, 0), 3: (2 * 10**6, 0)})._replace(streams=one + other), 1.0)
    later = traffic(0, 0, {0: (5 * 10**6, 0), 3: (5 * 10**6, 0)})._replace(streams=grown)
    assert rates.since(later, 1.1) == {4: 0.0, 5: 0.0}
    assert set(rates.since(later, 1.2).values()) == {0.0}


def test_addresses_of_nobody_are_left_out() -> None:
    rates = BackgroundRates(STAR)
    strange = Traffic(
        (Passed(0, 5, 0),), (Stream("127.0.0.1", "127.0.0.1", (1, 2), 9, 9), Stream(A, "10.99.0.1", (1, 2), 9, 9))
    )
    rates.since(strange, 1.0)
    assert rates.since(strange, 2.0) == {0: 0.0}
