"""What a user reads where nothing can be compared, word for word: golden/compare/NAME.txt, as in test_bad_input.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ..conftest import Called
from ..sides import write_side
from ..spec.test_bad_input import GOLDEN, check

TWO = ["compare", "base.json", "new.json"]
CALLS: dict[str, tuple[int, list[str]]] = {
    "conditions": (4, ["compare", "base.json", "elsewhere.json"]),
    "conditions_of_which_one_is_allowed": (4, ["compare", "base.json", "elsewhere.json", "--allow", "cpu"]),
    "rate": (4, ["compare", "base.json", "slower_links.json"]),
    "topology": (4, ["compare", "base.json", "larger.json"]),
    "nothing_in_common": (4, ["compare", "base.json", "ps.json"]),
    "no_valid_trial": (4, ["compare", "base.json", "invalid.json"]),
    "baseline_without_a_valid_trial": (4, ["baseline", "invalid.json", "--out", "made.json"]),
    "with_itself": (2, ["compare", "base.json", "base.json"]),
    "unknown_arm": (2, [*TWO, "--arms", "ring=tree"]),
    "format_unknown": (2, [*TWO, "--format", "xml"]),
    "arms_unreadable": (2, [*TWO, "--arms", "ring"]),
    "arms_in_two_ways": (2, ["compare", "two_ways.json", "two_ways.json", "--arms", "a=a=a"]),
    "threshold_of_a_metric_left_out": (2, [*TWO, "--metric", "gst", "--threshold", "jct=5%"]),
    "threshold_of_no_metric": (2, [*TWO, "--threshold", "gts=5%"]),
    "threshold_that_is_no_share": (2, [*TWO, "--threshold", "gst=5"]),
    "threshold_0": (2, [*TWO, "--threshold", "0 %"]),
    "metric_unknown": (2, [*TWO, "--metric", "loss"]),
    "allow_unknown": (2, [*TWO, "--allow", "kernal"]),
    "file_absent": (2, ["compare", "base.json", "absent.json"]),
    "no_run_directory": (2, ["compare", "base.json", "empty"]),
    "no_baseline": (2, ["compare", "other.json", "new.json"]),
    "not_json": (2, ["compare", "text.json", "new.json"]),
    "newer_schema": (2, ["compare", "newer.json", "new.json"]),
    "damaged": (2, ["compare", "damaged.json", "new.json"]),
    "damaged_infinite": (2, ["compare", "base.json", "infinite.json"]),
    "damaged_text": (2, ["compare", "base.json", "text_for_a_number.json"]),
    "without_conditions": (2, ["compare", "unconditional.json", "new.json"]),
    "out_into_nowhere": (2, [*TWO, "--out", "absent/new.txt"]),
    "run_with_a_threshold_alone": (2, ["run", "spec.yaml", "--threshold", "5%"]),
    "run_with_an_absent_baseline": (2, ["run", "spec.yaml", "--baseline", "absent.json"]),
    "history_of_no_directory": (2, ["history", "absent"]),
    "history_of_nothing": (2, ["history", "empty"]),
    "history_of_no_metric": (2, ["history", ".", "--metric", "loss"]),
}


@pytest.fixture
def files(tmp_path: Path, spec_file: Path) -> Path:  # noqa: ARG001  # spec.yaml is there, too
    write_side(tmp_path / "base.json")
    write_side(tmp_path / "new.json", 0.2001)
    write_side(tmp_path / "elsewhere.json", cpu__cores=4, cpu__model="Xeon", kernel="6.8")
    write_side(tmp_path / "slower_links.json", links__rate_bps=190_000_000)
    write_side(tmp_path / "larger.json", topology="star(hosts=4)")
    write_side(tmp_path / "ps.json", label="PS")
    write_side(tmp_path / "invalid.json", verdict="INVALID")
    write_side(tmp_path / "two_ways.json", label="a")
    two_ways = json.loads((tmp_path / "two_ways.json").read_text())
    two_ways["cells"].append(two_ways["cells"][0] | {"label": "a=a"})
    (tmp_path / "two_ways.json").write_text(json.dumps(two_ways))
    whole = json.loads((tmp_path / "base.json").read_text())
    (tmp_path / "newer.json").write_text(json.dumps(whole | {"schema": 7}))
    (tmp_path / "unconditional.json").write_text(json.dumps(whole | {"conditions": {}}))
    (tmp_path / "damaged.json").write_text(json.dumps({key: whole[key] for key in ("schema", "baseline", "arms")}))
    text = (tmp_path / "base.json").read_text()
    (tmp_path / "infinite.json").write_text(text.replace('"gst": 0.2,', '"gst": NaN,', 1))
    (tmp_path / "text_for_a_number.json").write_text(text.replace('"gst": 0.2,', '"gst": "nan",', 1))
    (tmp_path / "other.json").write_text('{"name": "something else"}')
    (tmp_path / "text.json").write_text("GST was fine yesterday")
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", CALLS)
def test_a_comparison_that_cannot_be(name: str, testbed: Callable[..., Called], files: Path) -> None:
    code, call = CALLS[name]
    called = testbed(*call)
    check(f"compare/{name}", called)
    assert called.code == code
    assert not (files / "made.json").exists()
    assert not (files / "runs").exists()


def test_every_golden_text_belongs_to_a_case() -> None:
    assert {path.stem for path in (GOLDEN / "compare").glob("*.txt")} == CALLS.keys()
