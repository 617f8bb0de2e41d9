"""Rates of links as they stand in a file that grows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.workloads.link_rates import Follower, told


def line(seen_s: float, rates_bps: dict[int, float]) -> str:
    return json.dumps(told(seen_s, rates_bps)) + "\n"


def test_each_line_is_told_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "rates"
    follower = Follower(path, 4)
    assert follower.new() == []
    text = line(1.5, {3: 1e6, 0: 0.0})
    path.write_text(text + text[:10])
    assert follower.new() == [(1.5, {0: 0.0, 3: 1e6})]
    assert follower.new() == []
    path.write_text(text + text)
    assert follower.new() == [(1.5, {0: 0.0, 3: 1e6})]


@pytest.mark.parametrize(
    "said",
    [
        line(1.0, {4: 1e6}),
        line(1.0, {0: -1.0}),
        line(float("nan"), {0: 1.0}),
        line(1.0, {0: float("inf")}),
        "nothing\n",
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, said: str) -> None:
    (tmp_path / "rates").write_text(said)
    with pytest.raises(ValueError, match=r"directed links|no number|Expecting value"):
        Follower(tmp_path / "rates", 4).new()
