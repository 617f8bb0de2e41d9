"""Runs and baselines of a directory in the order of time, as series, as text and as a page."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.cell import Cell
from testbed.analysis.comparing.measured import Side, read, write_baseline
from testbed.analysis.history import page
from testbed.analysis.history import series as shown
from testbed.analysis.history.series import collect, series, without
from testbed.base.errors import OutputError

from ..sides import ARM, CONDITIONS, RING, about, measured, side

PS = Cell("PS </script>", 16)


def at(one: Side, day: int) -> Side:
    """The side as if it had been measured on a day."""
    return replace(one, trials=tuple(replace(t, started=f"2026-11-{day:02d}{t.started[10:]}") for t in one.trials))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten baselines of one experiment in files whose names are not in the order of time, and one of another."""
    for day in range(1, 11):
        gst_s = 0.2 if day <= 5 else 0.22
        conditions = CONDITIONS | ({"kernel": "7.0"} if day >= 8 else {})
        one = side("x", {RING: about(gst_s, seed=day), PS: about(0.1, seed=20 + day)})
        path = tmp_path / ("a" if day % 2 else "b") / f"{30 - day}.json"
        path.parent.mkdir(exist_ok=True)
        write_baseline(at(replace(one, conditions=conditions), day), path)
    other = replace(side("y", {RING: about(0.3)}), experiment="other")
    write_baseline(at(other, 3), tmp_path / "other.json")
    (tmp_path / "notes.json").write_text('{"no": "baseline"}')
    (tmp_path / "broken.json").write_text('{"schema": 1, "baseline": "x"}')
    return tmp_path


def test_a_merged_run_and_its_parts_are_one_measurement(tmp_path: Path) -> None:
    whole = side("whole", {RING: about(0.2), PS: about(0.1)})
    for name, cells in {"a": [RING], "b": [PS], "whole": [RING, PS]}.items():
        trials = tuple(trial for trial in whole.trials if trial.cell in cells)
        write_baseline(replace(whole, trials=trials), tmp_path / f"{name}.json")
    assert [one.name for one in collect(tmp_path)[0]] == ["whole.json"]


def test_runs_without_a_valid_trial_are_named() -> None:
    whole = side("good", {RING: about(0.2), PS: about(0.1)})
    bad = replace(whole, name="bad", trials=tuple(replace(t, verdicts={"gst": "INVALID"}) for t in whole.trials[:1]))
    assert without([whole, bad], "gst") == [f"bad: no VALID trial in GST: {bad.cells[0]}"]


def test_series_are_in_the_order_of_time_and_have_their_changes(folder: Path) -> None:
    sides, unread = collect(folder)
    assert len(unread) == 1
    assert "broken.json" in unread[0]
    ring, ps, other = series(sides, "gst")
    assert [point.started[8:10] for point in ring.points] == [f"{day:02d}" for day in range(1, 11)]
    assert [change.position for change in ring.changes] == [5]
    assert ring.changes[0].ratio == pytest.approx(1.1, rel=0.01)
    assert ring.levels[:5] == pytest.approx([0.2] * 5, rel=0.01)
    assert ps.changes == ()
    assert (other.experiment, len(other.points)) == ("other", 1)
    assert [(i, point.changed) for i, point in enumerate(ring.points) if point.changed] == [
        (7, ("kernel: 6.18.5, now 7.0",))
    ]


def test_another_scheme_is_told_where_both_runs_say_theirs() -> None:
    schemes = ["ring", "tree", None, "tree"]
    arms = [{"ring": {**ARM, "scheme": scheme}} for scheme in schemes]
    sides = [
        replace(side(f"{i}.json", {RING: [0.2]}), arms=one, trials=(measured(RING, i, 0.2),))
        for i, one in enumerate(arms)
    ]
    (found,) = series(sides, "gst")
    assert [point.changed for point in found.points] == [(), ("scheme: ring, now tree",), (), ()]


def test_runs_are_read_beside_baselines_and_reruns_are_theirs(run_dir: Path) -> None:
    """Like every run directory, this one has trials that are INVALID and failed, which are not drawn."""
    found, unread = collect(run_dir.parent)
    assert unread == []
    assert [one.cell.batch for one in series(found, "gst")] == [16, 16, 16, 64]
    point = series(found, "jct")[0].points[0]
    assert (point.trials, point.low, point.high) == (1, None, None)


def test_text_and_json_say_the_same(folder: Path) -> None:
    sides, unread = collect(folder)
    found = series(sides, "gst")
    lines = shown.text(found, unread).splitlines()
    assert lines[0] == "mine: ring, batch 16: GST"
    assert re.fullmatch(r"  [▁▂▃]{5}[▅▆▇█]{5}  10 runs, 0.200 s to 0.22\d s, last 0.220 s", lines[1])
    assert re.fullmatch(r"  changed: \+\d+\.\d % with .*24\.json \(2026-11-06T09:00\)", lines[2])
    assert any("ran under other conditions: kernel: 6.18.5, now 7.0" in line for line in lines)
    assert lines[-1].startswith("left out: ")
    value = json.loads(json.dumps(shown.as_json(found, unread), allow_nan=False))
    assert len(value["series"]) == 3
    assert value["series"][0]["changes"][0]["run"].endswith("24.json")
    assert len(value["series"][0]["runs"]) == 10


def test_the_page_is_one_file_and_the_same_for_the_same_runs(folder: Path, tmp_path: Path) -> None:
    found, unread = collect(folder)
    drawn = series(found, "throughput")
    page.write(drawn, unread, tmp_path / "one.html")
    page.write(drawn, unread, tmp_path / "two.html")
    made = (tmp_path / "one.html").read_text()
    assert made == (tmp_path / "two.html").read_text()
    assert made.count("data-plot=") == 3
    without_plotly = re.sub(r"<script>.*?</script>", "", made, flags=re.DOTALL)
    assert "PS &lt;/script&gt;" in without_plotly
    assert not re.search(r'(src|href)=["\']', without_plotly)
    assert "<h1>1 of 2 series changed; 1 more has too few runs to tell</h1>" in made


def test_of_few_runs_no_change_is_denied() -> None:
    few, enough = (series([at(side(f"{i}.json", {RING: [0.2]}), i + 1) for i in range(n)], "gst")[0] for n in (3, 4))
    assert shown.told(few) == ["too few runs to see a change: 4 are the least"]
    assert shown.told(enough) == ["no change"]
    assert shown.text([few, few], []).splitlines()[-1] == "too few runs to see a change in 2 series: 4 are the least"
    made = page.render([few], [])
    assert "3 runs: too few runs to see a change" in made
    assert "<h1>Too few runs to tell whether any of 1 series changed</h1>" in made


def test_the_heading_denies_a_change_only_of_series_that_are_long_enough() -> None:
    few, enough = (series([at(side(f"{i}.json", {RING: [0.2]}), i + 1) for i in range(n)], "gst")[0] for n in (3, 4))
    assert shown.heading([few, few]) == "Too few runs to tell whether any of 2 series changed"
    assert shown.heading([enough, few, few]) == "None of 1 series changed; 2 more have too few runs to tell"
    assert shown.heading([enough, enough]) == "None of 2 series changed"


def test_a_point_is_of_trials_that_are_valid_in_its_metric() -> None:
    one = side("a", {RING: about(0.2, 4)})
    first = replace(one.trials[0], verdict="INVALID", verdicts=dict(one.trials[0].verdicts) | {"jct": "INVALID"})
    one = replace(one, trials=(first, *one.trials[1:]))
    assert [series([one], metric)[0].points[0].trials for metric in ("gst", "jct")] == [4, 3]


def test_a_run_and_its_baseline_are_one_measurement(run_dir: Path) -> None:
    write_baseline(read(run_dir, iterations=True), run_dir.parent / "baseline.json")
    found, unread = collect(run_dir.parent)
    assert unread == []
    assert len(found) == 1
    assert len(series(found, "gst")[0].points) == 1


def test_bars_go_from_the_least_to_the_greatest() -> None:
    assert shown.bars([1, 2, 3]) == "▁▅█"
    assert shown.bars([2, 2]) == "▄▄"


def test_a_directory_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="holds neither a run nor a baseline"):
        collect(tmp_path)
    with pytest.raises(OutputError, match="is not a directory"):
        collect(tmp_path / "absent")


def test_what_is_no_baseline_of_this_folder_is_passed_by(folder: Path) -> None:
    found = [one.name for one in collect(folder)[0]]
    os.mkfifo(folder / "fifo.json")
    (folder / "deep.json").write_text('"baseline"' + "[" * 100_000)
    (folder / "link.json").symlink_to(folder / "other.json")
    assert [one.name for one in collect(folder)[0]] == found
