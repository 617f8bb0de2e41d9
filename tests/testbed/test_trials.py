"""When two trials are the same, so that one need not run again."""

from __future__ import annotations

from pathlib import Path

from testbed.spec import read
from testbed.trials import trials

from .conftest import SPEC

TWO_WAYS = """
from topologies.model import Link, Node, Topology
from topologies.shortest import ShortestPaths

def two_ways(rate_bps, delay_s):
    nodes = [Node("h0", "host", 0), Node("h1", "host", 0), *(Node(f"s{i}", "switch", 1) for i in range(4))]
    ends = [(0, 2), (2, 3), (3, 5), (2, 4), (4, 5), (5, 1)]
    used = [0] * 6
    links = []
    for a, b in ends:
        links.append(Link(a, used[a], b, used[b], rate_bps, delay_s))
        used[a], used[b] = used[a] + 1, used[b] + 1
    return Topology("two_ways", {}, tuple(nodes), tuple(links), ShortestPaths(ecmp=False))
"""


def identity(folder: Path, *overrides: str) -> str:
    arms = "arms=[{topology: ./net.py:two_ways, scheme: ring}]"
    return trials(read(SPEC, "spec.yaml", folder, [arms, *overrides]))[0].identity


def test_other_routes_make_another_trial(tmp_path: Path) -> None:
    """A user's router is code: nodes and links stay the same when it changes."""
    (tmp_path / "net.py").write_text(TWO_WAYS)
    before = identity(tmp_path)
    assert identity(tmp_path) == before
    assert identity(tmp_path, "name=other", "timeout=30 s") == before
    assert identity(tmp_path, "seed=2") != before
    (tmp_path / "net.py").write_text(TWO_WAYS.replace("ecmp=False", "ecmp=True"))
    assert identity(tmp_path) != before
