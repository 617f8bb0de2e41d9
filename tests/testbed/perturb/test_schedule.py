"""From perturbations to events."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from testbed.base.errors import SpecError
from testbed.lab.base import Impairment, LinkChange, LinkSettings
from testbed.lab.limits import HTB, Limits
from testbed.perturb.events import START_SIGNAL, STOP_SIGNAL, Event
from testbed.perturb.kinds.base import Context
from testbed.perturb.schedule import schedule
from testbed.perturb.targets import links
from testbed.topologies.build import build
from testbed.topologies.cloud import places
from testbed.topologies.model import Topology

PLAIN = LinkSettings()
STAR = build("star(hosts=4)", rate_bps=10**8)
PROCESSES = {"h0": 0, "h1": 1, "h1.daemon": 1, "a/h1": 1, "h2": 2}
OUT, IN = links(STAR, ["h0"], "out")[0], links(STAR, ["h0"], "in")[0]


def context(
    topology: Topology = STAR, scale: float = 1.0, links: LinkSettings = PLAIN, limits: Limits = HTB
) -> Context:
    return Context(topology, scale, links, limits, 1, PROCESSES)


def events(perturbations, most: int = 100, scale: float = 1.0) -> list[Event]:
    return [event for stream in schedule(perturbations, context(scale=scale)).streams for event in islice(stream, most)]


def test_a_step_in_rate_and_back(read) -> None:
    begin, end = events(read({"kind": "rate", "at": "1 s", "until": "iteration 5", "rate": "40 Mbit/s", "links": "h0"}))
    assert (str(begin.at), str(end.at)) == ("1 s", "iteration 5")
    assert {change.directed_link for change in begin.links} == {OUT, IN}
    assert {change.rate_bps for change in begin.links} == {40_000_000}
    assert {change.rate_bps for change in end.links} == {100_000_000}
    assert (begin.optional, end.optional) == (False, True)


def test_a_rate_is_divided_by_the_scale_and_a_share_is_not(read) -> None:
    rated, shared = ({"kind": "rate", "links": "h0"} | one for one in ({"rate": "2 Gbit/s"}, {"share": "40 %"}))
    assert events(read(rated), scale=100)[0].links[0].rate_bps == 20_000_000
    assert events(read(shared), scale=100)[0].links[0].rate_bps == 40_000_000


def test_mlfabrics_rates_change_by_chance_for_each_nic_and_direction(read) -> None:
    found = events(read("N2"), most=2000)
    assert [str(event.at) for event in found[:3]] == ["0 s", "5 s", "10 s"]
    rates = Counter(change.rate_bps for event in found for change in event.links)
    total = sum(rates.values())
    assert total == 2000 * 8
    shares = {10**7 * tenths: count / total for tenths, count in ((r / 10**7, n) for r, n in rates.items())}
    for rate, chance in ((25_000_000, 0.1), (33_000_000, 0.1), (50_000_000, 0.1), (100_000_000, 0.7)):
        assert abs(shares[rate] - chance) < 0.02
    assert any(len({change.rate_bps for change in event.links}) > 1 for event in found[:5])


def test_the_same_seed_gives_the_same_rates(read) -> None:
    assert events(read("N3"), 50) == events(read("N3"), 50)


def test_a_cut_cable_and_a_frozen_host(read) -> None:
    down, up = events(read({"kind": "down", "links": "h0-s0", "direction": "out", "at": "1 s", "until": "2 s"}))
    assert (down.links, up.links) == ((LinkChange(OUT, blocked=True),), (LinkChange(OUT, blocked=False),))
    frozen, again = events(read({"kind": "freeze", "hosts": "h0", "at": "1 s", "until": "2 s"}))
    assert {change.directed_link for change in frozen.links} == {OUT, IN}
    assert [one.number for one in (*frozen.signals, *again.signals)] == [signal.SIGSTOP, signal.SIGCONT]
    assert (down.stops, frozen.stops, again.stops) == ((), ("h0",), ())


def test_an_impaired_link_gets_back_what_it_had(read) -> None:
    given = {"kind": "impair", "links": "h0", "direction": "out", "delay": "5 ms", "loss": "1 %", "until": "2 s"}
    own = LinkSettings(jitter_s=0.001)
    star = build("star(hosts=4)", rate_bps=10**8, delay_s=0.002)
    begin, end = schedule(read(given), context(star, links=own)).streams[0]
    assert begin.impairments == {OUT: Impairment(0.005, loss=0.01)}
    assert end.impairments == {OUT: Impairment(0.002, 0.001)}
    assert "delay 5 ms, loss 1 %" in begin.what


def test_a_kill_has_no_end(read) -> None:
    (event,) = events(read({"kind": "kill", "at": "iteration 2", "nodes": ["h1", "s0"]}))
    assert event.kills == ("h1", "h1.daemon", "a/h1", "s0")  # all that was there
    assert [(one.number, one.target) for one in event.signals] == [(signal.SIGKILL, "h1"), (signal.SIGKILL, "s0")]


def test_one_process_is_killed_or_stands_still_and_its_node_does_not(read) -> None:
    (killed,) = events(read({"kind": "kill", "at": "1 s", "nodes": "h1.daemon"}))
    assert (killed.what, killed.kills) == ("h1.daemon killed", ("h1.daemon",))
    assert [one.target for one in killed.signals] == ["h1.daemon"]
    (frozen,) = events(read({"kind": "freeze", "hosts": ["a/h1"]}))
    assert (frozen.links, [one.target for one in frozen.signals]) == ((), ["a/h1"])


def test_hogs_and_flows_wait_as_helpers_until_they_are_wanted(read) -> None:
    flow = {"kind": "background", "from": "h0", "to": "h2", "flows": 3, "rate": "10 Mbit/s", "until": "3 s"}
    hog = {"kind": "hog", "hosts": ["h0", "h1"], "cores": 2}
    found = schedule(read(flow, hog), context(scale=10))
    sink, source, *hogs = found.helpers
    assert (sink.node, source.node, source.arguments[-2:]) == (2, 0, ("3", "1000000"))
    assert [one.sends_to for one in found.helpers] == [None, 2, *4 * [None]]
    assert [one.name for one in hogs] == ["hog1-h0-0", "hog1-h0-1", "hog1-h1-0", "hog1-h1-1"]
    begin, end, busy = (event for stream in found.streams for event in stream)
    assert [one.number for one in (*begin.signals, *end.signals)] == [START_SIGNAL, STOP_SIGNAL]
    assert {one.helper for one in begin.signals} == {source.name}
    assert len(busy.signals) == 4


CLOUD = build("cloud(rows=1,racks=2,hosts_per_rack=3)", rate_bps=10**8)
INTERFERENCE = {"kind": "interference", "flows": 3, "mean_on": "2 s", "mean_off": "1 s"}


def test_interference_comes_and_goes_between_racks_and_hosts_of_no_job(read) -> None:
    found = schedule(read(INTERFERENCE), replace(context(CLOUD), processes={"a/h0": 0, "b/h4": 4}))
    racks, flows = places(CLOUD).racks, [(one.node, one.sends_to) for one in found.helpers if one.sends_to is not None]
    assert len(flows) == 3
    assert not {0, 4} & {node for ends in flows for node in ends}
    assert all(racks[source] != racks[sink] for source, sink in flows)
    assert len({one.arguments[2] for one in found.helpers}) == 3, "each flow has a port of its own"
    told = list(islice(found.streams[0], 6000))
    times_s = [event.at.time_s for event in told]
    assert times_s == sorted(times_s)
    on_s, off_s = [], []
    for flow in (one for one in found.helpers if one.sends_to is not None):
        own = [event for event in told if event.signals[0].helper == flow.name]
        assert [event.signals[0].number for event in own[:4]] == 2 * [START_SIGNAL, STOP_SIGNAL]
        gaps_s = [after.at.time_s - before.at.time_s for before, after in pairwise(own)]
        on_s, off_s = on_s + gaps_s[::2], off_s + gaps_s[1::2]
    assert sum(on_s) / len(on_s) == pytest.approx(2, rel=0.1)
    assert sum(off_s) / len(off_s) == pytest.approx(1, rel=0.1)


def test_interference_is_the_same_for_a_seed_and_another_for_another(read) -> None:
    def told(seed: int) -> list[tuple[str, str]]:
        there = replace(context(CLOUD), processes={"h0": 0}, seed=seed)
        (stream,) = schedule(read(INTERFERENCE), there).streams
        return [(str(event.at), event.what) for event in islice(stream, 50)]

    assert told(1) == told(1)
    assert told(1) != told(2)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"kind": "rate", "rate": "1 Gbit/s", "links": "h0"},
            "h0:eth0 -> s0 has 100 Mbit/s and cannot rise to",
        ),
        ({"kind": "rate", "share": "0.001 %", "links": "h0"}, "1 kbit/s cannot be emulated"),
        ({"kind": "rates", "shares": {"0.001 %": 1}}, "1 kbit/s cannot be emulated"),
        ({"kind": "hog", "hosts": "s0"}, "s0 is a switch"),
        ({"kind": "kill", "at": "1 s", "nodes": "h7"}, "has no node 'h7'"),
        ({"kind": "kill", "at": "1 s", "nodes": "h1.deamon"}, "has no node 'h1.deamon'"),
        ({"kind": "freeze", "hosts": "h2.daemon"}, "has no node 'h2.daemon'"),
    ],
)
def test_what_cannot_be(read, given: dict, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        events(read(given))
    assert problem in caught.value.problem


@pytest.mark.parametrize("given", [{"kind": "rate", "share": "0.001 %"}, {"kind": "rates", "shares": {"0.001 %": 1}}])
def test_rates_are_those_that_the_lab_can_have(read, given: dict) -> None:
    own = Limits("a lab of one's own", slowest_bps=1_000, fastest_bps=10**9, most_hosts=4, most_links=4)
    assert next(schedule(read(given), context(limits=own)).streams[0]).links[0].rate_bps == 1_000
    with pytest.raises(SpecError, match="1 kbit/s cannot be emulated; a lab of one's own does 2 kbit/s to 1 Gbit/s"):
        schedule(read(given), context(limits=replace(own, slowest_bps=2_000)))
