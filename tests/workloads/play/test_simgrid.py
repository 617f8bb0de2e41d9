"""SimGrid as the judge of our own solver: both engines simulate the same times and bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import MissingToolError, TrialError
from testbed.topologies.model import Topology
from testbed.workloads.play import simgrid
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.changes import Planned, RateChange
from testbed.workloads.play.fluid import Fluid
from testbed.workloads.play.links import Network
from testbed.workloads.play.player import Player
from testbed.workloads.play.simgrid import SimGrid
from testbed.workloads.play.synchronisation import synchronisation
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.schemes import build

LINKS, FLOATS = 4, 250_000
PATHS = st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=LINKS, unique=True)
SENT = st.lists(st.tuples(PATHS, st.lists(st.integers(0, 5000), min_size=1, max_size=3)), min_size=1, max_size=6)
RACKS = "spine_leaf(racks=2,hosts_per_rack=4,spines=2,routing=ecmp{})"


@pytest.fixture(autouse=True, scope="module")
def judge() -> None:
    """There is a SimGrid, or nothing is judged."""
    try:
        SimGrid(np.ones(1))
    except MissingToolError as error:
        pytest.skip(f"{error.problem}; fix: {error.fix}")


def ends(network: Network, sent: list[tuple[list[int], list[int]]]) -> list[list[float]]:
    """By connection, when its messages end; a link gets another rate in between."""
    found: list[list[float]] = [[] for _ in sent]
    for path, sizes in sent:
        connection = network.connect(path)
        for size in sizes:
            network.send(connection, size)
    for until_s in (1.0, math.inf):
        while network.now_s < until_s and not network.is_idle:
            for connection in network.advance(until_s):
                found[connection].append(network.now_s)
        network.set_rate(0, 3000.0)
    return found


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1000, 50_000), min_size=LINKS, max_size=LINKS), SENT)
def test_random_messages_over_random_paths_end_alike(rates: list[int], sent: list[tuple[list[int], list[int]]]) -> None:
    ours, judge = Fluid(np.array(rates, float)), SimGrid(np.array(rates, float))
    expected = ends(judge, sent)
    assert sum(map(len, expected)) == sum(len(sizes) for _, sizes in sent)
    for mine, other in zip(ends(ours, sent), expected, strict=True):
        assert mine == pytest.approx(other, rel=1e-6, abs=1e-8)
    assert ours.carried_bytes() == pytest.approx(judge.carried_bytes())


@pytest.mark.parametrize(
    ("network", "scheme"),
    [
        ("star(hosts=9)", "ps"),
        ("star(hosts=9)", "halving_doubling"),
        ("star(hosts=8)", "double_binary_tree"),
        ("bcube(n=3,k=2)", "bml"),
        ("fat_tree(k=4)", "halving_doubling"),
        (RACKS.format(""), "hierarchical_ps"),
        (RACKS.format(",ina=all"), "rina(slots=12)"),
    ],
)
def test_both_engines_simulate_the_same_time_for_each_worker(
    topology: Callable[..., Topology], network: str, scheme: str
) -> None:
    made = topology(network, 10**8)
    forest = build(scheme, made, [FLOATS])
    chunks = cut(forest, FLOATS, [(0, FLOATS)], 100_000)
    times = []
    for engine in (Fluid.over, SimGrid.over):
        change = Planned([RateChange(0.02, 0, 5e7)])
        work = synchronisation(forest, chunks)
        player = Player(Arena(made, seed=3, goodput=0.95, timeline=change, engine=engine), work)
        times.append({node: at_s for at_s, node in player.told()})
    ours, judged = times
    assert set(ours) == set(forest.workers)
    assert ours == pytest.approx(judged, rel=1e-6)


def test_blocked_links_are_refused() -> None:
    with pytest.raises(ValueError, match="blocks no links"):
        SimGrid(np.ones(1)).set_rate(0, 0)


def test_without_simgrid_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lacking = tmp_path / "lacking.py"
    lacking.write_text("raise ModuleNotFoundError(\"No module named 'simgrid'\")")
    monkeypatch.setattr(simgrid, "PROCESS", lacking)
    with pytest.raises(MissingToolError, match=r"No module named 'simgrid'") as caught:
        SimGrid(np.ones(1))
    assert "python3-simgrid" in str(caught.value.fix)
    monkeypatch.setattr(simgrid, "PYTHON", str(tmp_path / "python"))
    with pytest.raises(MissingToolError, match="there is no"):
        SimGrid(np.ones(1))


def test_a_simgrid_that_ends_is_an_error_and_not_a_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    brief = tmp_path / "brief.py"
    brief.write_text("input(); print('[0.0, []]', flush=True); input(); raise SystemExit('no more')")
    monkeypatch.setattr(simgrid, "PROCESS", brief)
    made = SimGrid(np.ones(1))
    made.send(made.connect([0]), 1)
    with pytest.raises(TrialError, match="SimGrid has ended: no more"):
        made.advance()
