"""PHub's claims that are computed: bandwidth of a server's host, and throughput for its price."""

from __future__ import annotations

import pytest

from testbed.analysis.papers import phub
from testbed.analysis.papers.claim import Verdict
from testbed.analysis.papers.phub import (
    MODELS,
    PAPER,
    PLACED,
    STATED,
    bandwidth,
    baseline_cost,
    baseline_samples,
    for_1000,
    gradients,
    needed_gbps,
    phub_share,
    price,
    prices,
    table_2_1,
    table_6_3,
)


def test_bytes_in_and_out_of_a_servers_host() -> None:
    assert {one: gradients(one) for one in PLACED} == pytest.approx({"CC": 14, "CS": 3.5, "NCC": 16, "NCS": 2})


def test_table_6_1_gives_7_to_16_percent_more_than_table_2_1() -> None:
    assert [round(needed_gbps("ResNet-269", one)) for one in PLACED] == [131, 33, 150, 19]
    more = [needed_gbps(model, "CC") / stated[0] for model, (_, _, stated) in MODELS.items()]
    assert min(more) == pytest.approx(1.07, abs=0.005)
    assert max(more) == pytest.approx(1.16, abs=0.005)


def test_the_bandwidth_holds() -> None:
    found = bandwidth({})
    assert found.verdict == Verdict.HOLDS, [one for one in found.checks if one.verdict != Verdict.HOLDS]
    assert found.rows[0].theory == pytest.approx(14)


def test_the_bandwidth_fails_if_a_column_has_another_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "AlexNet", (194, 0.016, (1232, 308, 1408, 190)))
    failed = [one.says for one in bandwidth({}).checks if one.verdict == Verdict.FAILS]
    assert failed == ["AlexNet: the table's columns are in the ratio of these bytes"]


def test_the_bandwidth_fails_if_a_scheme_moves_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(phub.BYTES, "CS", 4.0)
    assert bandwidth({}).verdict == Verdict.FAILS


def test_prices_that_the_table_means() -> None:
    assert baseline_cost() == pytest.approx(12_078.28, abs=0.005)
    assert baseline_samples() == pytest.approx(556.9, abs=0.05)
    assert prices()["Spendy"][1] == pytest.approx(7236, abs=0.5)
    assert prices()["Cheap"][0] == pytest.approx(1258, abs=0.5)
    assert phub_share() == pytest.approx(0.994, abs=0.0005)


def test_the_price_fails_as_printed_and_shows_both() -> None:
    found = price({})
    assert found.verdict == Verdict.FAILS
    future = [row for row in found.rows if row.name.startswith("25Gb") and row.name.endswith("Future GPUs")]
    assert [row.paper for row in future] == [55.19, 57.71, 59.03]
    assert [row.theory for row in future] == pytest.approx([60.5, 65.7, 67.4], abs=0.06)
    assert found.checks[-1].verdict == Verdict.HOLDS, "the caption's 25 %"
    assert found.checks[0].verdict == Verdict.FAILS


def test_the_price_would_hold_if_the_table_had_what_the_formulas_give(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = {deployment: tuple(for_1000(deployment, column) for column in phub.COLUMNS) for deployment in STATED}
    for deployment, numbers in computed.items():
        monkeypatch.setitem(STATED, deployment, numbers)
    assert all(one.verdict == Verdict.HOLDS for one in price({}).checks[:-1])


def test_tables_of_theory() -> None:
    assert table_2_1().rows[1] == ("ResNet-269", "131", "33", "150", "19", "122", "31", "140", "17")
    first, one, *_ = table_6_3().rows
    assert first == ("100Gb Sharded 1:1", "46.11", "46.11", "14.57", "14.57", "60.41", "60.41")
    assert one[:3] == ("25Gb PHub 1:1", "60.49", "55.19")
    assert set(phub.TABLES) <= {claim.name for claim in PAPER.claims}
