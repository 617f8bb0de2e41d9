"""Orders of ranks: GST by predicted cost, and its distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import words

from ..helpers import answer, asked, in_trial

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
