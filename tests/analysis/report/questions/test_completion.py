"""JCT and speed-ups, against the trials that they are from."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from testbed.analysis.recorded import Reference, Run
from testbed.analysis.report import headline, latex, markdown, tables, words
from testbed.analysis.report.questions import answered

from ..helpers import answer, asked, in_trial, judged, only, with_metrics

BOTH = "ps-b16", "ring-b16"


def test_of_many_trials_only_the_extremes_are_named(run: Run) -> None:
    first = with_metrics(only(run, "ps-b16"), "ps-b16", jct_s=10.0).trials[0]
    labels = tuple(f"arm {n}" for n in range(1, 6))
    many = tuple(
        replace(first, label=label, metrics=replace(first.metrics, sync_s=float(n), jct_s=10.0))
        for n, label in enumerate(labels, 1)
    )
    sentence, _ = answer(replace(run, trials=many, labels=labels), "jct").seen
    assert sentence.endswith(" Synchronisation is 10% of JCT for arm 1 to 50% of JCT for arm 5.")


def test_jct_tells_the_first_and_the_shares(run: Run) -> None:
    run = with_metrics(only(run, *BOTH), "ps-b16", jct_s=10.0, sync_s=4.0)
    run = with_metrics(run, "ring-b16", jct_s=8.0, sync_s=2.0)
    assert answer(run, "jct").seen == (
        "Batch 16: Ring on fat-tree finished first, in 8.00\u00a0s, 0.80× of PS on fat-tree. "
        "Synchronisation is 40% of JCT for PS on fat-tree and 25% of JCT for Ring on fat-tree.",
        "Each was measured once, so there are no intervals.",
    )
    for jct_s in (10.0 + 1e-12, 10.015):
        tied = answer(with_metrics(run, "ring-b16", jct_s=jct_s), "jct").seen[0]
        assert tied.startswith(
            "Batch 16: PS on fat-tree and Ring on fat-tree show no difference; PS on fat-tree took 10.0\u00a0s. "
        )
    third = replace(run.trials[0], id="bml", label="BML on BCube", metrics=replace(run.trials[0].metrics, jct_s=20.0))
    behind = answer(with_metrics(replace(run, trials=(*run.trials, third)), "ring-b16", jct_s=10.015), "jct").seen[0]
    assert behind.startswith("Batch 16: PS on fat-tree and Ring on fat-tree finished first and show no difference; PS ")


JCT_S = {"PS on fat-tree": (10.0, 10.4, 9.7), "Ring on fat-tree": (9.6, 10.5, 9.5), "BML on BCube": (20.0, 20.6, 19.7)}


@pytest.mark.parametrize(
    ("times_s", "first"),
    [
        (JCT_S, "PS on fat-tree and Ring on fat-tree"),
        (JCT_S | {"Ring on fat-tree": (9.0, 9.4, 8.7)}, "Ring on fat-tree"),
    ],
)
def test_no_arm_is_first_whose_interval_includes_that_of_another(
    sweep: Run, times_s: dict[str, tuple[float, ...]], first: str
) -> None:
    """Ring is faster by 2 % in the median, by -1 to 4 % in pairs; and as much faster in each pair."""
    trials = [
        judged(replace(trial, topology="star(hosts=9)", metrics=replace(trial.metrics, jct_s=jct_s)), "VALID")
        for trial in sweep.trials
        if trial.batch == 16
        for jct_s in [times_s[trial.label][trial.repeat]]
    ]
    question = answer(replace(sweep, trials=tuple(trials)), "jct")
    is_shown = " and " not in first
    mark = "" if is_shown else " (no difference shown)"
    assert {row["Fastest arm"] for row in question.told} == {f"{first}{mark}"}
    says = f"{first} finished first in 3." if is_shown else "3 show no difference between the fastest."
    assert question.seen[0] == f"Of 3 settings where several arms are ranked, {says}"
    includes = [text for text in answer(replace(sweep, trials=tuple(trials)), "speed-up").seen if "includes 1×" in text]
    assert bool(includes) == (not is_shown)


def test_an_invalid_trial_does_not_finish_first_before_a_valid_one(run: Run) -> None:
    run = with_metrics(only(run, *BOTH), "ps-b16", jct_s=10.0, sync_s=4.0)
    run = with_metrics(run, "ring-b16", jct_s=8.0, sync_s=2.0)
    doubtful = tuple(judged(t, "INVALID") if t.id == "ring-b16" else t for t in run.trials)
    question = answer(replace(run, trials=doubtful), "jct")
    assert question.seen[0] == (
        "Batch 16: PS on fat-tree: JCT is 10.0\u00a0s. Synchronisation is 40% of JCT for PS on fat-tree. "
        "Not ranked, because not VALID in JCT: Ring on fat-tree."
    )
    assert question.frame["verdict"].tolist() == ["VALID", "INVALID"]
    hatched = [bool(trace["marker"]["pattern"]) for trace in question.panels[0].figure["data"] if "marker" in trace]
    assert hatched == [False, False, True, True]


def test_medians_of_repeats_have_intervals(sweep: Run) -> None:
    question = answer(sweep, "jct")
    row = question.frame[(question.frame["arm"] == "BML on BCube") & (question.frame["batch"] == 16)].iloc[0]
    slowest = [trial for trial in sweep.trials if trial.batch == 16 and trial.point == {"rate": "50 Mbit/s"}]
    times = [trial.metrics.jct_s for trial in slowest if trial.label == "BML on BCube"]
    assert row["trials"] == 3
    assert row["rate (Mbit/s)"] == 50
    assert row["jct_s"] == pytest.approx(np.median([time for time in times if time]))
    assert row["jct_s_low"] < row["jct_s"] < row["jct_s_high"]
    assert not [sentence for sentence in question.seen if "once" in sentence]


def test_a_sweep_has_a_line_an_arm_and_a_panel_a_batch(sweep: Run) -> None:
    question = answer(sweep, "jct")
    assert [panel.caption for panel in question.panels] == ["Batch 16 per worker", "Batch 64 per worker"]
    assert [trace["name"] for trace in question.panels[0].figure["data"]] == list(sweep.labels)
    for panel in question.panels:
        for trace in panel.figure["data"]:
            part = question.frame.iloc[slice(*trace["rows"])]
            assert part["rate (Mbit/s)"].tolist() == [50, 100, 200]
            assert part["arm"].nunique() == 1
    lead, *left = question.seen
    assert lead.startswith("On star(hosts=9) with 9 workers, of 3 settings ")
    assert left == [
        "At 3 of 12 settings on a network, no arm is VALID.",
        "Not there, because they failed: PS on fat-tree at batch 64, rate 50 Mbit/s, PS on fat-tree at batch 64, rate "
        "100 Mbit/s, PS on fat-tree at batch 64, rate 200 Mbit/s.",
    ]


def test_speed_ups_are_of_pairs(sweep: Run) -> None:
    frame = answer(sweep, "speed-up").frame
    row = frame[(frame["arm"] == "Ring on fat-tree") & (frame["rate (Mbit/s)"] == 100)].iloc[0]
    at = [trial for trial in sweep.trials if trial.batch == 16 and trial.point == {"rate": "100 Mbit/s"}]
    base, mine = ([t.metrics.jct_s or 0 for t in at if t.label == f"{name} on fat-tree"] for name in ("PS", "Ring"))
    assert row["pairs"] == 3
    assert row["jct_speed_up"] == pytest.approx(np.median(np.divide(base, mine)))
    assert row["jct_speed_up_low"] <= row["jct_speed_up"] <= row["jct_speed_up_high"]
    assert set(frame["batch"]) == {16}  # at 64 the first arm failed


def test_the_summary_has_the_same_speed_ups(sweep: Run) -> None:
    """PS slowed down with the machine in one round of three, in which Ring ran before: medians would say another."""
    at = sweep.trials[0].setting
    jct = {"PS on fat-tree": (10.0, 20.0, 40.0), "Ring on fat-tree": (5.0, 40.0, 20.0), "BML on BCube": (5.0, 5.0, 5.0)}
    trials = tuple(
        replace(t, metrics=replace(t.metrics, jct_s=jct[t.label][t.repeat])) for t in sweep.trials if t.setting == at
    )
    told = replace(sweep, trials=trials)
    frame = answer(told, "speed-up").frame
    table = tables.summary(told)
    place = table.columns.index("Speed-up") - 1
    shown = {row.label: row.values[place].text for row in table.rows}
    assert shown == {"PS on fat-tree": "1.00×", "Ring on fat-tree": "2.00×", "BML on BCube": "4.00×"}
    assert frame.set_index("arm")["jct_speed_up"].to_dict() == {"Ring on fat-tree": 2.0, "BML on BCube": 4.0}


def test_pairs_of_valid_trials_count_alone(sweep: Run) -> None:
    broken = [
        replace(judged(trial, "INVALID"), metrics=replace(trial.metrics, jct_s=1e-3))
        for trial in sweep.trials
        if trial.repeat == 1
    ]
    doubtful = tuple(broken + [trial for trial in sweep.trials if trial.repeat != 1])
    frame = answer(replace(sweep, trials=doubtful), "speed-up").frame
    assert set(frame["pairs"]) == {2}
    assert frame["jct_speed_up"].max() < 3


def verdicts(sweep: Run, **valid: tuple[int, ...]) -> Run:
    """PS and Ring at the first point; only the repeats given are VALID."""
    at = sweep.trials[0].setting
    labels = {f"{name} on fat-tree": repeats for name, repeats in valid.items()}
    trials = tuple(
        judged(trial, "VALID" if trial.repeat in labels[trial.label] else "INVALID")
        for trial in sweep.trials
        if trial.setting == at and trial.label in labels
    )
    return replace(sweep, trials=trials)


@pytest.mark.parametrize(
    ("ps", "ring", "is_shown", "is_said"),
    [
        ((0, 2), (0, 1), True, True),
        ((0, 2), (1,), False, False),  # no repeat is VALID on both sides
        ((), (1,), False, False),  # a ratio is as good as the worse of its sides
        ((0, 2), (), False, False),
        ((), (), True, True),
    ],
)
def test_a_speed_up_is_of_trials_that_the_medians_are_of(
    sweep: Run, ps: tuple[int, ...], ring: tuple[int, ...], is_shown: bool, is_said: bool
) -> None:
    run = verdicts(sweep, PS=ps, Ring=ring)
    table = tables.summary(run)
    shown = [row.values[table.columns.index("Speed-up") - 1].text for row in table.rows]
    assert (shown[1] != tables.NONE) == is_shown
    asked = [question for question in answered(run) if question.name == "speed-up"]
    assert bool(asked) == is_shown
    assert any("as fast" in sentence for question in asked for sentence in question.seen) == is_said
    assert ("its lower bound" not in headline.finding(run)) == is_shown  # said of an arm alone
    assert headline.is_believable(run) == bool(ps or ring)
    for text, nothing in ((latex.render(run), "& -- &"), (markdown.render(run), "| – |")):
        row = next(line for line in text.splitlines() if re.match(r"(\| )?Ring on fat-tree.* 16 ", line))
        assert (nothing not in row) == is_shown


def test_an_interval_with_1_in_it_shows_no_difference(sweep: Run) -> None:
    jct = {("PS on fat-tree", 0): 10.0, ("PS on fat-tree", 1): 11.0, ("Ring on fat-tree", 0): 10.5}
    at = sweep.trials[0].setting
    some = [t for t in sweep.trials if t.setting == at and t.repeat < 2 and t.label != "BML on BCube"]
    trials = tuple(replace(t, metrics=replace(t.metrics, jct_s=jct.get((t.label, t.repeat), 10.5))) for t in some)
    assert answer(replace(sweep, trials=trials), "speed-up").seen == (
        "Ring on fat-tree is 1.00× (0.55× to 1.83×) as fast.",
        "The interval of Ring on fat-tree at batch 16, rate 50 Mbit/s includes 1×, so no difference is shown.",
    )


def test_one_arm_is_compared_with_nothing(run: Run) -> None:
    alone = replace(only(run, "ps-b16"), labels=("PS on fat-tree",))
    assert asked(alone, "speed-up") is None


def test_several_settings_are_told_in_a_table(run: Run) -> None:
    told = answer(run, "jct").told
    assert [(row["Setting"], row["Fastest arm"]) for row in told] == [
        ("batch 16", "PS on fat-tree and Ring on fat-tree (no difference shown)"),
        ("batch 16", "BML on BCube (the only one)"),
        ("batch 64", "Ring on fat-tree (the only one, INVALID)"),
        ("batch 64", "BML on BCube (the only one)"),
    ]
    assert told[2]["Relative to PS on fat-tree"] == words.UNKNOWN  # its trial failed there
    assert told[0]["Relative to PS on fat-tree"].endswith("× the JCT")


def test_arms_on_other_networks_are_not_ranked(run: Run) -> None:
    run = with_metrics(only(run, "ps-b16", "bml-b16"), "ps-b16", jct_s=10.0, sync_s=4.0)
    run = with_metrics(run, "bml-b16", jct_s=8.0, sync_s=2.0)
    assert answer(run, "jct").seen[:2] == (
        "Batch 16, on star(hosts=9) with 9 workers: PS on fat-tree: JCT is 10.0\u00a0s. "
        "Synchronisation is 40% of JCT for PS on fat-tree.",
        "Batch 16, on bcube(n=3,k=2) with 9 workers: BML on BCube: JCT is 8.00\u00a0s. "
        "Synchronisation is 25% of JCT for BML on BCube.",
    )


def test_a_single_arm_of_a_network_has_no_largest_speed_up(run: Run) -> None:
    one = only(run, "ps-b16", "ring-b16")
    ring = one.trials[1]
    many = [replace(ring, label=f"ring {n}", id=f"ring-{n}", topology=f"star(hosts={9 + n})") for n in range(5)]
    resolved = one.resolved | {"arms": [{"label": label} for label in ("PS on fat-tree", *(t.label for t in many))]}
    labels = ("PS on fat-tree", *(trial.label for trial in many))
    wide = replace(one, trials=(one.trials[0], *many), labels=labels, resolved=resolved)
    seen = answer(wide, "speed-up").seen
    assert seen[0].startswith("On star(hosts=9) with 9 workers, ring 0 at batch 16 is ")
    assert not any(said.startswith("Of 1 arm") for said in seen)


def test_what_a_speed_up_leaves_out_is_said(run: Run) -> None:
    first, other = (
        tuple(judged(t, "INVALID") if t.id in spoilt else t for t in only(run, *BOTH).trials)
        for spoilt in ((BOTH[1],), BOTH)
    )
    assert asked(replace(run, trials=first), "speed-up") is None
    by_gst = in_trial(only(run, *BOTH), BOTH[1], jct="INVALID")
    question = answer(by_gst, "speed-up")  # its GST is VALID, and is shown
    assert question.seen[0] == "No speed-up of Ring on fat-tree at batch 16 (INVALID in JCT)."
    assert [panel.name for panel in question.panels] == ["speed-gst-0"]
    seen = answer(replace(run, trials=other), "speed-up").seen
    assert "Neither arm of the ratio is VALID in JCT for Ring on fat-tree at batch 16." in seen
    assert answer(replace(run, trials=other), "jct").seen[0].endswith(" None of this is VALID in JCT.")


def test_a_setting_without_a_valid_arm_is_no_win_and_its_speed_ups_are_marked(sweep: Run) -> None:
    some = [t for t in sweep.trials if t.batch == 16]
    spoilt = [judged(t, "INVALID") if t.point == {"rate": "50 Mbit/s"} else t for t in some]
    run = replace(sweep, trials=tuple(spoilt))
    marks = [row["BML on BCube"].endswith(" (INVALID)") for row in answer(run, "speed-up").told]
    assert marks == [True, False, False]
    every, fewer = (answer(replace(sweep, trials=tuple(of)), "jct").seen[0] for of in (some, spoilt))
    assert "of 3 settings" in every
    assert "of 2 settings" in fewer


def test_speed_ups_at_several_settings_are_told_in_a_table(sweep: Run) -> None:
    question = answer(replace(sweep, trials=tuple(t for t in sweep.trials if t.batch == 16)), "speed-up")
    assert [row["Times as fast"] for row in question.told] == [f"batch 16, rate {n} Mbit/s" for n in (50, 100, 200)]
    assert all(row["BML on BCube"].partition("×")[0] > "1" for row in question.told)
    assert not [sentence for sentence in question.seen if "as fast" in sentence]


def test_repeats_of_the_first_arm_may_differ_in_their_work(sweep: Run) -> None:
    """A rank's script may do an iteration less in one repeat; the arm is ranked all the same."""
    trials = tuple(
        replace(trial, gradient_sums=trial.iterations - (trial.repeat == 1)) for trial in sweep.trials if trial.done
    )
    assert answer(replace(sweep, trials=trials), "jct").seen


def test_an_arm_that_no_single_setting_of_the_first_is_like_has_no_speed_up_and_a_word(sweep: Run) -> None:
    """The first arm and another one sweep hosts, and this one does not."""
    places = {(trial.label, trial.setting) for trial in sweep.trials}
    of = {place: (sweep.labels[0], place[1]) for place in places if place[0] != "BML on BCube"}
    run = replace(sweep, reference=Reference(sweep.labels[0], of))
    (told,) = [said for said in answer(run, "speed-up").seen if said.startswith("No speed-up of ")]
    assert "BML on BCube at batch 16, rate 50 Mbit/s" in told
    assert "(PS on fat-tree has no single setting like its own)" in told
    assert not any("no single setting" in said for said in answer(sweep, "speed-up").seen)
    assert headline.first_sentence(run).startswith("No arm that is compared here ")
    lacks = "BML on BCube at 6 of 6 settings (PS on fat-tree has no single setting like its own)"
    assert lacks in headline.left_out(run)


def test_shares_that_are_written_alike_are_told_as_one(sweep: Run) -> None:
    """They were "100% for A to 100% for A"."""
    trials = [
        replace(
            trial,
            label=f"{trial.label}{repeat}",
            metrics=replace(trial.metrics, sync_s=(1 - 1e-4 * repeat) * (trial.metrics.jct_s or 0)),
        )
        for trial in sweep.trials
        if (trial.batch, trial.repeat, trial.point["rate"]) == (16, 0, "50 Mbit/s") and "PS" not in trial.label
        for repeat in range(5)
    ]
    told = answer(replace(sweep, trials=tuple(trials), labels=tuple(trial.label for trial in trials)), "jct").seen
    assert any("Synchronisation is 100% of JCT for all" in sentence for sentence in told)


def test_a_setting_without_a_valid_arm_is_not_told_to_have_a_single_arm(run: Run) -> None:
    alike = [
        judged(replace(trial, topology="star(hosts=9)"), "VALID" if trial.batch == 16 else "INVALID")
        for trial in only(run, "ps-b16", "ring-b16", "ps-b64", "ring-b64").trials
    ]
    first, left, *_ = answer(replace(run, trials=tuple(alike)), "jct").seen
    assert first.startswith("At batch 16, the only setting where several arms are ranked, ")
    assert left == "At 1 of 2 settings, no arm is VALID."
