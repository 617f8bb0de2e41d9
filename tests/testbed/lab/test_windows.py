"""Readings of queues in windows: whatever was read, there are few windows, and nothing that counts is lost. And how
readings are decoded."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.lab.base import Impairment
from testbed.lab.measurements import Waited
from testbed.lab.netns.kernel_interface import netem, shaping
from testbed.lab.netns.kernel_interface.netem import Netem
from testbed.lab.netns.kernel_interface.netlink import HEADER, attribute, text
from testbed.lab.netns.readings import queues
from testbed.lab.netns.readings.queues import Found, Windows

MOST_WINDOWS, MOST_ROWS = 8, 24
LINKS = 4
FOUND = st.dictionaries(
    st.integers(0, LINKS - 1),
    st.tuples(st.integers(0, 10**7), st.booleans(), st.integers(0, 100), st.integers(0, 100)),
    max_size=LINKS,
)


def summed_up(readings: list[dict[int, tuple[int, bool, int, int]]]) -> tuple[Windows, list[Waited]]:
    """One reading a second, from 0 on."""
    windows = Windows(MOST_WINDOWS, MOST_ROWS)
    for at_s, reading in enumerate(readings):
        found: list[Found] = [(link, *one) for link, one in reading.items()]
        windows.add(float(at_s), found)
    return windows, windows.all(float(len(readings)))


@pytest.mark.hypothesis
@given(st.lists(FOUND, min_size=1, max_size=100))
def test_windows_keep_maxima_and_sums(readings: list[dict[int, tuple[int, bool, int, int]]]) -> None:
    windows, rows = summed_up(readings)
    assert windows.readings == len(readings)
    assert len({row.start_s for row in rows}) <= MOST_WINDOWS
    assert rows == sorted(rows, key=lambda row: (row.start_s, row.directed_link))
    for link in range(LINKS):
        own = [row for row in rows if row.directed_link == link]
        read = [reading[link] for reading in readings if link in reading]
        assert max((row.most_bytes for row in own), default=0) == max((one[0] for one in read), default=0)
        assert sum(row.drops for row in own) == sum(one[2] for one in read)
        assert sum(row.marks for row in own) == sum(one[3] for one in read)
        assert sum(row.mean_bytes * row.window_s for row in own) == pytest.approx(sum(one[0] for one in read))
        assert sum(row.full_share * row.window_s for row in own) == pytest.approx(sum(one[1] for one in read))


@pytest.mark.hypothesis
@given(st.lists(FOUND, min_size=1, max_size=100))
def test_a_row_is_of_what_was_read_in_its_window(readings: list[dict[int, tuple[int, bool, int, int]]]) -> None:
    _, rows = summed_up(readings)
    for row in rows:
        first, last = round(row.start_s), round(row.start_s + row.window_s)
        read = [one[row.directed_link][0] for one in readings[first:last] if row.directed_link in one]
        assert row.most_bytes == max(read)
        assert row.mean_bytes == pytest.approx(sum(read) / (last - first))


def test_windows_are_as_few_as_their_rows_allow() -> None:
    everywhere = dict.fromkeys(range(LINKS), (1000, False, 0, 0))
    _, rows = summed_up([everywhere] * 1000)
    assert MOST_ROWS // 2 <= len(rows) <= MOST_ROWS + 2 * LINKS  # until two windows are whole
    assert {row.mean_bytes for row in rows} == {1000.0}


def test_empty_queues_leave_no_rows() -> None:
    _, rows = summed_up([{}, {2: (7, True, 1, 4)}, {}])
    assert rows == [Waited(2, 1.0, 1.0, 7, 7.0, 1.0, 1, 4)]


@pytest.mark.hypothesis
@given(st.floats(0, 10))
def test_readings_take_little_of_a_core(cost_s: float) -> None:
    period_s = queues.period_s(cost_s)
    assert queues.LEAST_S <= period_s <= queues.MOST_S
    assert cost_s <= 0.0101 * period_s or period_s == queues.MOST_S


def answer(kind: str, options: bytes) -> bytes:
    """About a queue in which 3 packets of 4,500 bytes wait, and which dropped 7 (tc_fill_qdisc in net/sched). RED tells
    of 1 to 4 packets: dropped early, dropped because it was full, dropped for another reason, marked."""
    stats = attribute(shaping.TCA_STATS_APP, struct.pack("=4I", 1, 2, 3, 4)) if kind == "red" else b""
    stats += attribute(shaping.TCA_STATS_BASIC, bytes(16))
    stats += attribute(shaping.TCA_STATS_QUEUE, shaping.STATS_QUEUE.pack(3, 4500, 7, 0, 0))
    body = text(shaping.TCA_KIND, kind) + attribute(shaping.TCA_OPTIONS, options)
    body = shaping.TCMSG.pack(0, 5, 0, 0, 0) + body + attribute(shaping.TCA_STATS2, stats)
    return HEADER.pack(HEADER.size + len(body), shaping.RTM_NEWQDISC, 0, 0, 0) + body


@pytest.mark.parametrize(
    ("kind", "options", "is_packets"),
    [
        ("bfifo", struct.pack("=I", 9000), False),
        ("red", shaping.pack_red(3000, 9000), False),
        ("netem", netem.pack(Netem.of(Impairment(0.01, 0.001, 0.01, 0.1), 1), 9000), True),
    ],
)
def test_counts_and_limit_are_found_in_an_answer(kind: str, options: bytes, is_packets: bool) -> None:
    """Netem counts packets. This kernel need not have netem and RED."""
    message = answer(kind, options)
    form = queues.form_of(message, len(message))
    assert struct.unpack_from("=III", message, form.counts) == (3, 4500, 7)
    assert struct.unpack_from("=I", message, form.limit) == (9000,)
    assert form.counts_packets is is_packets
    assert (form.marks is None) is (kind != "red")
    assert form.marks is None or struct.unpack_from("=I", message, form.marks) == (4,)
