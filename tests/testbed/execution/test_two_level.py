"""2LHA of given and random groups, and of other numbers of classes, end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..bench import Bench
from ..records import check

SPEC = """
name: groups
links: {rate: 200 Mbit/s}
workload: {model: resnet8, dataset: digits, batch: 2, iterations: 2, compute: none, chunk: 4 KiB}
arms:
  - {topology: star(hosts=6), scheme: "two_level(groups=[[h0,h3,4],[1,h5],[h2]],classes=10)"}
  - {topology: star(hosts=6), scheme: "two_level(groups=random,k=3,draw=2)"}
"""


@pytest.mark.lab
def test_every_worker_ends_with_the_weights_of_a_single_process(bench: Bench, tmp_path: Path) -> None:
    records = [outcome.record for outcome in bench.run(SPEC, tmp_path)]
    assert len(records) == 2
    for record in records:
        assert record["status"] == "done", record["error"]
        assert record["accuracy"]["weights_error"] < 1e-6
        wire = check(record, "bytes on the wire")
        assert wire["ok"], wire
