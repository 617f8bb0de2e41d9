"""The loop that plays a synchronisation: time, delays, changes of rates, and its ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from testbed.base.errors import TrialError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.play import arena
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.changes import Change, DelayChange, Planned, RateChange
from testbed.workloads.play.fluid import Fluid
from testbed.workloads.play.player import Player
from testbed.workloads.play.synchronisation import Synchronisation, synchronisation
from testbed.workloads.sync.chunks import FLOAT_BYTES, cut
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest


def sent(topology: Topology, *messages: tuple[int, int], chunk_bytes: int = 10**6) -> Synchronisation:
    """Node 0 sends a message to each of these nodes at once, with so many bytes."""
    reduce = np.full((len(messages), len(topology.nodes)), ABSENT, np.int32)
    for klass, (dst, _) in enumerate(messages):
        reduce[klass, [0, dst]] = dst, ROOT
    floats = np.array([size // FLOAT_BYTES for _, size in messages])
    nodes = tuple(node.name for node in topology.nodes)
    broadcast = np.where(reduce == ROOT, ROOT, ABSENT).astype(np.int32)
    forest = Forest("sent", nodes, tuple(topology.hosts), floats, reduce, broadcast)
    return synchronisation(forest, cut(forest, int(floats.sum()), [(0, int(floats.sum()))], chunk_bytes))


def ends(topology: Topology, work: Synchronisation, changes: Iterable[Change] = ()) -> list[tuple[float, int]]:
    """When nodes have what was sent to them (s)."""
    told = list(Player(Arena(topology, timeline=Planned(changes)), work).told())
    assert told[0] == (0, 0), "nothing is sent to node 0"
    return [(round(at_s, 9), node) for at_s, node in told[1:]]


def test_messages_arrive_in_the_time_that_their_links_take(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=3)", 8_000)
    assert ends(star, sent(star, (1, 500), (2, 1000))) == [(1.0, 1), (1.5, 2)]


def test_each_link_delays_a_message_and_not_the_next_one_behind_it() -> None:
    star = build_topology("star(hosts=2)", rate_bps=8_000, delay_s=0.1)
    assert ends(star, sent(star, (1, 1000))) == [(1.2, 1)]
    assert ends(star, sent(star, (1, 2000), chunk_bytes=1000)) == [(2.2, 1)]


def test_messages_on_their_way_keep_the_delay_that_they_left_with() -> None:
    star = build_topology("star(hosts=2)", rate_bps=8_000, delay_s=0.1)
    uplink = star.paths(0, 1)[0].links[0]
    longer = ends(star, sent(star, (1, 3000), chunk_bytes=1000), [DelayChange(2.1, uplink, 0.5)])
    assert longer == [(3.6, 1)]
    assert ends(star, sent(star, (1, 1000)), [DelayChange(1.05, uplink, 0.5)]) == [(1.2, 1)]


def test_no_message_overtakes_one_that_left_with_a_longer_delay() -> None:
    star = build_topology("star(hosts=2)", rate_bps=8_000, delay_s=1.5)
    changes = [DelayChange(1.5, link, 0.0) for link in star.paths(0, 1)[0].links]
    assert ends(star, sent(star, (1, 2000), chunk_bytes=1000), changes) == [(4.0, 1)]


def test_bytes_before_and_after_a_link_halves_add_up(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=2)", 8_000)
    uplink = star.paths(0, 1)[0].links[0]
    played = Player(Arena(star, timeline=Planned([RateChange(0.5, uplink, 4_000)])), sent(star, (1, 1000)))
    assert [at_s for at_s, _ in played.told()] == pytest.approx([0, 1.5])
    assert played.arena.carried_bytes()[uplink] == 1000


def test_a_link_that_is_blocked_and_comes_back_only_takes_longer(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=2)", 8_000)
    uplink = star.paths(0, 1)[0].links[0]
    changes = RateChange(0.5, uplink, 0), RateChange(2.0, uplink, 8_000)
    assert ends(star, sent(star, (1, 1000)), changes) == [(2.5, 1)]


def test_a_link_that_stays_blocked_is_named_with_the_time(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=2)", 8_000)
    change = RateChange(0.5, star.paths(0, 1)[0].links[0], 0)
    first, switch, second = (star.nodes[node].name for node in (0, 2, 1))
    with pytest.raises(TrialError) as caught:
        ends(star, sent(star, (1, 1000)), [change])
    assert str(caught.value) == (
        f"nothing moves after 0.500000000 s of simulated time: 1,000 bytes from {first} to {second} wait for the links "
        f"{first}-{switch}, {switch}-{second}\n  fix: let the blocked link come back"
    )


def test_time_that_stands_still_is_an_error(topology: Callable[..., Topology], monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that need no time for the next iteration begin it at the moment at which they have the sums."""
    star = topology("star(hosts=2)")
    monkeypatch.setattr(arena, "MOST_AT_ONCE", 0)
    played = Player(Arena(star), sent(star, (1, 1000)))
    with pytest.raises(TrialError, match=r"stands still at 0\.000000000 s: more than 0 events"):
        list(played.told(np.zeros((2, 2, 1))))


@pytest.mark.parametrize("never_s", [math.inf, math.nan])
def test_what_never_happens_is_refused(topology: Callable[..., Topology], never_s: float) -> None:
    star = topology("star(hosts=2)")
    with pytest.raises(ValueError, match="never complete"):
        list(Player(Arena(star), sent(star, (1, 1000))).told(np.full((2, 1), never_s)))


def test_chunks_take_the_connection_that_has_got_the_fewest_bytes(topology: Callable[..., Topology]) -> None:
    """Two circuits take two of three chunks and one: 16 ms at 1 Gbit/s."""
    panel = topology("patch_panel(servers=4,degree=4,rings=[1,1])", rate_bps=10**9)
    work = sent(panel, (1, 3 * 10**6))
    player = Player(Arena(panel), work)
    assert player.is_parallel
    assert [round(at_s, 9) for at_s, node in player.told() if node == 1] == [0.016]
    assert player.sent_bytes().tolist() == [3 * 10**6]


def test_the_seed_draws_the_path_of_each_connection(topology: Callable[..., Topology]) -> None:
    racks = topology("spine_leaf(racks=2,hosts_per_rack=2,spines=4,routing=ecmp)")

    def links(seed: int) -> list[int]:
        played = Player(Arena(racks, seed=seed), sent(racks, (2, 4)))
        assert len(list(played.told())) == 4
        return [int(link) for link in played.arena.carried_bytes().nonzero()[0]]

    assert len({tuple(links(seed)) for seed in range(40)}) == 4
    assert links(3) == links(3)


def test_an_error_of_a_network_in_python_ends_the_play(topology: Callable[..., Topology]) -> None:
    class Ended:
        def __init__(self, topology: Topology) -> None:
            self._fluid = Fluid.over(topology)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._fluid, name)

        def advance(self, until_s: float) -> list[int]:
            raise TrialError(f"the network has ended before {until_s} s", fix="begin anew")

    star = topology("star(hosts=2)")
    engine: Any = Ended
    with pytest.raises(TrialError, match="the network has ended before inf s"):
        list(Player(Arena(star, engine=engine), sent(star, (1, 1000))).told())
