"""The sentences, against the numbers they are made from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.recorded import Run
from testbed.analysis.report import markdown, page, words
from testbed.analysis.report.cells import cells, interval

from .helpers import judged, only, sharing

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def test_counts_and_doubts(run: Run) -> None:
    assert words.counts(run) == "6 trials: 4 VALID, 1 INVALID, 1 failed."
    assert words.doubts(run) == "Ring on fat-tree at batch 64 is INVALID: comparisons with it mean nothing."
    assert words.counts(only(run, "ps-b16")) == "1 trial: 1 VALID. 5 of 6 planned trials have not run."
    assert words.missing(replace(run, planned=7)) == ["1 of 7 planned trials has not run."]
    assert words.doubts(only(run, "ps-b16")) is None
    assert words.doubts(only(run, "ring-b64")) == "No finished trial is VALID: comparisons mean nothing."


def test_ratios_of_repeats_are_told_from_quotients_of_the_table(run: Run, sweep: Run) -> None:
    """One repeat has one ratio, and one arm has none."""
    told = words.of_pairs(sweep)
    assert told.startswith("With repeats, a ratio of two arms is the median of the ratios")
    assert told in markdown.render(sweep)
    assert told in page.render(sweep)
    assert words.of_pairs(run) == ""
    (arm, *_) = sweep.labels
    alone = tuple(trial for trial in sweep.trials if trial.label == arm)
    assert words.of_pairs(replace(sweep, trials=alone)) == ""


def test_repeats_are_told_apart(run: Run) -> None:
    assert words.name(run.trials[0]) == "PS on fat-tree at batch 16"
    again = [replace(run.trials[0], repeat=repeat, repeated=True) for repeat in range(2)]
    assert [words.name(trial) for trial in again] == [f"PS on fat-tree (repeat {n}) at batch 16" for n in (1, 2)]


def test_a_sweeps_trials_are_named_by_their_point(run: Run) -> None:
    trial = replace(run.trials[0], point={"links.rate": "50 Mbit/s", "hosts": 4})
    assert words.name(trial) == "PS on fat-tree at batch 16, links.rate 50 Mbit/s, hosts 4"


def test_times_of_a_profile_are_over_links_of_a_rate_unless_arms_have_rates_of_their_own(run: Run) -> None:
    work = {"kind": "profile", "model": "vgg19", "scale": 200.0}
    resolved = {"workload": work, "links": {"rate_bps": 40_000_000_000}, "arms": [{"rate_bps": None}] * 2}
    assert "over links of 40" in words.scale(replace(run, resolved=resolved))
    resolved["arms"] = [{"rate_bps": None}, {"rate_bps": 10**9}]
    several = replace(run, resolved=resolved)
    assert "times are those of the whole models" in words.scale(several)
    assert "the sums were checked" in words.scale(several)
    played = replace(several, trials=tuple(judged(trial, "SIMULATED") for trial in several.trials))
    for simulated in (played, replace(played, resolved=resolved | {"arms": []})):
        told = words.scale(simulated)
        assert told.startswith("No model was trained: transfers were played in simulated time, and nothing was summed.")
        assert "checked" not in told


def test_times_of_a_profile_are_over_links_of_all_rates_that_there_are(run: Run) -> None:
    links = {"rate_bps": 4 * 10**9, "h0": {"rate_bps": 10**9, "delay_s": None}, "h1": {"rate_bps": None}}
    work = {"kind": "profile", "model": "vgg19", "scale": 200.0}

    def told(**more: object) -> str:
        resolved = {"workload": work, "links": links, "arms": [{"rate_bps": None}] * 2, **more}
        return words.scale(replace(run, resolved=resolved)).replace("\N{NO-BREAK SPACE}", " ")

    assert "over links of 1 Gbit/s to 4 Gbit/s. " in told()
    assert "over links of 4 Gbit/s. " in told(links=links | {"h0": {"delay_s": 0.1}})
    fast = [{"rate_bps": 8 * 10**9}] * 2  # in place of links.rate
    assert "over links of 1 Gbit/s to 8 Gbit/s. " in told(arms=fast)
    assert "over links of 8 Gbit/s. " in told(arms=fast, links={"rate_bps": 4 * 10**9})
    assert "over links of" not in told(sweep={"links.h0.rate": [10**9, 2 * 10**9]})
    whole = work | {"scale": 1.0}
    assert "The scale" not in told(workload=whole, sweep={"links.h0.rate": [10**9, 2 * 10**9]})
    assert "The scale" in told(workload=whole, sweep={"workload.scale": [1, 10]})


def test_who_did_it_how_often() -> None:
    assert words.counted(["a", "b", "a"], "won") == "a won 2 and b in 1"
    assert words.counted(["a"], "won") == "a won 1"


def test_an_interval_is_said_where_there_is_one() -> None:
    assert words.between(Interval(1.0, 0.9, 1.2), words.ratio) == " (0.90× to 1.20×)"
    assert words.between(interval([1.0]), words.ratio) == ""
    assert words.columns("x", interval([1.0])) == {"x": 1.0, "x_low": None, "x_high": None}


@pytest.mark.parametrize("least", [3, 1])
def test_intervals_that_repeats_went_on_for_have_their_true_share(whole_sweep: Path, least: int) -> None:
    run = load(whole_sweep)
    asked = replace(run, resolved=run.resolved | {"repeats": {"until": 0.2, "least": least, "most": 20}})
    assert re.search(
        r"Repeats scatter by \d.*% of the intervals within 20\.0% cover the median\.$", words.counts(asked)
    )
    assert "scatter" not in words.counts(run)


@pytest.mark.parametrize("repeats", [{"until": "x"}, {"until": 0.2}, {"until": 7.0, "least": 3, "most": 5}, [], None])
def test_a_damaged_wish_for_repeats_promises_nothing(whole_sweep: Path, repeats: object) -> None:
    run = load(whole_sweep)
    assert "scatter" not in words.counts(replace(run, resolved=run.resolved | {"repeats": repeats}))


def test_of_many_arms_the_ends_of_each_network_are_named(run: Run) -> None:
    first, _, bml = only(run, "ps-b16", "ring-b16", "bml-b16").trials
    made = [replace(of, label=f"arm {n}") for n, of in enumerate((first, bml, first, bml, first, bml))]
    made[4] = judged(made[4], "INVALID")
    labels = tuple(trial.label for trial in made)
    values = [(float(n), cell) for n, cell in enumerate(cells(replace(run, trials=tuple(made), labels=labels)))]
    assert words.each(values, "{:g}".format, "jct") == (
        "0 for arm 0 to 2 for arm 2 on star(hosts=9) with 9 workers; 1 for arm 1 to 5 for arm 5 on bcube(n=3,k=2) with "
        "9 workers (without 1 arm that is not VALID in JCT)"
    )
    assert words.each(values[3:], "{:g}".format, "jct") == "3 for arm 3, 4 for arm 4 (INVALID in JCT) and 5 for arm 5"


def test_an_arm_at_several_settings_is_named_with_them(run: Run) -> None:
    found = [cell for cell in cells(run) if cell.label == "BML on BCube"]
    values = [(1.0, found[0]), (2.0, found[1])]
    assert (
        words.each(values, "{:g}".format, "gst") == "1 for BML on BCube at batch 16 and 2 for BML on BCube at batch 64"
    )
    others = [(3.0, cell) for cell in cells(run) if cell.label == "Ring on fat-tree"]
    told = words.each([*values, *others, (4.0, found[0])], "{:g}".format, "gst")
    assert told.startswith("1 for BML on BCube at batch 16 to 4 for BML on BCube at batch 16 on bcube")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (1, "Said."),  # no longer than a sentence that one is left out
        (2, "2 more networks are in the CSV of the HTML report."),
    ],
)
def test_networks_that_are_not_named_are_counted(more: int, sentence: str) -> None:
    told = [["Said."]] * (words.MOST_NAMED + more)
    assert words.of_networks(told) == ["Said."] * words.MOST_NAMED + [sentence]
    assert words.of_networks(told[more:]) == ["Said."] * words.MOST_NAMED


def test_repeats_of_which_one_counts_were_not_measured_once(run: Run) -> None:
    first = only(run, "ps-b16").trials[0]
    again = judged(replace(first, id="again", repeat=1), "INVALID")
    (cell,) = cells(replace(run, trials=(judged(first, "VALID"), again)))
    (told,) = words.about_intervals([cell], "jct")
    assert told == "Only one trial counts in JCT, so there is no interval: PS on fat-tree at batch 16."
    (cell,) = cells(replace(run, trials=(judged(first, "VALID"),)))
    assert words.about_intervals([cell], "jct") == ["Each was measured once, so there are no intervals."]


def test_jobs_of_one_trial_are_counted_as_jobs(run: Run) -> None:
    shared = sharing(run, {"ps-b16": "x: a", "bml-b16": "x: b", "ring-b16": "y: a"})
    assert words.counts(replace(shared, planned=2)).startswith("3 jobs in 2 trials: ")
    assert words.missing(replace(shared, planned=2)) == []
    assert words.missing(replace(shared, planned=3)) == ["1 of 3 planned trials has not run."]
