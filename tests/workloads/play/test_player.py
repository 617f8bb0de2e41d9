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
from testbed.workloads.play.queues import Queues
from testbed.workloads.play.synchronisation import Synchronisation, ordered, passing, synchronisation
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


def with_two_buckets(chunk_bytes: int, chunks: int) -> tuple[Topology, Forest, Synchronisation]:
    """Node 0 sends chunks of bucket 0, and then one of bucket 1, to node 1, which sends the sums back: a link carries a
    chunk in a second."""
    star = build_topology("star(hosts=2)", rate_bps=8 * chunk_bytes)
    trees = (np.array([ends], np.int32) for ends in ([1, ROOT, ABSENT], [1, ROOT, ABSENT]))
    floats = chunk_bytes // FLOAT_BYTES
    sizes = np.array([(chunks + 1) * floats])
    forest = Forest("sent", tuple(node.name for node in star.nodes), tuple(star.hosts), sizes, *trees)
    buckets = [(0, chunks * floats), (chunks * floats, (chunks + 1) * floats)]
    return star, forest, synchronisation(forest, cut(forest, (chunks + 1) * floats, buckets, chunk_bytes))


def passes(engine: type[Fluid] | type[Queues], star: Topology, work: Synchronisation) -> list[float]:
    """When the next forward pass begins and ends on node 0, where a bucket's layers take 0.25 s, and bucket 1 is
    complete after 1.5 s."""
    ready_s = np.zeros((2, 2, 2))
    ready_s[0, 0, 1] = 1.5
    player = Player(Arena(star, engine=engine.over), work)
    told = list(player.told(ready_s, forward_s=np.full((2, 2, 2), 0.25)))
    assert len(told) == 4
    return [round(float(moment_s), 3) for moment_s in player.passes_s[0, 0]]


def test_a_later_bucket_overtakes_what_waits_to_be_sent() -> None:
    star, forest, work = with_two_buckets(2**18, 6)
    in_order, by_need = passing(work, forest), ordered(passing(work, forest), forest.window)
    assert passes(Fluid, star, in_order) == [8, 8.5], "behind six chunks, back after a second, and two buckets' layers"
    assert passes(Fluid, star, by_need)[0] == 4, "behind the two chunks that had begun"
    late_s = 2**16 / 2**18  # a link hands on a segment when it has come whole
    assert passes(Queues, star, in_order)[0] == pytest.approx(8, abs=2 * late_s)
    assert passes(Queues, star, by_need)[0] == pytest.approx(5, abs=2 * late_s), "behind a third in the kernel"


def test_a_partial_sum_without_its_bucket_holds_up_its_connection_where_buckets_overtake() -> None:
    star, forest, work = with_two_buckets(1000, 2)
    ready_s = np.zeros((1, 2, 2))
    ready_s[0, 1, 1] = 10  # node 1 has bucket 1 late, and of that a partial sum comes first
    held = ordered(work, forest.window)
    done_s = [at_s for at_s, _ in Player(Arena(star), held).told(ready_s)]
    assert done_s == pytest.approx([10, 12]), "two sums leave node 1 after that"
    done_s = [at_s for at_s, _ in Player(Arena(star), work).told(ready_s)]
    assert done_s == pytest.approx([10, 11]), "in order, both of bucket 0 were there before"


def test_layers_are_computed_as_soon_as_their_sums_are_there_and_buckets_come_after_the_pass() -> None:
    star, forest, work = with_two_buckets(1000, 1)
    ready_s = np.array([[[0.0, 0.0]] * 2, [[0.5, 1.0]] * 2])
    forward_s = np.full((2, 2, 2), 3.0)
    player = Player(Arena(star), passing(work, forest))
    ends_s = {node: at_s for at_s, node in player.told(ready_s, forward_s=forward_s)}
    assert player.passes_s[0].tolist() == [[3, 9], [2, 8]]
    assert ends_s == pytest.approx({0: 9 + 0.5 + 3, 1: 9 + 0.5 + 2}), "gradients leave after the pass"
