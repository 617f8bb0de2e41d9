"""Distances that hosts probed: heat maps by found groups and by hidden racks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.topologies.build import build
from testbed.topologies.cloud import places

from ..helpers import answer, asked

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
CLOUD = "cloud(racks=2,hosts_per_rack=2)"
RACKS = places(build(CLOUD, rate_bps=10**9)).groups


def found(**changed: Any) -> dict[str, Any]:
    """Four hosts, grouped by rack, of which two pairs across racks have no distance."""
    near = [{*rack} for rack in RACKS]
    rows = {
        f"h{a}": [0.0 if a == b else 1e-4 if {a, b} in near else None if a + b == 3 else 2e-3 for b in range(4)]
        for a in range(4)
    }
    groups = ",".join(f"[{','.join(f'h{host}' for host in rack)}]" for rack in RACKS)
    settings = {"scheme": f"two_level(groups=[{groups}])"}
    return {"job": "", "probe": "latency", "settings": settings, "measured": rows, "took_s": 4.5} | changed


@pytest.fixture
def probed(run_dir: Path, edit: Edit) -> Callable[..., Run]:
    def made(topology: str = CLOUD, **changed: Any) -> Run:
        edit(
            run_dir / "trials" / "ring-b16.json",
            lambda trial: trial.update(topology=topology, found=[found(**changed)]),
        )
        return load(run_dir)

    return made


def test_a_run_in_which_nothing_was_probed_is_not_asked(run: Run) -> None:
    assert asked(run, "distances") is None


def test_rates_of_links_are_between_no_pairs(probed: Callable[..., Run]) -> None:
    run = probed(probe="rates", measured={"h0": [1e8]})
    assert asked(run, "distances") is None


def test_hosts_are_in_the_order_of_groups_and_of_racks(probed: Callable[..., Run]) -> None:
    question = answer(probed(), "distances")
    by_group, by_rack = question.panels
    for panel in (by_group, by_rack):
        layout = panel.figure["layout"]
        assert layout["xaxis"]["categoryarray"] == [f"h{host}" for rack in RACKS for host in rack]
        assert [(shape["x0"], shape["x1"]) for shape in layout["shapes"]] == [(-0.5, 1.5), (1.5, 3.5)]
    distances_s = question.frame.set_index(["from", "to"])["distance_s"]
    a, b = RACKS[0]
    assert distances_s[f"h{a}", f"h{b}"] == 1e-4
    assert distances_s[f"h{a}", f"h{a}"] != distances_s[f"h{a}", f"h{a}"], "a host has no distance to itself"
    (row,) = question.told
    assert (row["Probe"], row["Groups"], row["Groups are the racks"]) == ("latency", "2", "yes")
    across = [(a, b) for a in RACKS[0] for b in RACKS[1] if a + b == 3]
    assert row["Pairs without a distance"] == f"{len(across)}"


def test_only_a_cloud_has_hidden_racks(probed: Callable[..., Run]) -> None:
    question = answer(probed("star(hosts=4)"), "distances")
    assert len(question.panels) == 1
    (row,) = question.told
    assert row["PAIA"] == row["Groups are the racks"] == words.UNKNOWN


def test_hosts_are_in_the_order_of_ranks_where_one_was_found(probed: Callable[..., Run]) -> None:
    order = [f"h{host}" for host in (RACKS[0][0], RACKS[1][0], RACKS[1][1], RACKS[0][1])]
    costs = dict.fromkeys(("cost_s", "by_number_s", "best_s", "worst_s", "bound_s"), 1.0)
    search = {"order": order, "proven": True} | costs
    both = {name: [*row, *(1e-8 for _ in row)] for name, row in found()["measured"].items()}
    question = answer(probed(probe="linear", measured=both, settings={}, search=search), "distances")
    assert [row["Probe"] for row in question.told] == ["latency", "bandwidth"], "both tables are drawn"
    assert {row["Groups"] for row in question.told} == {words.UNKNOWN}
    by_rank, by_rack = question.panels[:2]
    assert by_rank.caption.endswith("latency, hosts in the order of ranks")
    assert by_rank.figure["layout"]["xaxis"]["categoryarray"] == order
    assert [shape["x0"] for shape in by_rank.figure["layout"]["shapes"]] == [-0.5, 0.5, 2.5]
    assert by_rack.caption.endswith("hidden racks")
    bits = question.frame[question.frame["probe"] == "bandwidth"].set_index(["from", "to"])["distance_s"]
    assert bits["h0", "h1"] == 1e-2
