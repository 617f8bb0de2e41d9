"""The verdict of each number of a trial, as its record has it, and as an older record leaves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.verdicts import GST_P95, NUMBERS, Number, in_short, numbers_of, verdict_of
from testbed.base.errors import OutputError

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
CERTIFIED = {"verdict": "VALID", "error": 0.012, "bound_s": 0.487, "certified": True, "spoilt_by": []}
SPOILT = {"verdict": "INVALID", "error": None, "bound_s": None, "certified": False, "spoilt_by": ["CPU steal"]}
RECORDED = {"verdict": "INVALID", "numbers": {"gst": CERTIFIED, "jct": SPOILT}, "checks": []}


def test_each_number_has_its_own_verdict_and_error() -> None:
    assert numbers_of(RECORDED) == {
        "gst": Number("VALID", 0.012, 0.487, certified=True),
        "jct": Number("INVALID", spoilt_by=("CPU steal",)),
    }


@pytest.mark.parametrize("verdict", ["VALID", "INVALID"])
def test_every_number_of_an_older_record_has_the_trials_verdict(verdict: str) -> None:
    assert numbers_of({"verdict": verdict, "checks": []}) == dict.fromkeys(NUMBERS, Number(verdict))


def test_what_was_excused_is_kept() -> None:
    (number,) = numbers_of({"verdict": "VALID", "numbers": {"gst": CERTIFIED | {"excused": ["CPU steal"]}}}).values()
    assert number.excused == ("CPU steal",)


@pytest.mark.parametrize(
    ("gst", "wanted"),
    [
        (Number("VALID"), Number("VALID")),
        (Number("VALID", 0.01, 0.4, certified=True), Number("VALID")),
        (
            Number("VALID", 0.01, 0.4, certified=True, excused=("CPU steal",)),
            Number("INVALID", spoilt_by=("CPU steal",)),
        ),
        (Number("INVALID", spoilt_by=("drops",)), Number("INVALID", spoilt_by=("drops",))),
        (Number("INVALID"), Number("INVALID")),
    ],
    ids=["uncertified", "calm", "excused", "spoilt", "older"],
)
def test_a_percentile_of_gst_is_not_valid_by_a_certificate_of_the_median(gst: Number, wanted: Number) -> None:
    assert verdict_of({"gst": gst, "jct": Number("VALID", 0.02)}, GST_P95) == wanted
    assert verdict_of({"gst": gst}, "gst") == gst


@pytest.mark.parametrize(
    "jct", [Number("INVALID", spoilt_by=("stalls",)), Number("VALID", 0.02, certified=True, excused=("stalls",))]
)
def test_a_percentile_of_gst_is_not_valid_where_a_process_stood_still_for_a_few_iterations(jct: Number) -> None:
    """Of GST, whose median that leaves as it is, no check fails."""
    gst = Number("VALID", 0.01, 0.4, certified=True)
    assert verdict_of({"gst": gst, "jct": jct}, GST_P95) == Number("INVALID", spoilt_by=("stalls",))


def test_what_a_trial_does_not_report_has_no_verdict() -> None:
    assert verdict_of({"jct": Number("VALID")}, GST_P95) is None
    assert verdict_of({"jct": Number("VALID")}, "gst") is None


def test_a_trial_that_failed_has_no_numbers() -> None:
    assert numbers_of({}) == {}


def test_what_a_later_writer_adds_is_passed_over() -> None:
    assert numbers_of({"verdict": "VALID", "numbers": {"gst": CERTIFIED | {"new": 1}, "new": {}}}) == {
        "gst": Number("VALID", 0.012, 0.487, certified=True)
    }


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"verdict": "GOOD"}, "numbers.gst.verdict is 'GOOD', no verdict (VALID, INVALID, UNWATCHED, SIMULATED)"),
        ({"verdict": ["VALID"]}, "numbers.gst.verdict is ['VALID'], no verdict (VALID, INVALID, UNWATCHED, SIMULATED)"),
        ({"error": "0.01"}, "numbers.gst.error is '0.01', no finite number"),
        ({"bound_s": 10**400}, "no finite number"),
        ({"certified": 1}, "numbers.gst.certified is 1, no true or false"),
        ({"spoilt_by": "CPU steal"}, "numbers.gst.spoilt_by is 'CPU steal', no list"),
        ({"spoilt_by": [1]}, "numbers.gst.spoilt_by.0 is 1, no name"),
        ({"excused": [1]}, "numbers.gst.excused.0 is 1, no name"),
        ({"unwatched": [1]}, "numbers.gst.unwatched.0 is 1, no name"),
    ],
)
def test_a_damaged_number_is_named(run_dir: Path, edit: Edit, changed: dict[str, Any], told: str) -> None:
    found = {"verdict": "VALID", "numbers": {"gst": CERTIFIED | changed}, "checks": []}
    edit(run_dir / "trials" / "ps-b16.json", lambda trial: trial.update(fidelity=found))
    with pytest.raises(OutputError) as caught:
        load(run_dir, samples=False)
    assert caught.value.problem.startswith(f"{run_dir}/trials/ps-b16.json: damaged")
    assert told in caught.value.problem
    assert caught.value.fix == f"rm -f {run_dir}/trials/ps-b16.json; testbed run --resume {run_dir}"


@pytest.mark.parametrize("numbers", [[], {"gst": 1}, {"gst": None}, None])
def test_numbers_that_are_no_objects_are_damage(numbers: object) -> None:
    with pytest.raises(ValueError, match="no object"):
        numbers_of({"verdict": "VALID", "numbers": numbers})


def test_a_trial_is_valid_in_one_number_and_not_in_another(run_dir: Path, edit: Edit) -> None:
    edit(run_dir / "trials" / "ring-b64.json", lambda trial: trial.update(fidelity=RECORDED))
    trials = {trial.id: trial for trial in load(run_dir, samples=False).trials}
    mixed, older, failed = trials["ring-b64"], trials["ps-b16"], trials["ps-b64"]
    assert not mixed.valid
    assert mixed.valid_in("gst")
    assert not mixed.valid_in("jct")
    assert not mixed.valid_in("waiting")  # it does not report that
    assert all(older.valid_in(name) for name in NUMBERS)
    assert not any(failed.valid_in(name) for name in NUMBERS)


UNSEEN = {"verdict": "UNWATCHED", "spoilt_by": [], "unwatched": ["stalls", "run queue"]}


def test_an_unwatched_number_is_read_and_is_valid_nowhere(run_dir: Path, edit: Edit) -> None:
    recorded = {"verdict": "UNWATCHED", "numbers": {"gst": CERTIFIED, "jct": UNSEEN}, "checks": []}
    assert numbers_of(recorded)["jct"] == Number("UNWATCHED", unwatched=("stalls", "run queue"))
    edit(run_dir / "trials" / "ring-b64.json", lambda trial: trial.update(fidelity=recorded))
    trial = next(one for one in load(run_dir, samples=False).trials if one.id == "ring-b64")
    assert (trial.valid, trial.valid_in("gst"), trial.valid_in("jct")) == (False, True, False)


@pytest.mark.parametrize(
    ("gst", "jct", "wanted"),
    [
        (Number("VALID"), Number("UNWATCHED", unwatched=("stalls",)), Number("UNWATCHED", unwatched=("stalls",))),
        (
            Number("VALID", 0.01, 0.4, certified=True, unwatched=("stalls",)),
            Number("VALID"),
            Number("UNWATCHED", unwatched=("stalls",)),
        ),
        (
            Number("INVALID", spoilt_by=("drops",)),
            Number("UNWATCHED", unwatched=("stalls",)),
            Number("INVALID", spoilt_by=("drops",), unwatched=("stalls",)),
        ),
    ],
    ids=["JCT", "certified", "spoilt"],
)
def test_a_percentile_of_gst_is_unwatched_where_gst_or_jct_was(gst: Number, jct: Number, wanted: Number) -> None:
    """A certificate is about the median."""
    assert verdict_of({"gst": gst, "jct": jct}, GST_P95) == wanted


@pytest.mark.parametrize(
    ("trials", "told"),
    [
        ([("UNWATCHED", "UNWATCHED")], "UNWATCHED"),
        ([("VALID", "UNWATCHED")], "GST VALID, JCT UNWATCHED"),
        ([("INVALID", "UNWATCHED")], "GST INVALID, JCT UNWATCHED"),
        ([("UNWATCHED", "UNWATCHED"), ("INVALID", "INVALID")], "INVALID"),
        ([("UNWATCHED", "UNWATCHED"), ("UNWATCHED", "UNWATCHED")], "UNWATCHED"),
        ([("VALID", "VALID"), ("UNWATCHED", "UNWATCHED")], "1 of 2 VALID"),
        ([("VALID", "UNWATCHED"), ("VALID", "VALID")], "GST 2, JCT 1 of 2 VALID"),
    ],
)
def test_unwatched_in_short(trials: list[tuple[str, str]], told: str) -> None:
    assert in_short([{"gst": Number(gst), "jct": Number(jct)} for gst, jct in trials]) == told


def test_a_check_of_an_older_record_that_was_not_made_is_not_watched(run_dir: Path, edit: Edit) -> None:
    """It had no value and did not fail. One that failed for want of a value did fail."""
    old = [{"name": name, "ok": ok, "value": value} for name, ok, value in (("a", True, None), ("b", False, None))]
    checks = [*old, {"name": "c", "ok": True, "value": 0.1}, {"name": "d", "ok": True, "watched": False}]
    recorded = {"verdict": "INVALID", "checks": checks}
    edit(run_dir / "trials" / "ring-b64.json", lambda trial: trial.update(fidelity=recorded))
    trial = next(one for one in load(run_dir, samples=False).trials if one.id == "ring-b64")
    assert {check.name: check.watched for check in trial.checks} == {"a": False, "b": True, "c": True, "d": False}
    assert trial.verdict == "INVALID"
