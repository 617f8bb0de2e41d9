"""The gate from the command line, with whole trials."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.base import exits

from ..conftest import PROFILE, Called

RING = PROFILE.replace("{topology: star(hosts=5), ", "{label: ring, topology: star(hosts=3), ")
RING = RING.replace("scale: 200}", "scale: 200, compute: none}")  # nothing is asked but GST


@pytest.mark.usefixtures("ideal")
def test_a_run_is_held_against_its_baseline(testbed: Callable[..., Called], tmp_path: Path) -> None:
    """Against a made-up past in which GST was a tenth: slower, and measured twice."""
    (tmp_path / "spec.yaml").write_text(RING)
    assert testbed("run", "spec.yaml", "--out", "first").code == exits.OK
    made = testbed("baseline", "first", "--out", "past.json")
    assert (made.code, made.err) == (exits.OK, "")
    assert "1 of 1 cell with fewer than the 6 trials, VALID in every number, that a decision needs" in made.out
    past = json.loads((tmp_path / "past.json").read_text())
    (one,) = past["cells"][0]["trials"]
    past["cells"][0]["trials"] = [
        {**one, "id": f"then-{i}", "repeat": i, "gst": one["gst"] * (0.1 + i / 1000)} for i in range(5)
    ]
    (tmp_path / "past.json").write_text(json.dumps(past))
    slower = testbed(
        *("run", "spec.yaml", "--out", "second", "--set", "repeats=5", "--baseline", "past.json", "--metric", "gst")
    )
    assert (slower.code, slower.err) == (exits.REGRESSION, "")
    assert "suspicious cells are measured once more" in slower.out
    assert slower.out.splitlines()[-1] == "1 worse: second against past.json; changes above 3 % count"
    assert len(list((tmp_path / "second" / "rerun" / "trials").iterdir())) == 5
    found = json.loads((tmp_path / "second" / "comparison.json").read_text())
    assert found["measured_again"] == ["ring, batch 32"]
    assert testbed("compare", "past.json", "second", "--metric", "gst").code == exits.REGRESSION
    refused = testbed("run", "spec.yaml", "--out", "third", "--baseline", "past.json", "--set", "links.rate=20 Gbit/s")
    assert refused.code == exits.UNDECIDED
    assert not (tmp_path / "third").exists()
