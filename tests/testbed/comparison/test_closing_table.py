"""What the closing table says, and which of its columns fit."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.analysis.verdicts import NUMBERS
from testbed.base.columns import fitted
from testbed.comparison.closing_table import (
    BELOW_MEANING,
    HEADER,
    LEFT_OUT,
    SETUP_MEANING,
    SPREAD_MEANING,
    notes,
    table,
    warnings,
)

BML = {"arm": "BML on BCube", "batch": "16", "GST": "0.496 s", "p95": "0.5 s", "p99": "0.51 s", "theory": "0.487 s"}
BML |= {"ratio": "1.018", "JCT": "11.5 s", "samples/s": "175", "speed-up": "1.60x", "error at most": "1.8 % / -"}
BML |= {"accuracy": "89.7%", "time to accuracy": "8.21 s to 85.0%", "verdict": "GST VALID, JCT INVALID"}


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (200, []),
        (120, ["theory", "error at most"]),
        (80, ["theory", "error at most", "accuracy", "p99", "p95", "samples/s"]),
    ],
)
def test_a_narrow_terminal_goes_without_the_least_needed(width: int, left_out: list[str]) -> None:
    text = fitted(HEADER, [[BML[name] for name in HEADER]], 1, LEFT_OUT, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert ", ".join(left_out) in text
    assert ("no room for" in text) == bool(left_out)


def record(label: str, repeat: int, **metrics: float) -> dict[str, Any]:
    """A finished trial's."""
    known = {"jct_s": 2.0, "gst_median_s": 0.1, "gst_theory_s": 0.1, "gst_ratio": 1.0, "throughput_sps": 10.0}
    rest = {"batch": 4, "repeat": repeat, "status": "done", "kind": "train", "accuracy": None}
    return {"label": label, "metrics": known | metrics, "fidelity": {"verdict": "VALID"}, **rest}


def test_a_perturbation_that_struck_nobody_is_told_before_the_table() -> None:
    missed = {"perturbation": "straggle", "struck": 0, "chances": 4, "of": "iterations of h1"}
    records = [
        {"id": "a", "status": "done", "strikes": [missed]},
        {"id": "b", "status": "done", "strikes": [{**missed, "struck": 1}]},
        {"id": "c", "status": "done"},
        {"id": "d", "status": "failed", "strikes": []},
    ]
    (told,) = warnings(records)
    assert told.startswith("warning: a: straggle strikes 0 of 4 iterations of h1, so it changes nothing; take ")
    assert warnings(records[1:]) == []


def test_staleness_has_a_column_where_an_arm_has_any() -> None:
    synchronous = [record("PS", repeat) for repeat in range(2)]
    assert "staleness" not in table(synchronous, "PS")[0]
    stale = [record("async", i, staleness_median=2.0 + i, staleness_max=7.0 + i) for i in range(2)]
    header, rows = table([*synchronous, *stale], "PS")
    at = header.index("staleness")
    assert [row[at] for row in rows] == ["-", "2.5, max 8"]


def test_the_setup_of_scripts_has_a_column_and_older_trials_are_named() -> None:
    """JCT of trials that an earlier version recorded has most of it."""
    assert "set-up" not in table([record("ring", 0)], "gloo")[0]
    new = [record("gloo", 0, setup_s=11.0), record("gloo", 1, setup_s=12.0)]
    header, rows = table([*new, record("ring", 0)], "gloo")
    assert header.index("JCT") == header.index("set-up") + 1
    assert [row[header.index("set-up")] for row in rows] == ["11.5 s", "-"]
    assert notes(new[:1], "gloo")[1:] == [SETUP_MEANING]
    assert notes(new, "gloo")[1:] == [SPREAD_MEANING, SETUP_MEANING]
    older = "not known of trials of earlier versions, whose JCT has most of it: ring"
    assert notes([*new, record("ring", 0)], "gloo")[2:] == [f"{SETUP_MEANING}; {older}"]


def judged(label: str, jct_s: float, *verdicts: str) -> list[dict[str, Any]]:
    """A trial a repeat."""
    made = [record(label, repeat, jct_s=jct_s) for repeat in range(len(verdicts))]
    return [one | {"fidelity": {"verdict": verdict}} for one, verdict in zip(made, verdicts, strict=True)]


@pytest.mark.parametrize(
    ("first", "other", "shown"),
    [
        (["VALID", "INVALID"], ["VALID", "VALID"], ["1.00x", "2.00x"]),
        (["INVALID", "VALID"], ["VALID", "INVALID"], ["1.00x", "-"]),
        (["INVALID", "INVALID"], ["VALID", "INVALID"], ["1.00x", "-"]),
        (["VALID", "INVALID"], ["INVALID", "INVALID"], ["1.00x", "-"]),
        (["INVALID", "INVALID"], ["INVALID", "INVALID"], ["1.00x", "2.00x"]),
        (["UNWATCHED", "VALID"], ["VALID", "UNWATCHED"], ["1.00x", "-"]),
        (["UNWATCHED", "UNWATCHED"], ["VALID", "UNWATCHED"], ["1.00x", "-"]),
    ],
)
def test_a_speed_up_is_of_trials_that_the_numbers_beside_it_are_from(
    first: list[str], other: list[str], shown: list[str]
) -> None:
    header, rows = table([*judged("PS", 4.0, *first), *judged("ring", 2.0, *other)], "PS")
    assert [row[header.index("speed-up")] for row in rows] == shown


def test_a_note_says_why_an_arm_has_no_speed_up() -> None:
    made = [*judged("PS", 4.0, "INVALID"), *judged("ring", 2.0, "VALID")]
    header, rows = table(made, "PS")
    assert [row[header.index("speed-up")] for row in rows] == ["1.00x", "-"]
    assert notes(made, "PS")[-1] == "no speed-up, because no repeat has a JCT that counts in both arms: ring"
    swept = [{**record, "point": {"rate": 5}} for record in made]
    assert notes(swept, "PS")[-1].endswith("in both arms: ring at rate=5")


def test_a_gst_below_the_theory_is_explained() -> None:
    assert notes([record("ring", 0, gst_median_s=0.05)], "ring")[1:] == [BELOW_MEANING]
    assert len(notes([record("ring", 0, gst_median_s=0.099)], "ring")) == 1


def test_arms_of_scripts_that_did_other_work_have_no_speed_up_and_a_note_says_why() -> None:
    made = [
        record(label, 0) | {"iterations": count, "gradient_sums": 2 * count}
        for label, count in (("Gloo", 24), ("ring", 12))
    ]
    header, rows = table(made, "Gloo")
    assert [row[header.index("speed-up")] for row in rows] == ["1.00x", "-"]
    assert notes(made, "Gloo")[-1] == (
        "no speed-up of arms that did other work than the first: ring did 12 iterations with 24 sums of gradients, "
        "Gloo 24 iterations with 48 sums of gradients"
    )
    assert len(notes(made[:1], "Gloo")) == 1


def test_a_speed_up_beside_another_network_is_told() -> None:
    star, bcube = ({"topology": one} for one in ("star(hosts=9)", "bcube(n=3,k=2)"))
    made = [record("PS", 0) | star, record("ring", 0) | star, record("BML", 0, jct_s=1.0) | bcube]
    assert notes(made, "PS")[1:] == ["speed-up of arms on another network than PS, so no ranking: BML"]
    assert len(notes(made[:2], "PS")) == 1
    larger = record("Ring", 0) | {"topology": "star(hosts=18)", "world": 18}
    assert notes([*(one | {"world": 9} for one in made), larger], "PS")[1:] == [
        "speed-up of arms on another network than PS with as many workers, so no ranking: BML",
        "speed-up by samples/s, because the numbers of workers differ: Ring (workers: 18; PS: 9); all others by JCT",
    ]
    fewer = record("apart", 0, throughput_sps=None) | star | {"world": 8}
    assert notes([made[0] | {"world": 9}, made[2] | {"world": 9}, fewer], "PS")[1:] == [
        "speed-up of arms on another network than PS with as many workers, so no ranking: BML",
        "speed-up of arms with another number of workers, so no ranking: apart (workers: 8; PS: 9)",
    ]
    rates = [[{"rate_bps": rate_bps}] for rate_bps in (1e8, 2e8)]
    made = [one | {"links": links} for one, links in zip(made[:2], rates, strict=True)]
    assert notes(made, "PS")[1:] == ["speed-up of arms on another network than PS, so no ranking: ring"]


def fidelity(errors: dict[str, float], **verdicts: str) -> dict[str, Any]:
    """What a record has: every number VALID but those given."""
    numbers = {
        name: {"verdict": verdicts.get(name, "VALID"), "error": errors.get(name), "spoilt_by": []} for name in NUMBERS
    }
    valid = all(number["verdict"] == "VALID" for number in numbers.values())
    return {"verdict": "VALID" if valid else "INVALID", "numbers": numbers, "checks": []}


JOB = dict.fromkeys(("jct", "throughput", "iterations", "waiting"), "INVALID")


def rows_of(records: list[dict[str, Any]]) -> list[dict[str, str]]:
    header, rows = table(records, "PS")
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_each_number_is_from_the_trials_in_which_it_is_valid() -> None:
    """A trial that is INVALID in JCT alone counts for GST."""
    good, late = fidelity({"gst": 0.016, "jct": 0.027}), fidelity({"gst": 0.021, "jct": 0.4}, **JOB)
    (row,) = rows_of(
        [
            record("PS", 0, gst_median_s=0.1, jct_s=2.0, throughput_sps=10.0) | {"fidelity": good},
            record("PS", 1, gst_median_s=0.2, jct_s=8.0, throughput_sps=2.0) | {"fidelity": late},
            record("PS", 2, gst_median_s=0.3, jct_s=4.0, throughput_sps=6.0) | {"fidelity": good},
        ]
    )
    assert (row["GST"], row["JCT"], row["samples/s"]) == ("0.200 s", "3.00 s", "8")
    assert row["error at most"] == "2.1 / 2.7 %"
    assert row["verdict"] == "GST 3, JCT 2 of 3 VALID"


def test_a_speed_up_is_of_trials_that_are_valid_in_jct() -> None:
    fast = [record("ring", i, jct_s=1.0) | {"fidelity": fidelity({})} for i in range(2)]
    slow = [
        record("PS", 0, jct_s=2.0) | {"fidelity": fidelity({})},
        record("PS", 1, jct_s=90.0) | {"fidelity": fidelity({}, **JOB)},
    ]
    assert [row["speed-up"] for row in rows_of([*slow, *fast])] == ["1.00x", "2.00x"]


@pytest.mark.parametrize(
    ("judged", "shown"),
    [
        ([fidelity({})], "VALID"),
        ([fidelity({}, gst="INVALID", **JOB)], "INVALID"),
        ([fidelity({}, **JOB)], "GST VALID, JCT INVALID"),
        ([fidelity({}, iterations="INVALID", waiting="INVALID")], "VALID except iteration times"),
        (
            [fidelity({}, gst="INVALID", **JOB | {"iterations": "VALID", "waiting": "VALID"})],
            "INVALID except iteration times",
        ),
        ([fidelity({}, **JOB | {"throughput": "VALID"})], "GST VALID, JCT INVALID"),
        ([fidelity({}), fidelity({}, iterations="INVALID")], "VALID (iteration times 1)"),
        ([fidelity({}), fidelity({}, gst="INVALID", **JOB)], "1 of 2 VALID"),
        ([fidelity({}), fidelity({}, **JOB), None], "GST 2, JCT 1 of 3 VALID"),
        ([None], "FAILED"),
        ([fidelity({}, gst="INVALID", **JOB), None], "INVALID"),
    ],
)
def test_the_verdict_says_which_numbers_are_invalid(judged: list[dict[str, Any] | None], shown: str) -> None:
    made = [
        record("PS", i) | ({"fidelity": one} if one else {"status": "failed", "fidelity": None, "metrics": None})
        for i, one in enumerate(judged)
    ]
    assert rows_of(made)[0]["verdict"] == shown


@pytest.mark.parametrize(
    ("errors", "shown"),
    [
        ({"gst": 0.0161, "jct": 0.027}, "1.6 / 2.7 %"),
        ({"gst": 0.016}, "1.6 % / -"),
        ({"jct": 0.1}, "- / 10.0 %"),
        ({}, "-"),
    ],
)
def test_the_error_is_what_is_known_of_it(errors: dict[str, float], shown: str) -> None:
    assert rows_of([record("PS", 0) | {"fidelity": fidelity(errors)}])[0]["error at most"] == shown


def test_an_error_that_one_trial_does_not_know_is_not_known_of_all() -> None:
    made = [record("PS", i) | {"fidelity": fidelity({"gst": 0.01} if i else {})} for i in range(2)]
    assert rows_of(made)[0]["error at most"] == "-"


def test_what_the_ratio_and_the_error_mean_is_said_once() -> None:
    made = [record("PS", i) for i in range(2)]
    note, *others = notes(made, "PS")
    assert others == [SPREAD_MEANING]
    assert note.startswith("ratio: GST over its lower bound, the least time for what was still to be sent")
    assert notes([one | {"kind": "command"} for one in made], "PS") == []


def test_without_a_bound_there_is_no_ratio() -> None:
    made = [record("PS", 0, gst_ratio=None)]  # type: ignore[arg-type]
    assert rows_of(made)[0]["ratio"] == "-"


def trained(label: str, curve: list[list[float]], curve_s: list[float], **changes: Any) -> dict[str, Any]:
    accuracy = {"test_accuracy": curve[-1][1], "curve": curve, "curve_s": curve_s, "weights_equal": True}
    return record(label, 0) | {"accuracy": accuracy | changes}


def test_time_to_accuracy_is_to_what_all_reached() -> None:
    slow = trained("PS", [[0, 0.5], [1, 0.8], [2, 0.85]], [2.0, 4.0, 6.0])
    fast = trained("ring", [[0, 0.5], [1, 0.86], [2, 0.9]], [1.0, 2.0, 3.0])
    assert [row["time to accuracy"] for row in rows_of([slow, fast])] == ["6.00 s to 85.0%", "2.00 s to 85.0%"]


def test_a_curve_that_is_not_the_trials_own_says_nothing() -> None:
    """Nor does a record of an earlier version, which has no times."""
    own = trained("PS", [[0, 0.5]], [2.0])
    others = [trained("ring", [[0, 0.1]], [1.0], weights_equal=False), trained("BML", [[0, 0.1]], [])]
    assert [row["time to accuracy"] for row in rows_of([own, *others])] == ["2.00 s to 50.0%", "-", "-"]


def test_p99_is_beside_p95() -> None:
    (row,) = rows_of([record("PS", 0, gst_p95_s=0.0213, gst_p99_s=0.5)])
    assert (row["p95"], row["p99"]) == ("21.3 ms", "0.500 s")


def test_a_note_says_which_percentiles_are_of_fewer_trials_than_gst() -> None:
    made = [record("PS", repeat, gst_p95_s=0.02) for repeat in range(2)]
    certified = {"verdict": "VALID", "certified": True, "excused": ["CPU headroom"]}
    numbers = {"numbers": {name: {"verdict": "VALID"} for name in NUMBERS} | {"gst": certified}}
    made[1]["fidelity"] |= numbers
    assert notes(made, "PS")[2:] == ["p95 and p99 are VALID in fewer trials than GST: PS, batch 4 (1 of 2)"]
    assert len(notes([record("PS", repeat, gst_p95_s=0.02) for repeat in range(2)], "PS")) == 2
    many = [one | {"batch": batch} for batch in range(6) for one in made]
    (note,) = notes(many, "PS")[2:]
    assert note.endswith("PS, batch 3 (1 of 2); and 2 more")
    del made[0]["metrics"]["gst_p95_s"], made[1]["metrics"]["gst_p95_s"]
    assert len(notes(made, "PS")) == 2


def test_a_speed_up_of_a_job_is_over_the_first_job_of_its_name() -> None:
    jobs = [("x", "a", 4.0), ("x", "b", 2.0), ("y", "a", 1.0), ("y", "b", 1.0), ("y", "c", 1.0)]
    made = [record(f"{arm}: {job}", 0, jct_s=jct_s) | {"job": job} for arm, job, jct_s in jobs]
    header, rows = table(made, "x: a")
    assert [row[header.index("speed-up")] for row in rows] == ["1.00x", "1.00x", "4.00x", "2.00x", "1.00x"]


def test_a_speed_up_of_an_arm_without_jobs_is_over_the_first_job_of_the_first_arm() -> None:
    jobs = [record(f"x: {job}", 0, jct_s=jct_s) | {"job": job} for job, jct_s in (("a", 4.0), ("b", 2.0))]
    header, rows = table([*jobs, record("y", 0, jct_s=1.0)], "x")
    assert [row[header.index("speed-up")] for row in rows] == ["1.00x", "1.00x", "4.00x"]
