"""The network with queues: links with bytes that wait are full, bytes are kept, and connections keep their order."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.topologies.model import Topology
from testbed.workloads.play.compiled import POINTER, REAL, WHOLE
from testbed.workloads.play.queues import Queues

LINKS, SEGMENT_BYTES, BUFFER_BYTES, STEP_S = 4, 65_536, 4_194_304, 10.0
PACKET_BYTES = 1514
LARGE_BYTES = 45 * PACKET_BYTES
"""A segment after :meth:`Queues.grow`."""
PATHS = st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=LINKS, unique=True)
SENT = st.lists(st.tuples(PATHS, st.lists(st.integers(0, 300_000), min_size=1, max_size=3)), min_size=1, max_size=6)
RATES = st.lists(st.integers(10_000, 90_000), min_size=LINKS, max_size=LINKS)


def sending(rates: list[int], sent: list[tuple[list[int], list[int]]]) -> Queues:
    """Links with a connection for each path, which has got its messages."""
    made = Queues(np.array(rates, np.float64))
    for path, sizes in sent:
        connection = made.connect(path)
        for size in sizes:
            made.send(connection, size)
    return made


@settings(max_examples=200, deadline=None)
@given(RATES, SENT)
def test_links_where_bytes_wait_are_full_and_bytes_are_kept(
    rates: list[int], sent: list[tuple[list[int], list[int]]]
) -> None:
    made = sending(rates, sent)
    ended = [0] * len(sent)
    carried, begun_s = made.carried_bytes(), made.now_s
    waiting = made.waiting_bytes()
    while not made.is_idle:
        for connection in made.advance(made.now_s + STEP_S):
            ended[connection] += 1
        took_s, now = made.now_s - begun_s, made.carried_bytes()
        # More waited than the link can send in this step, so something waited at each moment of it.
        full = waiting > took_s * np.array(rates) / 8 + SEGMENT_BYTES
        assert (now - carried <= np.array(rates) * took_s / 8 + SEGMENT_BYTES + 1).all()
        assert (now - carried >= np.array(rates) * took_s / 8 - SEGMENT_BYTES - 1)[full].all()
        carried, begun_s, waiting = now, made.now_s, made.waiting_bytes()
    assert ended == [len(sizes) for _, sizes in sent]
    expected = [sum(sum(sizes) for path, sizes in sent if link in path) for link in range(LINKS)]
    assert made.carried_bytes() == pytest.approx(expected)


def test_a_later_full_link_does_not_slow_a_sender_down() -> None:
    """Both senders take half a second of their own link; then the shared one still sends what waits."""
    made = Queues(np.array([16e6, 16e6, 16e6]))
    for first in (0, 1):
        made.send(made.connect([first, 2]), 1_000_000)
    made.advance(0.5)
    assert made.carried_bytes()[:2].tolist() == pytest.approx([1e6, 1e6])
    assert made.waiting_bytes()[2] == pytest.approx(1e6, abs=SEGMENT_BYTES)
    made.advance(0.9)
    made.advance()
    assert made.now_s == pytest.approx(1.0, abs=0.04)


def test_links_of_one_rate_pass_a_segment_on_without_a_delay() -> None:
    made = Queues(np.array([8e6, 8e6, 8e6]))
    made.send(made.connect([0, 1, 2]), 1_000_000)
    assert made.advance() == [0]
    assert made.now_s == pytest.approx(1.0)


NOTHING = ctypes.CFUNCTYPE(REAL, POINTER, WHOLE)(lambda *_: -1.0)
"""Whoever asks it for messages has none."""


@pytest.mark.parametrize("seed", range(40))
def test_a_message_that_meets_nobody_takes_as_long_as_link_by_link(seed: int) -> None:
    """It crosses in one step what the messages of a connection that asks for more cross link by link."""
    chance = np.random.default_rng(seed)
    paths = [chance.permutation(LINKS)[: chance.integers(1, LINKS + 1)].tolist() for _ in range(3)]
    sent = [
        (at_s, chance.integers(3), chance.integers(1, 90_000), chance.integers(LINKS), chance.choice([1e6, 2e6, 4e6]))
        for at_s in np.cumsum(chance.exponential(0.3, 80))
    ]
    seen = []
    for asks in (False, True):
        made, ended, carried = Queues(np.full(LINKS, 1e6)), list[int](), list[float]()
        for path in paths:
            connection = made.connect(path)
            if asks:
                calls = made.calls()
                calls.ask(calls.state, connection, ctypes.cast(NOTHING, POINTER), None)
        for at_s, connection, size, link, rate_bps in (*sent, (sent[-1][0] + 60, 0, 0, 0, 1e6)):
            while not made.is_idle and made.now_s < at_s:
                for each in made.advance(at_s):
                    ended.append(each)
                    carried.append(made.now_s)
            made.advance(at_s)
            carried += made.carried_bytes().tolist()
            made.set_rate(link, rate_bps)
            made.send(connection, size)
        seen.append((ended, carried))
    (ended, carried), (expected, expected_carried) = seen
    assert ended == expected
    assert Counter(ended) == Counter(connection for _, connection, *_ in sent)
    assert carried == pytest.approx(expected_carried, rel=1e-12)


def test_bytes_before_and_after_a_change_of_a_rate_add_up() -> None:
    made = Queues(np.array([8e6]))
    made.send(made.connect([0]), 1_000_000)
    for until_s, rate_bps in ((0.5, 0.0), (0.8, 4e6)):
        assert made.advance(until_s) == []
        made.set_rate(0, rate_bps)
    assert made.advance() == [0]
    assert made.now_s == pytest.approx(1.8)


def test_a_blocked_link_ends_nothing() -> None:
    made = Queues(np.array([8e6, 0.0]))
    made.send(made.connect([0, 1]), 1000)
    assert made.advance() == []
    assert not made.is_idle


def test_a_connection_has_4_mib_under_way_and_goes_on_when_a_third_is_acknowledged() -> None:
    made = Queues(np.array([80e6, 80e6, 8e6, 8e6]))
    made.send(made.connect([0, 2]), 20_000_000)
    waited = []
    while not made.is_idle:
        made.advance(made.now_s + 0.05)
        waited.append(made.waiting_bytes()[2])
    full, again = BUFFER_BYTES, BUFFER_BYTES * 2 / 3
    settled = waited[20:-90]
    assert max(settled) == pytest.approx(full, abs=2 * SEGMENT_BYTES)
    assert min(settled) == pytest.approx(again, abs=2 * SEGMENT_BYTES)
    assert made.now_s == pytest.approx(20.0, abs=0.1), "the later link always has something to send"


def test_acknowledgements_wait_behind_what_goes_the_other_way() -> None:
    """They wait for 4.2 s behind 4 MiB of another connection. Until then, their sender stands still."""
    made = Queues(np.array([80e6, 8e6, 80e6, 80e6, 80e6, 80e6]))
    made.send(made.connect([4, 1]), 20_000_000)
    made.advance(1.0)
    made.send(sender := made.connect([0, 2]), 20_000_000)
    ended = made.advance(3.0)
    assert sender not in ended
    assert made.carried_bytes()[0] == pytest.approx(BUFFER_BYTES, abs=2 * SEGMENT_BYTES)
    made.advance(6.0)
    assert made.carried_bytes()[0] == pytest.approx(2 * BUFFER_BYTES, rel=0.2)


def waiting_acknowledgements() -> Queues:
    """A network in which those of connections along links 0 and 2 wait for some seconds behind another connection."""
    made = Queues(np.array([80e6, 8e6, 80e6, 80e6, 80e6, 80e6]))
    made.grow()
    made.send(made.connect([4, 1]), 200_000_000)
    made.advance(20.0)
    return made


def test_a_window_that_grows_doubles_each_time_that_acknowledgements_are_back() -> None:
    """A segment is under way at first, then 128 packets more, and then twice as many each time."""
    made = waiting_acknowledgements()
    made.send(made.connect([0, 2]), 80_000_000)
    sent = []
    for step in range(160):
        made.advance(20.0 + step / 10)
        sent.append(round(made.carried_bytes()[0] / SEGMENT_BYTES))
    standing = [count for count, times in Counter(sent).items() if times > 10]
    assert standing[:4] == [1, 4, 10, 22]


def test_a_window_that_has_grown_stays() -> None:
    """The first message takes several times as long as acknowledgements, and the second one goes at once."""
    made = waiting_acknowledgements()
    took_s, sender = [], made.connect([0, 2])
    for _ in range(2):
        begun_s = made.now_s
        made.send(sender, 2_000_000)
        while sender not in made.advance(made.now_s + 1):
            pass
        took_s.append(made.now_s - begun_s)
    assert took_s[0] > 8.0
    assert took_s[1] < 4.0


def queued_bytes(rate_bps: float, slowest_bps: float | None = None, *, grows: bool = True) -> float:
    """The most of a lone connection that waits at its first link in the second half of a message, with a slower link
    behind the first one if there is one."""
    rates = [rate_bps] * 2 if slowest_bps is None else [rate_bps, rate_bps, slowest_bps, slowest_bps]
    made = Queues(np.array(rates))
    if grows:
        made.grow()
    made.send(made.connect([0] if slowest_bps is None else [0, 2]), 20_000_000)
    most_bytes, took_s = 0.0, 8 * 20_000_000 / min(rates)
    made.advance(took_s / 2)
    for step in range(100):
        made.advance(took_s * (0.5 + step / 250))
        most_bytes = max(most_bytes, made.waiting_bytes()[0])
    return most_bytes


def test_a_connection_has_more_than_two_segments_in_its_queue_where_it_sends_more_in_a_millisecond() -> None:
    """A window is twice what was under way, and the pace is twice a window each round trip: so a connection that has a
    link for itself is paced at four times the link's rate and more, for a round trip lacks the time of the packet
    itself. At 1 Gbit/s that makes more than 7.2 segments in 1/1024 s."""
    assert queued_bytes(1e9) == pytest.approx(10 * LARGE_BYTES, rel=0.1)
    assert queued_bytes(5e8) == pytest.approx(6 * LARGE_BYTES, rel=0.1)


@pytest.mark.parametrize(("rate_bps", "slowest_bps"), [(5e7, None), (1e9, 1e8)])
def test_two_segments_are_in_a_queue_that_holds_more_than_a_millisecond(
    rate_bps: float, slowest_bps: float | None
) -> None:
    """So it is where a link is slow, and where round trips are long for what waits behind a router."""
    assert queued_bytes(rate_bps, slowest_bps) == pytest.approx(2 * LARGE_BYTES)


def test_without_windows_a_third_segment_finds_room() -> None:
    """Equal segments are a bit less than full, so two of them are less than two segments."""
    assert queued_bytes(1e9, grows=False) / SEGMENT_BYTES == pytest.approx(3, abs=0.01)


@pytest.mark.parametrize(("packets", "is_delayed"), [(0.5, True), (2.0, False)])
def test_a_receiver_delays_the_acknowledgement_of_a_single_packet(packets: float, is_delayed: bool) -> None:
    """After many notes of one packet round trips seem to take 40 ms, so no more than two segments find room. Notes of
    two packets are acknowledged at once, and the whole window finds room."""
    made = Queues(np.array([1e9, 1e9]))
    made.grow()
    connection = made.connect([0])
    for size_bytes in (20_000_000, *[packets * PACKET_BYTES] * 50):
        made.send(connection, size_bytes)
        assert made.advance(made.now_s + 1.0) == [connection]
        made.advance(made.now_s + 0.1)
    made.send(connection, 20_000_000)
    made.advance(made.now_s + 0.0001)
    waiting = made.waiting_bytes()[0] / LARGE_BYTES
    assert waiting == pytest.approx(2) if is_delayed else waiting > 20


def test_data_the_other_way_takes_a_delayed_acknowledgement_along() -> None:
    """Each note is answered at once, so round trips take no time, and the whole window finds room."""
    made = Queues(np.array([1e9, 1e9]))
    made.grow()
    there, back = made.connect([0]), made.connect([1])
    made.send(there, 20_000_000)
    made.advance()
    for _ in range(50):
        for connection in (there, back):
            made.send(connection, PACKET_BYTES / 2)
            assert made.advance(made.now_s + 1.0) == [connection]
        made.advance(made.now_s + 0.1)
    made.send(there, 20_000_000)
    made.advance(made.now_s + 0.0001)
    assert made.waiting_bytes()[0] > 20 * LARGE_BYTES


@pytest.mark.parametrize(("is_bridged", "packets"), [([True, False, False, False], 10), ([False] * 4, 45)])
def test_a_window_begins_with_ten_packets_where_no_router_is_on_the_way(is_bridged: list[bool], packets: int) -> None:
    """Behind a router it is larger, and what the receiver takes at first is the limit. The acknowledgements wait for
    some seconds behind another connection."""
    made = Queues(np.array([80e6, 80e6, 80e6, 1e6]), np.array(is_bridged))
    made.grow()
    made.send(made.connect([3]), 1_000_000)
    made.advance(1.0)
    made.send(made.connect([0, 2]), 1_000_000)
    made.advance(2.0)
    assert made.carried_bytes()[2] == pytest.approx(packets * PACKET_BYTES)


def test_what_a_bridge_hands_on_still_counts_for_its_sender() -> None:
    """So two segments are under way in all, where behind a router as many wait as have come."""
    rates, is_bridged = np.array([80e6, 80e6, 8e5, 8e5]), np.array([True, False, False, False])
    for made, most_bytes in ((Queues(rates), BUFFER_BYTES), (Queues(rates, is_bridged), 2 * SEGMENT_BYTES)):
        made.send(made.connect([0, 2]), 10_000_000)
        made.advance(0.45)
        assert made.waiting_bytes()[2] == pytest.approx(most_bytes, abs=2 * SEGMENT_BYTES)


def test_only_switches_whose_ports_all_lead_to_hosts_bridge(topology: Callable[..., Topology]) -> None:
    star, racks = topology("star(hosts=2)", 8 * 10**6), topology("spine_leaf(racks=2,hosts_per_rack=2,spines=1)")
    assert [Queues.bridged(each).sum() for each in (star, racks)] == [2, 0]


def test_a_flow_and_a_message_share_a_link_evenly_and_the_flow_goes_on() -> None:
    made = Queues(np.array([8e6]))
    flow, connection = made.connect([0]), made.connect([0])
    made.let_flow(flow, is_on=True)
    made.send(connection, 1_000_000)
    assert made.advance() == [connection]
    assert made.now_s == pytest.approx(2.0, abs=0.15)
    assert made.is_idle, "a flow is no message"
    assert made.advance(5.0) == []
    assert made.came_bytes(flow) == pytest.approx(4e6, abs=2 * SEGMENT_BYTES)


def test_the_end_of_a_message_waits_behind_a_flow_where_segments_are_filled() -> None:
    """A flow has two segments in the queue. The rest of a message after full segments is small, so it joins the
    queue only when these have begun to leave, and then waits behind the flow's."""
    ends_s = []
    for fills in (False, True):
        made = Queues(np.array([8 * SEGMENT_BYTES]))  # a segment a second
        if fills:
            made.fill()
        made.let_flow(made.connect([0]), is_on=True)
        made.advance(0.5)
        made.send(made.connect([0]), 3.01 * SEGMENT_BYTES)
        made.advance()
        ends_s.append(made.now_s)
    assert ends_s == pytest.approx([8.01, 10.01])


def test_segments_are_filled_with_several_messages_of_which_each_ends_once() -> None:
    made = Queues(np.array([8 * SEGMENT_BYTES, 8 * SEGMENT_BYTES]))
    made.fill()
    connection = made.connect([0, 1])
    for _ in range(10):
        made.send(connection, 0.4 * SEGMENT_BYTES)
    ended, moments_s = 0, []
    while now := len(made.advance()):
        ended += now
        moments_s.append(made.now_s)
    assert ended == 10
    assert made.carried_bytes() == pytest.approx([4 * SEGMENT_BYTES, 4 * SEGMENT_BYTES])
    assert len(moments_s) < 8, "several end with the same segment"
    assert moments_s[-1] == pytest.approx(4, abs=0.5)


def test_a_flow_takes_its_rate_and_no_more() -> None:
    made = Queues(np.array([8e6]))
    flow, connection = made.connect([0]), made.connect([0])
    made.let_flow(flow, is_on=True, rate_bps=2e6)
    made.send(connection, 7_500_000)
    assert made.advance() == [connection]
    assert made.now_s == pytest.approx(10.0, abs=0.3)
    made.advance(16.0)
    assert made.came_bytes(flow) == pytest.approx(4e6, rel=0.02)


def test_a_link_that_is_too_slow_for_a_flow_drops_what_is_due() -> None:
    made = Queues(np.array([1e6, 8e6]))
    flow = made.connect([0, 1])
    made.let_flow(flow, is_on=True, rate_bps=8e6)
    made.advance(10.0)
    made.let_flow(flow, is_on=False)
    made.advance()
    assert made.now_s < 12, "little waits at the sender"
    assert made.carried_bytes().tolist() == pytest.approx([1.25e6, 1.25e6], rel=0.2)


def test_what_a_flow_has_sent_comes_after_its_end() -> None:
    made = Queues(np.array([8e6, 1e6]))
    flow = made.connect([0, 1])
    made.let_flow(flow, is_on=True)
    made.advance(3.0)
    made.let_flow(flow, is_on=False)
    assert made.has_flows
    assert made.advance() == []
    assert not made.has_flows
    assert made.carried_bytes() == pytest.approx(made.came_bytes(flow))
    made.let_flow(flow, is_on=True)
    made.advance(made.now_s + 1)
    assert made.has_flows


def test_a_message_that_cannot_move_beside_a_flow_ends_no_play() -> None:
    made = Queues(np.array([8e6, 0.0]))
    made.let_flow(made.connect([0]), is_on=True)
    made.send(made.connect([0, 1]), 1_000_000)
    assert made.advance() == []
    assert not made.is_idle


def test_a_message_goes_on_over_another_path_without_a_byte_lost() -> None:
    made = Queues(np.array([8e6, 0.0, 8e6]))
    first, second = made.connect([0, 1]), made.connect([2])
    made.send(first, 400_000)
    made.send(first, 600_000)
    made.send(second, 1_000_000)
    assert made.advance(0.5) == []
    waited = made.waiting_bytes()[1]
    made.move(first, [2])
    assert made.waiting_bytes()[1] == 0
    ended = [(number, round(made.now_s, 1)) for _ in range(3) for number in made.advance()]
    assert [number for number, _ in ended].count(first) == 2
    assert made.is_idle
    assert waited == pytest.approx(500_000, abs=SEGMENT_BYTES)
    assert made.carried_bytes() == pytest.approx([0, 0, 2_000_000], abs=1e-6), "what began anew counts once"


def test_what_comes_to_a_dark_link_is_sent_again_after_a_round_trip_and_200_ms_and_then_twice_that() -> None:
    for dark_s, timeouts in ((0.1, 1), (0.7, 1 + 2), (2.0, 1 + 2 + 4)):
        made = Queues(np.array([8e6, 8e6]))
        connection = made.connect([0, 1])
        made.send(connection, 2_000_000)
        assert made.advance(1.0) == []
        made.darken(1, is_dark=True)
        assert made.advance(1.0 + dark_s) == []
        made.darken(1, is_dark=False)
        assert made.advance() == [connection]
        round_s = (made.now_s - 2.0) / timeouts - 0.2  # of three segments, about
        assert 0.13 < round_s < 0.45
        assert made.carried_bytes() == pytest.approx([2e6, 2e6])


def test_nothing_waits_for_more_than_two_minutes_until_it_is_sent_again() -> None:
    made = Queues(np.array([8e6, 8e6]))
    connection = made.connect([0, 1])
    made.send(connection, 2_000_000)
    assert made.advance(1.0) == []
    made.darken(1, is_dark=True)
    assert made.advance(1000.0) == []
    made.darken(1, is_dark=False)
    assert made.advance() == [connection]
    assert made.now_s < 1000 + 120 + 2


def test_a_host_whose_own_link_is_blocked_tries_each_half_second() -> None:
    made = Queues(np.array([8 * SEGMENT_BYTES]))
    made.send(made.connect([0]), 4 * SEGMENT_BYTES)
    made.advance(0.5)
    made.darken(0, is_dark=True, tells=True)  # the first segment is on its way; the others are lost now
    made.advance(3.3)
    made.darken(0, is_dark=False)
    made.advance()
    assert made.now_s == pytest.approx(0.5 + 0.2 + 6 * 0.5 + 3), "it tries at 0.7, 1.2, ... and 3.7 s"


def test_a_message_waits_behind_one_that_is_to_be_sent_again() -> None:
    """The link is free and lit at 0.1 s, but the first message was lost, and is sent again at 0.2 s."""
    made = Queues(np.array([8e6]))
    connection = made.connect([0])
    made.darken(0, is_dark=True)
    made.send(connection, 8_000)
    assert made.advance(0.1) == []
    made.darken(0, is_dark=False)
    made.send(connection, 8_000)
    assert made.advance() == [connection]
    assert made.now_s == pytest.approx(0.2 + 0.008)
    assert made.advance() == [connection]
    assert made.now_s == pytest.approx(0.2 + 2 * 0.008)


def test_what_comes_after_an_outage_lets_the_other_direction_go_on() -> None:
    """Links 0 and 1 are those of a host to and from a switch, and 2 and 3 those of another one."""
    made = Queues(np.full(4, 8 * SEGMENT_BYTES))
    for path in ((0, 2), (3, 1)):
        made.send(made.connect(path), 4 * SEGMENT_BYTES)
    for moment_s, is_dark in ((0.5, True), (3.0, False)):
        made.advance(moment_s)
        for link in (0, 1):
            made.darken(link, is_dark=is_dark, tells=True)
    assert len(made.advance()) == 2
    assert made.now_s == pytest.approx(0.5 + 1.2 + 3 * 0.5 + 3), "alone, the other host would try at 4.6 s"
    assert made.carried_bytes() == pytest.approx(np.full(4, 4 * SEGMENT_BYTES))


def test_a_connection_that_nothing_was_known_to_relight_goes_on_when_its_time_comes() -> None:
    made = Queues(np.full(2, 8 * SEGMENT_BYTES))
    lost, other = made.connect([0]), made.connect([1])
    made.darken(0, is_dark=True)
    made.send(lost, SEGMENT_BYTES)
    made.send(other, 10 * SEGMENT_BYTES)
    assert list(made.advance()) == [other], "with no end of time it waits for nothing"
    assert not len(made.advance())
    assert not made.moves
    made.darken(0, is_dark=False)
    assert list(made.advance()) == [lost]
    assert made.now_s == pytest.approx(0.2 * 63 + 1), "as it would have tried at 0.2, 0.6, 1.4, 3, 6.2 and 12.6 s"


def test_a_connection_that_nothing_was_known_to_relight_goes_on_over_another_path() -> None:
    made = Queues(np.full(2, 8 * SEGMENT_BYTES))
    moved = made.connect([0])
    made.darken(0, is_dark=True)
    made.send(moved, SEGMENT_BYTES)
    assert not made.advance()
    made.move(moved, [1])
    assert made.moves
    assert list(made.advance()) == [moved]
    assert made.now_s == pytest.approx(0.6 + 1), "it tried at 0.2 s, and does so again at 0.6 s"


def test_who_sends_nothing_while_it_is_dark_loses_no_time() -> None:
    made = Queues(np.array([8e6, 8e6]))
    connection = made.connect([0, 1])
    made.darken(1, is_dark=True)
    made.advance(0.5)
    made.darken(1, is_dark=False)
    made.send(connection, 1_000_000)
    assert made.advance() == [connection]
    assert made.now_s == pytest.approx(1.5)


@settings(max_examples=100, deadline=None)
@given(RATES, SENT, st.lists(st.tuples(st.integers(0, 5), PATHS, st.floats(0, 20)), min_size=1, max_size=5))
def test_every_message_ends_once_however_paths_change_and_links_are_dark(
    rates: list[int], sent: list[tuple[list[int], list[int]]], moves: list[tuple[int, list[int], float]]
) -> None:
    made = sending(rates, sent)
    ended = [0] * len(sent)
    for connection, path, after_s in moves:
        for number in made.advance(made.now_s + after_s):
            ended[number] += 1
        made.darken(path[0], is_dark=connection % 2 == 0)
        made.move(connection % len(sent), path)
    for link in range(LINKS):
        made.darken(link, is_dark=False)
    while not made.is_idle:
        for number in made.advance():
            ended[number] += 1
    assert ended == [len(sizes) for _, sizes in sent]
    for number, (_, sizes) in enumerate(sent):
        assert made.came_bytes(number) == pytest.approx(sum(sizes))
