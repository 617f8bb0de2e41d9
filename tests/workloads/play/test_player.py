"""The loop that plays an actor: time, delays, changes of rates, and its ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import pytest

from testbed.base.errors import TopologyError, TrialError
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.play import player
from testbed.workloads.play.actor import Compute, Deed, Send, Tell
from testbed.workloads.play.player import Planned, Player, RateChange


class Messages:
    """An actor that sends these messages at once, and tells of each that arrives."""

    def __init__(self, deeds: Sequence[Deed]) -> None:
        self._deeds = deeds

    def begin(self, now_s: float) -> Iterable[Deed]:
        assert now_s == 0
        return self._deeds

    def happened(self, event: Send | Compute, now_s: float) -> Iterable[Deed]:
        return [Tell(0, f"{event.about} at {now_s:.6f}")]


def news(topology: Topology, *deeds: Deed, changes: Iterable[RateChange] = ()) -> list[str]:
    return [tell.news for _, tell in Player(topology, timeline=Planned(changes)).told(Messages(deeds))]


def test_messages_arrive_in_the_time_that_their_links_take(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=3)", 8_000)
    deeds = Send(0, 1, 500, "a"), Send(0, 2, 1000, "b"), Compute(0.25, "c")
    assert news(star, *deeds) == ["c at 0.250000", "a at 1.000000", "b at 1.500000"]


def test_each_link_delays_a_message_and_not_the_next_one_behind_it() -> None:
    star = build_topology("star(hosts=2)", rate_bps=8_000, delay_s=0.1)
    assert news(star, Send(0, 1, 1000, "a"), Send(0, 1, 1000, "b")) == ["a at 1.200000", "b at 2.200000"]


def test_bytes_before_and_after_a_link_halves_add_up(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=2)", 8_000)
    uplink = star.paths(0, 1)[0].links[0]
    played = Player(star, timeline=Planned([RateChange(0.5, uplink, 4_000)]))
    assert [tell.news for _, tell in played.told(Messages([Send(0, 1, 1000, "a")]))] == ["a at 1.500000"]
    assert played.carried_bytes()[uplink] == 1000


def test_a_link_that_is_blocked_and_comes_back_only_takes_longer(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=2)", 8_000)
    uplink = star.paths(0, 1)[0].links[0]
    changes = RateChange(0.5, uplink, 0), RateChange(2.0, uplink, 8_000)
    assert news(star, Send(0, 1, 1000, "a"), changes=changes) == ["a at 2.500000"]


def test_a_link_that_stays_blocked_is_named_with_the_time(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=2)", 8_000)
    change = RateChange(0.5, star.paths(0, 1)[0].links[0], 0)
    first, switch, second = (star.nodes[node].name for node in (0, 2, 1))
    with pytest.raises(TrialError) as caught:
        news(star, Send(0, 1, 1000, "a"), changes=[change])
    assert str(caught.value) == (
        f"nothing moves after 0.500000000 s of simulated time: 1,000 bytes from {first} to {second} wait for the links "
        f"{first}-{switch}, {switch}-{second}\n  fix: let the blocked link come back"
    )


def test_time_that_stands_still_is_an_error(topology: Callable[..., Topology], monkeypatch: pytest.MonkeyPatch) -> None:
    class Circle(Messages):
        def happened(self, event: Send | Compute, now_s: float) -> Iterable[Deed]:
            assert now_s == 0
            return [event]

    monkeypatch.setattr(player, "MOST_AT_ONCE", 1_000)
    with pytest.raises(TrialError, match=r"stands still at 0\.000000000 s: more than 1,000 events"):
        list(Player(topology("star(hosts=2)")).told(Circle([Send(0, 1, 0, "a")])))


@pytest.mark.parametrize("never_s", [math.inf, math.nan])
def test_what_never_happens_is_refused(topology: Callable[..., Topology], never_s: float) -> None:
    star = topology("star(hosts=2)")
    with pytest.raises(ValueError, match="Compute"):
        news(star, Compute(never_s, "a"))


def test_nodes_with_several_connections_are_refused(topology: Callable[..., Topology]) -> None:
    star = topology("star(hosts=3,server_nics=2,routing=every_nic)")
    with pytest.raises(TopologyError, match="have 2 connections; one can be simulated"):
        news(star, Send(0, 2, 1, "a"))


def test_the_seed_draws_the_path_of_each_connection(topology: Callable[..., Topology]) -> None:
    racks = topology("spine_leaf(racks=2,hosts_per_rack=2,spines=4,routing=ecmp)")

    def links(seed: int) -> list[int]:
        played = Player(racks, seed=seed)
        assert len(list(played.told(Messages([Send(0, 2, 1, "a")])))) == 1
        return [int(link) for link in played.carried_bytes().nonzero()[0]]

    assert len({tuple(links(seed)) for seed in range(40)}) == 4
    assert links(3) == links(3)
