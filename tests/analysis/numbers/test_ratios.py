"""One definition of how two cells compare, and only of what can be compared."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from testbed.analysis.comparing import compare_output
from testbed.analysis.comparing.compare import compare
from testbed.analysis.comparing.measured import Side, read, write_baseline
from testbed.analysis.load import load
from testbed.analysis.numbers import ratios
from testbed.analysis.numbers.ratios import GST, JCT, THROUGHPUT, Numbers, over, speed_by, speed_up
from testbed.analysis.recorded import Run
from testbed.analysis.report import headline, tables, words
from testbed.analysis.report.beside import beside
from testbed.base.errors import IncomparableError
from testbed.comparison import closing_table

from ..conftest import write_run
from ..report.helpers import answer
from ..sides import CONDITIONS

PS, RING = "PS on fat-tree", "Ring on fat-tree"
SETTING = (16, ())


def cell(*jct_s: float, workers: int = 4, valid: bool = True) -> list[Numbers]:
    """A trial a repeat; each worker trains 100 samples."""
    return [
        Numbers(
            repeat, (workers,), {JCT: (valid, one), GST: (valid, one / 10), THROUGHPUT: (valid, 100 * workers / one)}
        )
        for repeat, one in enumerate(jct_s)
    ]


def test_a_ratio_is_the_median_of_pairs() -> None:
    """The machine was slow in the second repeat; medians would say 1.5."""
    base, new = cell(10, 30, 10), cell(5, 15, 20)
    found = over(base, new, JCT)
    assert found is not None
    assert found.value == 0.5
    assert over(base, new, JCT, paired=False).value == 1.5  # type: ignore[union-attr]


def test_without_pairs_there_is_no_ratio_in_a_run_and_one_of_medians_between_runs() -> None:
    base, new = cell(10, 10), [replace(one, repeat=5 + one.repeat) for one in cell(5, 5)]
    assert over(base, new, JCT) is None
    assert over(base, new, JCT, paired=False).value == 0.5  # type: ignore[union-attr]
    assert over(base, [], JCT, paired=False) is None
    assert over(cell(10, valid=False), cell(5), JCT, paired=False) is None  # nothing would mark it


def test_scripts_that_did_other_work_are_not_compared() -> None:
    """One of them caught the error of half of its sums, or trained for a given time."""
    base, half = ([replace(one, work=work) for one in cell(10, 10)] for work in ((24, 24), (12, 12)))
    assert [over(base, half, name) for name in (JCT, GST, THROUGHPUT)] == [None] * 3
    assert speed_up(base, half) is None
    assert speed_up(base, half, paired=False) is None
    assert speed_up(base, base) is not None
    assert speed_up(base, cell(5, 5)) is not None  # of an earlier version, whose work nobody told
    one = replace(half[1], of={JCT: (False, 10.0)})
    assert speed_up(base, [base[0], one]) is not None  # whose numbers do not count
    assert ratios.work_text(ratios.works([*base, *half])) == (
        "12 iterations with 12 sums of gradients or 24 iterations with 24 sums of gradients"
    )


def test_what_is_valid_is_said_number_by_number() -> None:
    base, new = cell(10, 10, 10), cell(5, 5, 5)
    new[0] = replace(new[0], of=new[0].of | {GST: (False, 9.0)})
    assert (over(base, new, GST).value, len(ratios.matched(base, new, GST)[0])) == (0.5, 2)  # type: ignore[union-attr]
    assert len(ratios.matched(base, new, JCT)[0]) == 3


def test_of_as_many_workers_jct_and_samples_a_second_say_the_same() -> None:
    base, new = cell(10, 11, 9, 12), cell(8, 7, 9, 10)
    by_jct, by_samples = speed_up(base, new), over(base, new, THROUGHPUT)
    assert by_jct is not None
    assert by_samples is not None
    assert (by_jct.value, by_jct.low, by_jct.high) == pytest.approx((by_samples.value, by_samples.low, by_samples.high))


def test_of_other_numbers_of_workers_samples_a_second_are_compared() -> None:
    """8 workers train twice the samples in about the time: by JCT they would be 0.97 times as fast as 4."""
    base, new = cell(9.7, 9.7), cell(10, 10, workers=8)
    assert speed_by(base, new) == THROUGHPUT
    assert speed_up(base, new).value == pytest.approx(1.94)  # type: ignore[union-attr]
    commands = [[replace(one, of={JCT: one.of[JCT]}) for one in each] for each in (base, new)]
    assert speed_up(*commands).value == pytest.approx(0.97)  # type: ignore[union-attr]


def test_those_that_lost_workers_are_no_others_like() -> None:
    base = cell(10, 10)
    new = [replace(one, workers=(4, 3)) for one in cell(9, 9)]
    assert speed_by(base, new) == THROUGHPUT
    assert (ratios.workers(base), ratios.workers(new), ratios.workers([*base, *new])) == ("4", "4 to 3", "4 or 4 to 3")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four repeats of one setting, of which the ratio of medians (0.81) is not the median of pairs (0.82), nor the
    arithmetic mean of the middle two the inverse of that of their inverses."""
    path = write_run(tmp_path_factory.mktemp("made") / "run", repeats=4)
    jct = {PS: (10.0, 12.0, 20.0, 11.0), RING: (8.0, 10.0, 16.0, 10.0)}
    for file in (path / "trials").iterdir():
        record = json.loads(file.read_text())
        if record["label"] not in jct or record["batch"] != 16:
            (path / "samples" / f"{record['id']}.parquet").unlink(missing_ok=True)
            file.unlink()
            continue
        time_s = jct[record["label"]][record["repeat"]]
        record["metrics"] |= {"jct_s": time_s, "gst_median_s": time_s / 100, "throughput_sps": 1000 / time_s}
        file.write_text(json.dumps(record))
    return path


def measured(path: Path) -> Side:
    """The run as a side of comparisons, with the conditions that these want to know."""
    return replace(read(path), conditions=CONDITIONS)


def test_every_place_has_the_same_ratio(told: Path) -> None:
    """The closing table, the report's summary, figure and sentences, its finding, and compare."""
    run = load(told)
    records = [json.loads(file.read_text()) for file in sorted((told / "trials").iterdir())]
    expected = float(np.sqrt(0.8 * 10 / 12))  # of the pairs 0.8, 0.833, 0.8, 0.909 the middle two, geometrically
    by_time, by_speed = words.ratio(expected), words.ratio(1 / expected)
    assert (by_time, by_speed) == ("0.82×", "1.22×")

    header, rows = closing_table.table(records, PS)
    summary = tables.summary(run)
    speed = answer(run, "speed-up")
    (judged,) = compare(measured(told), measured(told), arms=[(PS, RING)], thresholds={"jct": 0.03}).judged
    assert judged.ratio is not None
    assert judged.ratio.value == pytest.approx(expected)
    assert speed.frame["jct_speed_up"].item() == pytest.approx(1 / expected)
    shown = {row[0]: row[header.index("speed-up")] for row in rows}
    assert shown[RING] == by_speed.replace("×", "x")
    assert summary.rows[1].values[summary.columns.index("Speed-up") - 1].text == by_speed
    assert speed.seen[0].startswith(f"{RING} is {by_speed} (")
    assert f", {by_time} of {PS}." in answer(run, "jct").seen[0]
    assert headline.finding(run) == (
        f"{RING} took {by_time} the synchronisation time of {PS}, and {by_time} its job completion time."
    )


def test_the_closing_table_and_the_report_have_the_same_numbers(told: Path, tmp_path: Path) -> None:
    """Of repeats that differ: the median of their accuracies, and the update of all that was the most stale."""
    path = shutil.copytree(told, tmp_path / "run")
    for file in (path / "trials").iterdir():
        record = json.loads(file.read_text())
        repeat = record["repeat"]
        record["accuracy"] = (record["accuracy"] or {}) | {"test_accuracy": (0.5, 0.6, 0.7, 0.8)[repeat]}
        record["metrics"] |= {"staleness_median": 2.0, "staleness_max": (4.0, 9.0, 5.0, 6.0)[repeat]}
        file.write_text(json.dumps(record))
    records = [json.loads(file.read_text()) for file in sorted((path / "trials").iterdir())]
    header, rows = closing_table.table(records, PS)
    summary = tables.summary(load(path))
    shown = {name: summary.rows[0].values[summary.columns.index(name) - 1] for name in ("Staleness", "Test accuracy")}
    assert rows[0][header.index("accuracy")] == shown["Test accuracy"].text == "65.0%"
    assert rows[0][header.index("staleness")] == "2, max 9"
    assert (shown["Staleness"].text, shown["Staleness"].note) == ("2", "at most 9")


def test_runs_side_by_side_are_compared_as_two_runs(told: Path) -> None:
    """Trials of two runs are no pairs, whatever their repeats: report and compare both take the medians."""
    run = load(told)
    both = beside([run, replace(run, path=told.parent / "again")])
    row = answer(both, "speed-up").frame.set_index("arm").loc[f"{RING} (again)"]
    assert row["jct_speed_up"] == pytest.approx(11.5 / 10)
    assert np.isnan(row["pairs"])


@pytest.fixture
def grown(told: Path) -> Run:
    """The same with twice the workers for the ring, which takes longer than PS for twice the samples."""
    run = load(told)
    trials = []
    for trial in run.trials:
        if trial.label == RING:
            time_s = 1.25 * (trial.metrics.jct_s or 0)
            metrics = replace(trial.metrics, jct_s=time_s, throughput_sps=2000 / time_s)
            trial = replace(trial, world=18, topology="star(hosts=18)", metrics=metrics)
        trials.append(trial)
    return replace(run, trials=tuple(trials))


def test_the_report_compares_samples_a_second_where_workers_differ(grown: Run) -> None:
    summary = tables.summary(grown)
    value = summary.rows[1].values[summary.columns.index("Speed-up") - 1]
    expected = 2 / 1.25 / np.sqrt(0.8 * 10 / 12)
    assert value.number == pytest.approx(expected)
    assert value.note == "by samples/s"
    speed = answer(grown, "speed-up")
    assert speed.frame["throughput_speed_up"].item() == pytest.approx(expected)
    assert speed.frame[["jct_speed_up", "gst_speed_up"]].isna().all(axis=None)
    assert [panel.caption for panel in speed.panels] == ["Batch 16 per worker: samples/s"]
    assert f"Compared by samples per second, because numbers of workers differ: {RING} (18, {PS} 9)." in speed.seen
    assert not [sentence for sentence in answer(grown, "jct").seen if "first" in sentence or "the most" in sentence]


def test_headlines_compare_samples_a_second_where_workers_differ(grown: Run) -> None:
    assert (
        headline.finding(grown)
        == f"{RING} trained 1.96× as many samples a second as {PS}, with 18 workers in place of 9."
    )
    assert headline.is_believable(grown)
    assert headline.unlike(grown) == (
        f"Networks differ, so arms are ranked only within each: {PS} ran on star(hosts=9) with 9 workers; {RING} "
        "ran on star(hosts=18) with 18 workers. "
        "Arms with different numbers of workers are compared only by samples per second."
    )


def test_headlines_rank_arms_with_as_many_workers_first(run_dir: Path) -> None:
    run = load(run_dir)
    trials = tuple(replace(one, world=18) if one.label.startswith("BML") else one for one in run.trials)
    finding, _, left = headline.finding(replace(run, trials=trials)).partition(" Left out: ")
    assert "BML" not in finding
    assert "BML on BCube at 1 of 2 settings (another number of workers)" in left
    assert headline.unlike(run) == (
        f"Networks differ, so arms are ranked only within each: {PS} and {RING} ran on star(hosts=9) with 9 "
        "workers; BML on BCube ran on bcube(n=3,k=2) with 9 workers."
    )


def test_the_closing_table_says_what_speed_ups_are_by(told: Path) -> None:
    records = [json.loads(file.read_text()) for file in sorted((told / "trials").iterdir())]
    assert closing_table.notes(records, PS) == [
        closing_table.MEANING,
        closing_table.BELOW_MEANING,
        closing_table.SPREAD_MEANING,
    ]
    for record in records:
        if record["label"] == RING:
            record["world"] = 18
            record["metrics"]["throughput_sps"] *= 2
    header, rows = closing_table.table(records, PS)
    assert [row[header.index("speed-up")] for row in rows] == ["1.00x", "2.45x"]
    note = f"speed-up by samples/s, because the numbers of workers differ: {RING} (workers: 18; {PS}: 9)"
    assert closing_table.notes(records, PS)[3:] == [note]
    other = next(record for record in records if record["label"] == PS) | {"label": "other"}
    assert closing_table.notes([*records, other], PS)[3:] == [f"{note}; all others by JCT"]


def test_times_of_arms_with_other_numbers_of_workers_are_not_judged(told: Path) -> None:
    side = measured(told)
    side = replace(side, trials=tuple(replace(one, world=18) if one.cell.label == RING else one for one in side.trials))
    found = compare(side, side, arms=[(PS, RING)])
    whys = {one.metric: one.why for one in found.judged}
    unlike = f"{PS} has 9 workers and {RING} 18: of these only samples/s can be compared (--metric throughput)"
    assert (whys["gst"], whys["jct"]) == (unlike, unlike)
    assert whys["throughput"].startswith("too few repeats")
    assert {row[0] for row in compare_output.rows(found)} == {f"{RING} / {PS}"}


def test_no_place_compares_scripts_that_did_other_work(told: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(told, path)
    for file in (path / "trials").iterdir():
        record = json.loads(file.read_text())
        record |= {"iterations": 12, "gradient_sums": 12 if record["label"] == RING else 24}
        file.write_text(json.dumps(record))
    run = load(path)
    assert headline.unlike(run) == (
        f"Not compared, because they did other work: {RING} did 12 iterations with 12 sums of gradients, {PS} 12 "
        "iterations with 24 sums of gradients."
    )
    summary = tables.summary(run)
    assert summary.rows[1].values[summary.columns.index("Speed-up") - 1].number is None
    with pytest.raises(IncomparableError) as caught:
        compare(measured(path), measured(path), arms=[(PS, RING)], thresholds={"jct": 0.03})
    assert "did 12 iterations with 24 sums of gradients and" in str(caught.value)
    baseline = tmp_path / "baseline.json"
    write_baseline(measured(path), baseline)
    assert {trial.work for trial in read(baseline).trials} == {(12, 12), (12, 24)}
