"""Verdicts belong to numbers: what a report shows of trials that are VALID in some of their numbers only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.analysis.record.happened import Attempt
from testbed.analysis.record.trial import RecordedCheck
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report import headline, latex, markdown, page, tables, words
from testbed.analysis.report.cells import MeasuredCell
from testbed.analysis.verdicts import Number

from .helpers import LATE, answer, in_trial, judged, only, with_metrics

BOTH = "ps-b16", "bml-b16"


def value(table: tables.Table, label: str, column: str) -> tables.Value:
    """What stands in a column (by its title's beginning) of an arm's first row."""
    at = next(i for i, title in enumerate(table.columns[1:]) if title.startswith(column))
    return next(row.values[at] for row in table.rows if row.label == label)


@pytest.fixture
def late(run: Run) -> Run:
    """BML at batch 16 is VALID in GST alone."""
    return in_trial(only(run, *BOTH), "bml-b16", **LATE)


def test_a_cells_numbers_are_from_the_trials_that_are_valid_in_them(run: Run) -> None:
    good = replace(only(run, "bml-b16").trials[0], repeat=0)
    bad = replace(judged(good, "VALID", **LATE), repeat=1)
    bad = replace(bad, metrics=replace(bad.metrics, jct_s=99.0, gst_median_s=0.4))
    cell = MeasuredCell("x", good.setting, (good, bad))
    assert cell.counted("gst") == (good, bad)
    assert cell.counted("jct") == (good,)
    assert cell.middle("jct_s") == good.metrics.jct_s
    assert cell.middle("gst_median_s") == pytest.approx((good.metrics.gst_median_s + 0.4) / 2)  # type: ignore[operator]
    assert (cell.verdict, cell.verdict_in("gst"), cell.verdict_in("jct")) == (
        "GST 2, JCT 1 of 2 VALID",
        "VALID",
        "1 of 2 VALID",
    )
    assert cell.typical is good
    assert {name: valid for name, (valid, _) in cell.numbers[1].of.items()} == {
        "gst": True,
        "jct": False,
        "throughput": False,
    }


def test_the_setup_of_scripts_stands_beside_their_jct(run: Run) -> None:
    assert not [column for column in tables.summary(run).columns if column.startswith("Set-up")]
    found = tables.summary(with_metrics(only(run, *BOTH), "bml-b16", setup_s=14.5))
    assert value(found, "BML on BCube", "Set-up, s").text == "14.50"
    assert value(found, "PS on fat-tree", "Set-up, s").text == tables.NONE


def test_an_arm_without_a_bandwidth_says_why(run: Run) -> None:
    found = tables.bandwidths(with_metrics(only(run, *BOTH), "bml-b16", algbw_bps=None, busbw_bps=None))
    assert value(found, "BML on BCube", "Algorithm").text == tables.NONE
    assert value(found, "PS on fat-tree", "Algorithm").text.endswith("bit/s")
    assert "An arm has none if some of its gradient is sent before GST begins" in found.caption


def test_the_error_of_a_cell_is_the_largest_of_the_trials_that_count(run: Run) -> None:
    trial = only(run, "bml-b16").trials[0]

    def with_error(error: float | None, repeat: int, verdict: str = "VALID") -> Trial:
        return replace(trial, repeat=repeat, numbers={"gst": Number(verdict, error)})

    trials = (with_error(0.01, 0), with_error(0.02, 1), with_error(0.9, 2, "INVALID"))
    assert MeasuredCell("x", trial.setting, trials).error("gst") == 0.02
    assert MeasuredCell("x", trial.setting, (*trials, with_error(None, 3))).error("gst") is None
    assert MeasuredCell("x", trial.setting, trials[2:]).error("gst") == 0.9


def test_values_of_invalid_numbers_are_marked_in_every_format(late: Run) -> None:
    table = tables.summary(late)
    jct, gst = (value(table, "BML on BCube", name) for name in ("JCT", "GST,"))
    assert (jct.note, jct.state) == ("INVALID", "bad")
    assert (gst.note, gst.state) == ("", "")
    assert value(table, "BML on BCube", "Fidelity").text == "GST VALID, JCT INVALID"
    assert value(table, "PS on fat-tree", "JCT").note == ""
    assert f"| {jct.text} (INVALID) |" in markdown.render(late)
    assert rf"{jct.text} {{\scriptsize (INVALID)}}" in latex.render(late)
    assert r"\textsuperscript{INVALID}" not in latex.render(late)  # the arm is VALID in GST


def excused(run: Run, trial_id: str) -> Run:
    """``run`` with a trial whose GST is certified, and whose machine was disturbed."""
    gst = Number("VALID", 0.01, certified=True, excused=("CPU headroom",))
    return replace(
        run, trials=tuple(replace(t, numbers={**t.numbers, "gst": gst}) if t.id == trial_id else t for t in run.trials)
    )


def test_a_percentile_is_marked_where_only_the_median_is_certified(run: Run) -> None:
    run = excused(only(run, *BOTH), "bml-b16")
    p95, gst = (value(tables.summary(run), "BML on BCube", name) for name in ("GST p95", "GST,"))
    assert (p95.note, p95.state) == ("INVALID", "bad")
    assert (gst.note, gst.state) == ("", "")
    assert value(tables.summary(run), "BML on BCube", "Fidelity").text == "VALID"
    assert value(tables.summary(run), "PS on fat-tree", "GST p95").note == ""
    assert [value(tables.trials(run), arm, "GST p95").state for arm in ("BML on BCube", "PS on fat-tree")] == [
        "bad",
        "",
    ]
    assert f"| {p95.text} (INVALID) |" in markdown.render(run)


def test_a_percentile_is_from_trials_in_which_nothing_was_excused(run: Run) -> None:
    calm = only(run, "bml-b16").trials[0]
    busy = excused(only(run, "bml-b16"), "bml-b16").trials[0]
    busy = replace(busy, repeat=1, metrics=replace(busy.metrics, gst_p95_s=9.0))
    cell = MeasuredCell("x", calm.setting, (calm, busy))
    assert cell.counted("gst") == (calm, busy)
    assert cell.middle("gst_p95_s") == calm.metrics.gst_p95_s
    both = replace(run, trials=(calm, busy))
    assert value(tables.summary(both), "BML on BCube", "GST p95").note == "of 1 of 2 trials"


def test_nothing_is_said_of_a_percentile_that_is_not_valid(run: Run) -> None:
    run = with_metrics(only(run, "ps-b16", "ring-b16"), "ps-b16", gst_median_s=0.2, gst_p95_s=0.21)
    run = with_metrics(run, "ring-b16", gst_median_s=0.1, gst_p95_s=0.3)
    varies = "Ring on fat-tree at batch 16 varies most: its 95th percentile is 3.00×"
    assert answer(run, "gst").seen[-1].startswith(varies)
    run = excused(run, "ring-b16")
    assert answer(run, "gst").seen[-1] == (
        "Only one of 2 95th percentiles is VALID: that of PS on fat-tree at batch 16 is 1.05× its median."
    )
    told = "A check failed or was not made in trials of Ring on fat-tree at batch 16. Their median GST is VALID, but "
    assert answer(run, "gst").defined.endswith(
        f"{told}their 95th percentile is not: single iterations may be too long."
    )


def test_each_number_has_its_verdict_and_its_error(late: Run) -> None:
    (ps, bml) = late.trials
    numbers = dict(bml.numbers) | {"gst": Number("VALID", 0.012, certified=True), "throughput": Number("VALID", 0.03)}
    numbers["waiting"] = Number("VALID", 0.603)
    late = replace(late, trials=(ps, replace(bml, numbers=numbers)))
    table = tables.verdicts(late)
    assert table.columns == ("Arm", "Batch", "GST", "JCT", "samples/s", "iteration times", "exposed waiting")
    assert value(table, "BML on BCube", "GST").note == "at most 1.2 % too long"
    assert value(table, "BML on BCube", "samples/s").note == "at most 3.0 % too low"
    assert value(table, "BML on BCube", "exposed waiting").note == "off by at most 60.3 % of an iteration"
    assert value(table, "BML on BCube", "JCT") == tables.Value("INVALID", 0.0, "", "bad")
    assert value(tables.summary(late), "BML on BCube", "Fidelity").note == "off by at most: GST 1.2 %"
    assert "## Can the numbers be believed?" in markdown.render(late)


def test_the_table_of_checks_says_what_they_threaten_and_what_was_certified(run: Run) -> None:
    steal = RecordedCheck("CPU steal", False, 0.07, 0.05, "stolen", "7.0% taken by the host", machine=True)
    pacing = RecordedCheck("pacing", False, 0.4, 0.05, "of iterations", threatens=tuple(LATE), machine=True)
    spoilt = Number("INVALID", spoilt_by=("pacing",))
    trial = replace(
        only(run, "bml-b16").trials[0],
        verdict="INVALID",
        checks=(steal, pacing),
        numbers={"gst": Number("VALID", 0.01, certified=True)} | dict.fromkeys(LATE, spoilt),
    )
    table = tables.checks(replace(run, trials=(trial,)))
    assert table.columns[1:] == (
        "CPU steal (limit 0.05 stolen; threatens all numbers; a check of the machine)",
        "pacing (limit 0.05 of iterations; threatens JCT, samples/s, iteration times and exposed waiting; a "
        "check of the machine)",
        "Certified",
    )
    told, bad, certified = table.rows[0].values
    assert (told.note, told.state) == ("noted: the numbers that it threatens are certified", "")
    assert (bad.note, bad.state) == ("makes JCT, samples/s, iteration times and exposed waiting INVALID", "bad")
    assert certified.text == "GST"
    ((_, verdict, reasons),) = tables.troubles(replace(run, trials=(trial,)))
    assert verdict == "GST VALID, JCT INVALID"
    assert [reason.split(":")[0] for reason in reasons] == ["pacing"]


def test_the_finding_says_of_each_number_what_can_be_believed(late: Run) -> None:
    late = with_metrics(with_metrics(late, "ps-b16", gst_median_s=0.2), "bml-b16", gst_median_s=0.1)
    assert headline.finding(late) == (
        "On another network, BML on BCube took 0.50× the synchronisation time of PS on fat-tree "
        "(their job completion times cannot be compared)."
    )
    assert headline.is_believable(late)
    apart = in_trial(late, "bml-b16", gst="INVALID")
    assert "took 0.81× the job completion time of PS on fat-tree" in headline.finding(apart)
    spoilt = dict.fromkeys(late.trials[0].numbers, Number("INVALID", spoilt_by=("CPU steal",)))
    both = replace(late, trials=tuple(replace(trial, numbers=spoilt) for trial in late.trials))
    assert headline.unreliable(both) == "Not reliable: GST is INVALID (failed checks: CPU steal)."


def test_doubts_and_counts_are_about_numbers(late: Run) -> None:
    assert words.doubts(late) == (
        "BML on BCube at batch 16 is INVALID in JCT, samples/s, iteration times and exposed waiting: comparisons of "
        "those numbers with it mean nothing."
    )
    assert words.counts(late).startswith("2 trials: 1 VALID, 1 VALID in some numbers.")
    both = in_trial(late, "ps-b16", waiting="INVALID", gst="VALID")
    assert words.doubts(in_trial(both, "bml-b16", waiting="INVALID")) == (
        "No finished trial is VALID in exposed waiting: comparisons of that number mean nothing."
    )


def test_figures_mark_the_number_that_they_draw(late: Run) -> None:
    def ticks(name: str) -> list[str]:
        panel = next(panel for panel in answer(late, name).panels if panel.figure)
        return [text for text in panel.figure["layout"]["yaxis"]["ticktext"] if "INVALID" in text]

    assert len(ticks("jct")) == 1
    assert ticks("gst") == []
    assert answer(late, "gst").frame["verdict"].unique().tolist() == ["VALID"]
    assert answer(late, "jct").frame["verdict"].tolist() == ["VALID", "INVALID"]


def test_what_nothing_bounds_has_no_ratio(run: Run) -> None:
    """With overlap GST may be less than theory's, which is for a whole gradient."""
    run = with_metrics(only(run, "bml-b16"), "bml-b16", gst_ratio=None)
    question = answer(run, "gst")
    assert [panel.caption for panel in question.panels] == ["Batch 16 per worker: time"]
    assert question.frame["gst_over_bound"].isna().all()
    assert "GST / bound" not in tables.summary(run).columns


def test_ratios_of_iterations_are_over_the_same_bound_as_the_tables(run: Run) -> None:
    run = only(run, "bml-b16")
    gst_s = run.trials[0].metrics.gst_median_s
    frame = answer(with_metrics(run, "bml-b16", gst_ratio=1.25), "gst").frame
    assert frame["gst_over_bound"].tolist() == pytest.approx((1.25 * frame["gst_s"] / gst_s).tolist())


def test_iteration_times_have_a_column(run: Run) -> None:
    table = tables.summary(with_metrics(only(run, "bml-b16"), "bml-b16", iteration_median_s=0.41))
    assert value(table, "BML on BCube", "Iteration, s").text == "0.410"


def test_records_of_earlier_versions_give_each_number_the_trials_verdict(run: Run) -> None:
    """They have no numbers, and their checks do not say what they threaten."""
    old = only(run, "ring-b64")
    assert [check.name for check in old.trials[0].reasons] == ["cpu"]
    assert value(tables.verdicts(old), "Ring on fat-tree", "exposed waiting").text == "INVALID"
    assert value(tables.checks(old), "Ring on fat-tree", "cpu").state == "bad"
    assert words.doubts(old) == "No finished trial is VALID: comparisons mean nothing."


def test_of_another_attempt_it_is_told_which_numbers_are_from_it(late: Run) -> None:
    late_check = RecordedCheck("cpu", ok=False, detail="0% idle")
    trial = replace(next(trial for trial in late.trials if trial.id == "bml-b16"), checks=(late_check,))
    other = Attempt("VALID", (), "then", trial.metrics)
    numbers = {**trial.numbers, "jct": Number("VALID", began="then"), "throughput": Number("VALID", began="then")}
    ((_, _, told),) = tables.again(replace(late, trials=(replace(trial, earlier=(other,), numbers=numbers),)))
    assert told[0].endswith(", VALID. This attempt counts for JCT, samples/s.")
    assert told[1:] == ("In the attempt that counts for all other numbers: cpu: 0% idle.",)
    ((_, _, told),) = tables.again(replace(late, trials=(replace(trial, earlier=(other,)),)))
    assert told[0].endswith(", VALID.")


def test_what_is_valid_in_part_is_amber(sweep: Run) -> None:
    at = sweep.trials[0].setting
    some = [trial for trial in sweep.trials if trial.setting == at and trial.label == "PS on fat-tree"]
    trials = tuple(judged(trial, "VALID" if trial.repeat == 0 else "INVALID") for trial in some)
    run = replace(sweep, trials=trials, labels=("PS on fat-tree",))
    place = tables.summary(run).columns.index("Fidelity") - 1
    value = tables.summary(run).rows[0].values[place]
    assert (value.text, value.state) == ("1 of 3 VALID", "mixed")
    assert {one.state for one in tables.verdicts(run).rows[0].values if "VALID" in one.text} == {"mixed"}
    head = tables.verdict(run)
    assert head is not None
    assert (head.text, head.state) == ("1 of 3 VALID", "mixed")
    assert getattr(tables.verdict(replace(run, trials=trials[:1])), "state", "") == "good"
    assert getattr(tables.verdict(replace(run, trials=trials[1:])), "state", "") == "bad"


def unseen(run: Run, trial_id: str) -> Run:
    """``run`` with a trial of which nobody saw whether processes stood still during the job."""
    check = RecordedCheck("stalls", True, None, 0.03, "of JCT", "nobody saw", threatens=tuple(LATE), watched=False)
    other = RecordedCheck("retransmissions", True, None, 0.002, "of segments", "no process counted", watched=False)
    numbers = {"gst": Number("VALID")} | dict.fromkeys(LATE, Number("UNWATCHED", unwatched=("stalls",)))
    changed = {"numbers": numbers, "checks": (check, other), "verdict": "UNWATCHED"}
    return replace(run, trials=tuple(replace(t, **changed) if t.id == trial_id else t for t in run.trials))  # type: ignore[arg-type]


def test_a_check_that_was_not_made_is_shown_as_not_watched_and_never_as_ok(run: Run) -> None:
    run = unseen(only(run, "bml-b16"), "bml-b16")
    stalls, other = tables.checks(run).rows[0].values
    assert (stalls.text, stalls.state) == ("not watched", "bad")
    assert stalls.note == "leaves JCT, samples/s, iteration times and exposed waiting UNWATCHED"
    assert (other.text, other.note, other.state) == ("not watched", "", "")
    ((_, verdict, reasons),) = tables.troubles(run)
    assert (verdict, reasons) == ("GST VALID, JCT UNWATCHED", ("stalls: nobody saw",))


def test_unwatched_numbers_are_marked_and_told_in_every_format(run: Run) -> None:
    run = unseen(only(run, *BOTH), "bml-b16")
    jct = value(tables.summary(run), "BML on BCube", "JCT")
    assert (jct.note, jct.state) == ("UNWATCHED", "bad")
    assert f"| {jct.text} (UNWATCHED) |" in markdown.render(run)
    assert rf"{jct.text} {{\scriptsize (UNWATCHED)}}" in latex.render(run)
    told = words.doubts(run)
    assert told is not None
    assert "is UNWATCHED in JCT, samples/s, iteration times and exposed waiting: comparisons" in told
    alone = only(run, "bml-b16")
    whole = replace(alone.trials[0], numbers=dict.fromkeys(("gst", *LATE), Number("UNWATCHED", unwatched=("stalls",))))
    run = replace(run, trials=(whole,))
    assert words.counts(run).startswith("1 trial: 0 VALID, 1 UNWATCHED.")
    assert headline.unreliable(run) == "Not reliable: GST is UNWATCHED (checks not made: stalls)."
    assert r"\textsuperscript{UNWATCHED}" in latex.render(run)
    assert tables.summary(run).rows[0].state == "unwatched"


def test_a_row_that_is_valid_in_part_is_told_from_one_that_is_not_valid_at_all(run: Run) -> None:
    late = in_trial(only(run, "ps-b16", "ring-b16", "ring-b64"), "ps-b16", **LATE)
    states = {row.label: row.state for row in tables.summary(only(late, "ps-b16", "ring-b16")).rows}
    assert states == {"PS on fat-tree": "partly", "Ring on fat-tree": ""}
    assert [row.state for row in tables.summary(only(late, "ring-b64")).rows] == ["invalid"]
    assert [row.state for row in tables.trials(late).rows] == ["partly", "", "invalid"]
    rows = page.render(late).partition('id="summary"')[2]
    assert '<tr class="partly">' in rows
    assert '<tr class="invalid">' in rows


def test_trials_that_are_not_valid_for_the_same_cause_are_told_together(run: Run) -> None:
    spoilt = next(trial for trial in run.finished if trial.id == "ring-b64")
    other = tuple(replace(check, detail="quite busy") if not check.ok else check for check in spoilt.checks)
    alike = [replace(spoilt, repeat=repeat) for repeat in range(6)]
    ((names, verdict, reasons),) = tables.troubles(replace(run, trials=tuple(alike)))
    assert names.startswith("6 trials: Ring on fat-tree at batch 64; ")
    assert names.endswith("; and 2 more")
    assert (verdict, len(reasons)) == ("INVALID", 1)
    last = replace(alike[-1], checks=other)
    ((_, _, reasons),) = tables.troubles(replace(run, trials=(*alike[:-1], last)))
    (reason,) = reasons
    assert reason.endswith(
        " (these numbers are of Ring on fat-tree at batch 64; this page has the others in its section "
        '"Every fidelity check of every trial")'
    )
    elsewhere = "; the HTML report has the others in its section "
    assert elsewhere in markdown.render(replace(run, trials=(*alike[:-1], last)))
    text = page.render(replace(run, trials=tuple(alike)))
    assert "<summary>6 of 6 trials</summary>" in text
    told = markdown.render(replace(run, trials=tuple(alike)))
    assert told.count("cpu: ") == 1


def test_reasons_do_not_run_together_in_markdown(run: Run) -> None:
    spoilt = next(trial for trial in run.finished if trial.id == "ring-b64")
    two = tuple(replace(check, name=name, detail="too much") for check in spoilt.reasons for name in ("cpu", "steal"))
    trial = replace(
        spoilt, checks=two, numbers={n: replace(v, spoilt_by=("cpu", "steal")) for n, v in spoilt.numbers.items()}
    )
    assert "cpu: too much; steal: too much" in markdown.render(replace(run, trials=(trial,)))
    failed = replace(spoilt, done=False, error="h3 ended with status 1\nlast lines of its log:\n  a\n\n  b")
    told = markdown.render(replace(run, trials=(failed,)))
    assert "FAILED. h3 ended with status 1; last lines of its log: a; b\n" in told


def test_times_one_per_cent_apart_differ_in_the_table(run: Run) -> None:
    near = with_metrics(with_metrics(only(run, *BOTH), "ps-b16", gst_median_s=0.0727), "bml-b16", gst_median_s=0.0734)
    texts = [value(tables.summary(near), arm, "GST, ms").text for arm in ("PS on fat-tree", "BML on BCube")]
    assert texts == ["72.70", "73.40"]
