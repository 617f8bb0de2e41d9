"""Distances that hosts probed: heat maps by found groups and by hidden racks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.topologies.build import build
from testbed.topologies.cloud import places

from ..helpers import answer, asked, in_trial

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


Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
ORDERS = {"ps-b16": None, "ring-b16": "best", "bml-b16": "worst"}
COSTS_S = {"best": 1.0, "worst": 3.0, "best(model=linear)": 7.0}
BY_NUMBER_S = 2.0


@pytest.fixture
def made(run_dir: Path, edit: Edit) -> Callable[..., Run]:
    """Three arms that differ in their order alone, of which the order of numbers costs 2 s."""

    def of(gst_s: Mapping[str, float], orders: Mapping[str, Any] = ORDERS, **arm: Any) -> Run:
        edit(
            run_dir / "resolved.json",
            lambda run: run.update(
                arms=[
                    {"label": each["label"], "scheme": "ring", "topology": "star(hosts=9)"}
                    | ({"order": order} if order else {})
                    | (arm if order == "worst" else {})
                    for each, order in zip(run["arms"], orders.values(), strict=True)
                ]
            ),
        )
        for name, order in orders.items():
            edit(run_dir / "trials" / f"{name}.json", partial(_became, gst_s=gst_s[name], order=order))
            (run_dir / "trials" / f"{name.replace('16', '64')}.json").unlink()
        return load(run_dir)

    return of


def _became(trial: dict[str, Any], gst_s: float, order: Any) -> None:
    trial.update(topology="star(hosts=9)", scheme="ring")
    trial["metrics"]["gst_median_s"] = gst_s
    if order in COSTS_S:
        search = {"order": ["h0"], "cost_s": COSTS_S[order], "by_number_s": BY_NUMBER_S, "best_s": 1.0, "worst_s": 3.0}
        told = {"job": "", "probe": "latency", "settings": {}, "measured": {}, "took_s": 1.0}
        trial["found"] = [told | {"search": search | {"bound_s": None, "proven": False}}]


def test_a_run_without_orders_is_not_asked(run: Run) -> None:
    assert asked(run, "orders") is None


@pytest.mark.parametrize(
    ("gst_s", "coefficient"), [((0.2, 0.1, 0.3), "1.00"), ((0.2, 0.3, 0.1), "-1.00"), ((0.1, 0.2, 0.3), "0.50")]
)
def test_orders_that_should_cost_more_are_held_against_their_gst(
    gst_s: tuple[float, ...], coefficient: str, made: Callable[..., Run]
) -> None:
    question = answer(made(dict(zip(ORDERS, gst_s, strict=True))), "orders")
    (row,) = question.told
    assert row["Spearman's coefficient"] == coefficient
    assert row["Slowest / fastest"] == words.ratio(3.0)
    priced = question.frame.dropna(subset="cost_s").set_index("arm")["cost_s"].to_dict()
    assert [*priced.values()] == [1.0, 3.0, BY_NUMBER_S]
    assert [panel.name for panel in question.panels] == ["orders-0-times", "orders-0-cost-0"]


def test_the_distribution_has_each_order_once_the_fastest_first(made: Callable[..., Run]) -> None:
    question = answer(made(dict(zip(ORDERS, (0.2, 0.1, 0.3), strict=True))), "orders")
    times = question.frame.dropna(subset="share_at_most")
    assert [*times["gst_s"]] == [0.1, 0.2, 0.3]
    assert [*times["share_at_most"]] == pytest.approx([1 / 3, 2 / 3, 1])


def test_costs_of_different_models_are_not_mixed_and_two_orders_have_no_coefficient(made: Callable[..., Run]) -> None:
    orders = {"ps-b16": "random(3)", "ring-b16": "best", "bml-b16": "best(model=linear)"}
    question = answer(made(dict(zip(ORDERS, (0.2, 0.1, 0.3), strict=True)), orders), "orders")
    assert [row["Cost by"] for row in question.told] == ["model=latency", "model=linear"]
    assert {row["Spearman's coefficient"] for row in question.told} == {words.UNKNOWN}


def test_an_arm_that_differs_in_more_than_its_order_is_not_compared(made: Callable[..., Run]) -> None:
    question = answer(made(dict(zip(ORDERS, (0.2, 0.1, 0.3), strict=True)), rate_bps=1), "orders")
    (row,) = question.told
    assert row["Orders"] == "2"


def test_an_order_whose_gst_is_invalid_counts_neither_for_the_coefficient_nor_the_slowest(
    made: Callable[..., Run],
) -> None:
    run = made(dict(zip(ORDERS, (0.2, 0.1, 0.3), strict=True)))
    question = answer(in_trial(run, "bml-b16", gst="INVALID"), "orders")
    (row,) = question.told
    assert (row["Spearman's coefficient"], row["Slowest / fastest"]) == (words.UNKNOWN, words.ratio(2.0))
    assert any("Not counted here" in sentence for sentence in question.seen)
