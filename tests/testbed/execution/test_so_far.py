"""What is known of a trial while it runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.control.feed import Feed
from testbed.evidence.spot_checks import Made, Readings
from testbed.execution.so_far import SoFar


def line(i: int, ready_s: float, sum_s: float) -> str:
    return json.dumps({"kind": "iteration", "i": i, "ready": ready_s, "sum": sum_s}) + "\n"


def test_gst_is_the_median_over_iterations_that_all_have_written(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("h0", "h1")}
    so_far = SoFar(Feed(files), Readings(), files, skip=1)
    assert so_far.gst_s() is None  # no file yet
    files["h0"].write_text(line(0, 1.0, 9.0) + line(1, 10.0, 11.5) + line(2, 20.0, 22.0))
    files["h1"].write_text(line(0, 1.0, 9.0))
    assert so_far.gst_s() is None
    with files["h1"].open("a") as file:
        file.write(line(1, 11.0, 11.25) + line(2, 20.5, 21.0)[:10])
    assert so_far.gst_s() == pytest.approx(0.5)  # from the last that is ready to the last sum
    with files["h1"].open("a") as file:
        file.write(line(2, 20.5, 21.0)[10:])
    assert so_far.gst_s() == pytest.approx(1.0)


def test_what_makes_no_sense_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "h0"
    path.write_text('nonsense "iteration"\n{"kind": "iteration", "i": "x", "ready": 1, "sum": 2}\n' + line(0, 1.0, 1.5))
    assert SoFar(Feed({"h0": path}), Readings(), {"h0": path}, skip=0).gst_s() == 0.5


def test_links_are_as_asked_until_a_reading_says_otherwise() -> None:
    readings = Readings()
    so_far = SoFar(Feed({}), readings, {}, skip=0)
    assert so_far.links() == ""
    readings.made.append(Made(1.0, 1.1, 6))
    assert so_far.links() == "links as asked so far"
    readings.seen_s["s0 -> h0 has 100 Mbit/s"].append(2.0)
    assert so_far.links() == "links not as asked"
