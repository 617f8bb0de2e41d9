"""An order of ranks, end to end: the same bytes and weights in the order of numbers, and the same weights in any."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..bench import Bench
from ..records import check

SPEC = """
name: orders
links: {rate: 200 Mbit/s}
workload: {model: lenet5, dataset: digits, batch: 2, iterations: 2, compute: none}
arms:
  - {topology: star(hosts=3), scheme: ring}
  - {topology: star(hosts=3), scheme: ring, order: [h0, h1, h2]}
  - {topology: star(hosts=3), scheme: ring, order: [h2, h0, h1]}
"""


@pytest.mark.lab
def test_weights_are_those_of_a_single_process_in_any_order(bench: Bench, tmp_path: Path) -> None:
    plain, same, other = (outcome.record for outcome in bench.run(SPEC, tmp_path))
    for record in (plain, same, other):
        assert record["status"] == "done", record["error"]
        assert record["accuracy"]["weights_error"] < 1e-6
        assert record["accuracy"]["weights_equal"]
        wire = check(record, "bytes on the wire")
        assert wire["ok"], wire
    assert same["accuracy"]["weights_error"] == pytest.approx(plain["accuracy"]["weights_error"])
