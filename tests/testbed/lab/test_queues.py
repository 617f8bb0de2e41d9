"""What waits at egresses, as the kernel counts it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from testbed.base.errors import LabError
from testbed.lab.base import Lab, LinkChange, LinkSettings
from testbed.lab.measurements import Queues
from testbed.lab.netns import NetnsLab
from testbed.topologies.build import build

pytestmark = pytest.mark.lab
RATE_BPS = 100_000
PACKETS = 60
FRAME_BYTES = 1400 + 8 + 20 + 14
FLOOD = f"""
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    for _ in range({PACKETS}):
        one.sendto(bytes(1400), socket.MSG_DONTWAIT, (sys.argv[1], 9))
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[NetnsLab]:
    with NetnsLab() as lab:
        yield lab


def watched(lab: NetnsLab, settings: LinkSettings) -> Queues:
    """While h0 sends h1 60 packets at once; a busy machine may read them too seldom, three times at most."""
    for _ in range(3):
        lab.up(build("star(hosts=2)", rate_bps=RATE_BPS), settings, [(0, 1), (1, 0)])
        assert lab.watch_queues()
        flood(lab, 0, "h1")
        found = lab.queues()
        if found.readings > 5:
            break
    return found


def flood(lab: Lab, node: int, to: str) -> None:
    done = lab.execute(node, [sys.executable, "-c", FLOOD, to], 20)
    assert done.status == 0, done.stderr
    time.sleep(0.8)  # some readings while they wait: ten take 1.2 s to leave


def test_what_waits_is_seen_where_it_waits(lab: NetnsLab) -> None:
    before_s = time.monotonic()
    found = watched(lab, LinkSettings())
    assert found.problem is None
    assert found.readings > 5
    first = [one for one in found.windows if one.directed_link == 0]
    assert PACKETS / 2 * FRAME_BYTES < max(one.most_bytes for one in first) <= PACKETS * FRAME_BYTES
    assert max(one.full_share for one in first) == 0
    assert all(before_s <= one.start_s < time.monotonic() for one in found.windows)
    others = [one.most_bytes for one in found.windows if one.directed_link != 0]
    assert max(others, default=0) < 20 * FRAME_BYTES


def test_full_queues_and_drops_are_seen(lab: NetnsLab) -> None:
    """Those from before it began are not."""
    found = watched(lab, LinkSettings(queue_bytes=10 * FRAME_BYTES))
    first = [one for one in found.windows if one.directed_link == 0]
    assert max(one.full_share for one in first) == 1
    assert max(one.most_bytes for one in first) <= 10 * FRAME_BYTES
    drops = lab.counters()[0].drops
    assert sum(one.drops for one in first) == drops > PACKETS / 2
    assert lab.watch_queues()
    assert sum(one.drops for one in lab.queues().windows) == 0


def test_the_limit_is_the_kernels(lab: NetnsLab) -> None:
    """It may change while queues are watched."""
    lab.up(build("star(hosts=2)", rate_bps=RATE_BPS), LinkSettings(), [(0, 1), (1, 0)])
    assert lab.watch_queues()
    lab.adjust([LinkChange(0, queue_bytes=10 * FRAME_BYTES)])
    flood(lab, 0, "h1")
    assert max(one.full_share for one in lab.queues().windows if one.directed_link == 0) == 1


def test_a_switch_of_many_ports_is_read_whole(lab: NetnsLab) -> None:
    lab.up(build("star(hosts=40)", rate_bps=RATE_BPS), LinkSettings(), [(0, 39), (39, 0)])
    assert lab.watch_queues()
    flood(lab, 39, "h0")
    found = lab.queues()
    assert found.problem is None
    assert max(found.windows, key=lambda one: one.most_bytes).directed_link == 78


def test_links_without_shapers_have_no_queues(lab: NetnsLab) -> None:
    lab.up(build("star(hosts=2)", rate_bps=RATE_BPS), LinkSettings(shaped=False), [])
    assert not lab.watch_queues()
    with pytest.raises(LabError, match="queues are not watched"):
        lab.queues()


def test_watching_ends_with_the_network(lab: NetnsLab) -> None:
    lab.up(build("star(hosts=2)", rate_bps=RATE_BPS), LinkSettings(), [])
    assert lab.watch_queues()
    lab.down()
    with pytest.raises(LabError, match="queues are not watched"):
        lab.queues()
