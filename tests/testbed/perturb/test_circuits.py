"""Circuits that a schedule moves, or a process of a trial asks for: what is recorded, and what it costs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from testbed.base.errors import SpecError
from testbed.control.conductor import Conductor
from testbed.control.feed import Feed
from testbed.control.patching import Patching
from testbed.control.registry import Beside
from testbed.lab.base import LinkSettings
from testbed.lab.limits import HTB
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Launch, Program
from testbed.perturb.circuits import History, MovedCost, State, by_count, lit_shares, mixed_cost
from testbed.perturb.kinds.base import Context
from testbed.perturb.kinds.circuits import Circuits
from testbed.perturb.schedule import schedule
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build as build_forest
from tests.patience import until

from ..fake_lab import FakeLab

ASK = Path(__file__).with_name("ask.py")
OTHER = [[0, 2, 4, 1, 3, 5]]


def panels(arguments: str = "servers=6,degree=2,look_ahead=true") -> Topology:
    return build(f"patch_panel({arguments})", rate_bps=10**8)


def circuits(**keys: Any) -> Circuits:
    return Circuits.model_validate({"kind": "circuits", **keys})


def context(topology: Topology) -> Context:
    return Context(topology, 1.0, LinkSettings(), HTB, 1, {})


def test_a_schedule_is_carried_out_in_order_and_worked_out_ahead(tmp_path: Path) -> None:
    topology, lab, feed = panels(), FakeLab(), Feed({})
    lab.up(topology, LinkSettings(), [])
    moves = [
        circuits(at="0 s", rings=OTHER, look_ahead=True, reconfiguration="0.1 s"),
        circuits(at="0.02 s", flip="all"),
        circuits(at="0.04 s", rings=[1], reconfiguration="0 s"),
    ]
    with (
        Patching(lab, topology) as patching,
        Conductor(schedule(moves, context(topology)), lab, tmp_path, patching) as conductor,
        Beside(feed, [conductor, patching]),
    ):
        feed.begin()
        until(lambda: [record.done_s is None for record in conductor.records] == [False] * 3)
    assert [record.what for record in conductor.records] == [move.words for move in moves]
    first, second, third = conductor.records
    assert first.planned_s <= first.begun_s <= first.done_s - 0.1
    assert first.done_s <= second.begun_s, "moves take turns"
    assert second.done_s <= third.begun_s
    assert [record.takes_s for record in conductor.records] == [0.1, 0, 0]
    assert first.done_s <= second.free_s <= second.begun_s
    # The first was worked out when it was due or before, and the third was due when the second may have been done.
    assert first.free_s is None or first.planned_s <= first.free_s <= first.begun_s
    assert third.free_s is None or second.done_s <= third.free_s <= third.begun_s
    expected = moves[1].moved(moves[0].moved(topology))
    assert [note.name for note in lab.notes] == ["up", "plan_patch", "patch", "plan_patch", "patch"]
    assert lab.notes[2].argument.panels == expected.panels
    assert [state.topology.panels for state in patching.history] == [
        topology.panels,
        expected.panels,
        moves[2].moved(expected).panels,
    ]


@pytest.mark.lab
def test_a_process_asks_and_its_traffic_takes_the_new_circuit(tmp_path: Path) -> None:
    topology = panels("servers=6,degree=2,technology=mems_3d")
    own, log = tmp_path / "h0", tmp_path / "h0.log"
    own.mkdir()
    samples = own / "samples.jsonl"
    address = plan(topology).of(2, 0)
    with NetnsLab() as lab:
        lab.share(tmp_path, [ASK.parent])
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        with Patching(lab, topology) as patching, Beside(Feed({"h0": samples}), [patching]):
            request = json.dumps({"kind": "request", "rings": OTHER})
            program = Program((sys.executable, str(ASK), str(samples), address, request), {}, str(tmp_path))
            lab.launch([Launch("h0", 0, "", str(log), program)])
            until(lab.exits)
        assert log.read_text().split() == ["ttl=63", "ttl=64"]
    (record,) = patching.records
    assert record.error is None
    assert record.what == "to rings=[[0,2,4,1,3,5]], asked for in band"
    assert record.planned_s <= record.begun_s <= record.done_s - 0.01
    assert record.takes_s == 0.01
    assert record.planned_s <= record.free_s <= record.begun_s, "it had to be worked out first"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"rings": [2]}, "patch_panel: rings holds 2; a ring of that stride misses some of the 6 servers"),
        ({"ring": [1]}, 'request {"kind": "request", "ring": [1]}: Extra inputs are not permitted'),
    ],
)
def test_a_request_that_cannot_be_is_recorded(tmp_path: Path, line: dict[str, Any], error: str) -> None:
    samples, lab = tmp_path / "h0.jsonl", FakeLab()
    lab.up(panels(), LinkSettings(), [])
    with Patching(lab, panels()) as patching, Beside(Feed({"h0": samples}), [patching]):
        samples.write_text(json.dumps({"kind": "request", **line}) + "\n" + '{"kind": "requ')
        until(lambda: [record.error for record in patching.records if record.error])
    assert [record.error for record in patching.records] == [error]
    assert [note.name for note in lab.notes] == ["up"]


def test_what_moves_is_dark_for_the_panels_time_unless_said_otherwise() -> None:
    topology = panels("servers=6,degree=2,technology=mems_3d,look_ahead=true")
    assert circuits(rings=[1]).dark_s(topology) == 0.01
    assert circuits(rings=[1], reconfiguration="2 s").dark_s(topology) == 2
    assert circuits(flip="all").dark_s(topology) == 0
    assert circuits(flip="h0", reconfiguration="1 ms").dark_s(topology) == 0.001


def moved_cost(forest: Forest, history: History, windows: Sequence[tuple[float, float]]) -> MovedCost:
    """Of synchronisations of 1 MB in these windows."""
    costs = [cost(forest, state.topology, 1e6) for state in history]
    return mixed_cost(costs, np.mean([lit_shares(history, window) for window in windows], axis=0))


def test_costs_are_shared_out_by_time_and_the_bound_is_the_best() -> None:
    before = panels("servers=6,degree=2,rings=[[0,2,4,1,3,5]]")
    after = circuits(rings=[1]).moved(before)
    forest = build_forest("ring", before, [600])
    history = [State(before), State(after, 2.25, 2.75)]
    found = moved_cost(forest, history, [(1.0, 2.0), (2.0, 3.0), (3.0, 4.0)])
    first, second = cost(forest, before, 1e6), cost(forest, after, 1e6)
    assert found.link_bytes == pytest.approx(0.5 * first.link_bytes + 0.5 * second.link_bytes)
    assert found.bound_s() == second.bound_s() < first.bound_s()


@pytest.mark.parametrize(
    ("window", "share"),
    [
        ((2.5, 4.0), 0),  # gradients that were there while it was dark left over the new circuits
        ((1.0, 2.5), 1),
        ((0.5, 3.5), 0.75),
        ((2.2, 2.8), 1),  # over circuits that did not move
    ],
)
def test_nothing_is_sent_over_circuits_while_they_are_dark(window: tuple[float, float], share: float) -> None:
    before = panels("servers=6,degree=2,rings=[[0,2,4,1,3,5]]")
    after = circuits(rings=[1]).moved(before)
    forest = build_forest("ring", before, [600])
    found = moved_cost(forest, [State(before), State(after, 2.0, 3.0)], [window])
    first, second = cost(forest, before, 1e6), cost(forest, after, 1e6)
    assert found.link_bytes == pytest.approx(share * first.link_bytes + (1 - share) * second.link_bytes)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({}, "circuits takes either rings and circuits, or flip"),
        ({"rings": [1], "flip": "all"}, "circuits takes either rings and circuits, or flip"),
        ({"rings": [1], "look_ahead": True, "routes": ["0-1"]}, "panels that look ahead carry no traffic yet"),
    ],
)
def test_a_group_that_says_too_much_or_too_little(keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        circuits(**keys)


def test_moves_need_panels_and_flips_need_look_ahead(read: Callable[..., list[Any]]) -> None:
    (move,) = read({"kind": "circuits", "rings": [1]})
    with pytest.raises(SpecError, match=r"star\(hosts=3\) has no patch panels"):
        schedule([move], context(build("star(hosts=3)", rate_bps=10**8)))
    with pytest.raises(SpecError, match="these patch panels have no look-ahead ports"):
        circuits(flip="all").moved(panels("servers=6,degree=2"))
    with pytest.raises(SpecError, match="has no node 'h9'"):
        circuits(flip=["h9"]).moved(panels())
    assert circuits(flip=["h0", "h1"]).words == "flip of h0, h1"


ITERATIONS = {0: (0.0, 1.0), 1: (1.5, 2.5), 2: (3.0, 4.0)}
"""Windows of three synchronisations."""


@pytest.mark.parametrize(
    ("dark_s", "counted_bytes", "sent"),
    [
        (2.0, 165.0, 1.5),  # a tenth more than gradients: headers and acknowledgements
        (2.0, 109.0, 1.0),  # two have begun, and one of them has ended
        (2.0, 250.0, 2.0),
        (2.7, 165.0, 2.0),  # between two synchronisations nothing is under way
        (0.0, 0.0, 0.0),
    ],
)
def test_what_links_had_carried_tells_what_had_been_sent(dark_s: float, counted_bytes: float, sent: float) -> None:
    """A synchronisation of 100 bytes before, and of 50 afterwards; NICs were measured by 7 bytes."""
    total_bytes = 7 + counted_bytes + 1.1 * 50 * (3 - counted_bytes / 110)
    topology = panels("servers=6,degree=2,rings=[1]")
    history = [State(topology), State(topology, dark_s, dark_s + 0.1, counted_bytes=7 + counted_bytes)]
    assert by_count(history, [100.0, 50.0], ITERATIONS, (7.0, total_bytes))[1].sent == pytest.approx(sent)


def test_nothing_is_told_by_counts_that_are_missing_or_fall() -> None:
    topology = panels("servers=6,degree=2,rings=[1]")
    for counted_bytes in (None, 300.0):
        history = [State(topology), State(topology, 2.0, 2.1, counted_bytes=counted_bytes)]
        assert by_count(history, [100.0, 50.0], ITERATIONS, (0.0, 200.0)) == history
