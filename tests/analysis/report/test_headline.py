"""The sentences at the head of a report, against the numbers they are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import headline
from testbed.analysis.report.cells import cells, names_of_networks

from .helpers import judged, only, sharing, with_metrics

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def invalid(run: Run, trial_id: str) -> Run:
    trials = (judged(trial, "INVALID") if trial.id == trial_id else trial for trial in run.trials)
    return replace(run, trials=tuple(trials))


def test_the_finding_names_the_fastest_arm_against_the_first(run: Run) -> None:
    run = with_metrics(run, "ps-b16", gst_median_s=0.2, jct_s=10.0)
    run = with_metrics(run, "bml-b16", gst_median_s=0.1, jct_s=8.5)
    run = with_metrics(run, "ring-b16", gst_median_s=0.18, jct_s=10.1)
    assert headline.finding(run) == (
        "Ring on fat-tree took 0.90× the synchronisation time of PS on fat-tree at 1 of 2 settings, and 1.01× its job "
        "completion time. On another network, BML on BCube took 0.50× the synchronisation time of PS on fat-tree at 1 "
        "of 2 settings, and 0.85× its job completion time. "
        "Left out: Ring on fat-tree at 1 of 2 settings, BML on BCube at 1 of 2 settings (PS on fat-tree failed)."
    )


def finish(run_dir: Path, edit: Edit, gst_s: Mapping[str, float]) -> None:
    """Have these trials VALID, each with a GST, and ten times that as its JCT."""
    for trial_id, seconds in gst_s.items():
        metrics = {"gst_median_s": seconds, "jct_s": 10 * seconds}
        edit(
            run_dir / "trials" / f"{trial_id}.json",
            lambda trial, metrics=metrics: trial.update(
                status="done", fidelity={"verdict": "VALID", "checks": []}, metrics=metrics
            ),
        )


def test_the_finding_gives_a_span_over_batches(run_dir: Path, edit: Edit) -> None:
    finish(run_dir, edit, {"ps-b16": 0.2, "bml-b16": 0.1, "ps-b64": 0.2, "bml-b64": 0.11})
    (run_dir / "samples" / "ps-b64.parquet").write_bytes((run_dir / "samples" / "bml-b64.parquet").read_bytes())
    assert headline.finding(load(run_dir)) == (
        "On another network, BML on BCube took 0.50× to 0.55× the synchronisation time of PS on fat-tree, "
        "and 0.50× to 0.55× its job completion time; on the same network, Ring on fat-tree took 0.98× at 1 of 2 "
        "settings. "
        "Left out: Ring on fat-tree at 1 of 2 settings (INVALID in GST)."
    )


def test_the_finding_says_so_when_nothing_was_faster(run: Run) -> None:
    run = with_metrics(only(run, "ps-b16", "ring-b16"), "ps-b16", gst_median_s=0.1)
    run = with_metrics(run, "ring-b16", gst_median_s=0.102)
    assert headline.finding(run) == (
        "No arm synchronised faster than PS on fat-tree; Ring on fat-tree came closest with 1.02× its time."
    )


def test_an_arm_that_is_faster_at_some_settings_is_not_said_to_be_never(run_dir: Path, edit: Edit) -> None:
    finish(run_dir, edit, {"ps-b16": 0.1, "ps-b64": 0.1, "ring-b16": 0.087, "ring-b64": 0.221})
    (run_dir / "samples" / "ps-b64.parquet").write_bytes((run_dir / "samples" / "ring-b64.parquet").read_bytes())
    run = only(load(run_dir), "ps-b16", "ps-b64", "ring-b16", "ring-b64")
    links = next(trial.links for trial in run.trials if trial.id == "ring-b64")
    alike = replace(run, trials=tuple(replace(trial, links=links) for trial in run.trials))
    assert headline.finding(alike) == (
        "No arm synchronised faster than PS on fat-tree at more than half of its settings; "
        "Ring on fat-tree came closest with 0.87× to 2.21× its time."
    )


def test_a_difference_that_the_gate_lets_pass_is_not_called_faster(run: Run) -> None:
    run = with_metrics(only(run, "ps-b16", "ring-b16"), "ps-b16", gst_median_s=0.1)
    told = [headline.finding(with_metrics(run, "ring-b16", gst_median_s=gst_s)) for gst_s in (0.098, 0.0969)]
    assert told[0] == (
        "No arm synchronised more than 3 % faster than PS on fat-tree; Ring on fat-tree took 0.98× its time."
    )
    assert told[1].startswith("Ring on fat-tree took 0.97× the synchronisation time of PS on fat-tree")


def of_one_network(sweep: Run, times_s: Mapping[str, tuple[float, ...]]) -> Run:
    """Arms with these GSTs at two rates of a sweep, and ten times those as JCTs."""
    trials = [
        judged(replace(trial, topology="star(hosts=9)", metrics=replace(trial.metrics, **metrics)), "VALID")
        for trial in sweep.trials
        if trial.batch == 16 and trial.point["rate"] != "50 Mbit/s"
        for gst_s in [times_s[trial.label][trial.repeat]]
        for metrics in [{"gst_median_s": gst_s, "jct_s": 10 * gst_s}]
    ]
    return replace(sweep, trials=tuple(trials))


FAST = {"PS on fat-tree": (0.2, 0.202, 0.198), "Ring on fat-tree": (0.1, 0.102, 0.098)}


@pytest.mark.parametrize(
    ("bml_s", "says"),
    [
        ((0.103, 0.101, 0.1), "BML on BCube shows no difference from Ring on fat-tree."),
        ((0.103, 0.105, 0.101), ""),  # by 3 % in each pair
        ((0.3, 0.303, 0.297), ""),
    ],
)
def test_an_arm_that_shows_no_difference_from_the_fastest_is_named(
    sweep: Run, bml_s: tuple[float, ...], says: str
) -> None:
    fast = of_one_network(sweep, FAST | {"BML on BCube": bml_s})
    assert headline.finding(fast) == (
        "Ring on fat-tree took 0.50× the synchronisation time of PS on fat-tree, and 0.50× its job completion time."
        + (says and f" {says}")
    )
    first_s = {"PS on fat-tree": (0.09, 0.092, 0.088)}
    slow = of_one_network(sweep, FAST | first_s | {"BML on BCube": bml_s})
    assert headline.finding(slow) == (
        "No arm synchronised faster than PS on fat-tree; Ring on fat-tree came closest with 1.11× its time."
        + (says and f" {says}")
    )
    apart = [t for t in fast.trials if t.label != "BML on BCube" or t.point == fast.trials[0].point]
    assert "shows" not in headline.finding(replace(fast, trials=tuple(apart)))  # it ran at one of the two settings


def test_arms_of_one_repeat_show_no_difference_if_it_is_written_as_none(run: Run) -> None:
    run = only(run, "ps-b16", "ring-b16")
    other = replace(run.trials[1], id="other", label="Other ring")
    run = replace(run, trials=(*run.trials, other), labels=(*run.labels, other.label))
    for trial_id, gst_s in (("ps-b16", 0.2), ("ring-b16", 0.1), ("other", 0.1004)):
        run = with_metrics(run, trial_id, gst_median_s=gst_s)
    assert headline.first_sentence(run).endswith(" Other ring shows no difference from Ring on fat-tree.")
    assert "no difference" not in headline.first_sentence(with_metrics(run, "other", gst_median_s=0.1006))


@pytest.mark.parametrize(("ring_s", "times"), [(0.2, "1.00×"), (0.198, "0.99×")])
def test_where_nothing_was_faster_the_arm_of_another_network_comes_first(run: Run, ring_s: float, times: str) -> None:
    """As in the demo."""
    run = only(run, "ps-b16", "ring-b16", "bml-b16")
    for trial_id, gst_s, jct_s in (("ps-b16", 0.2, 10.0), ("ring-b16", ring_s, 9.9), ("bml-b16", 0.1, 6.6)):
        run = with_metrics(run, trial_id, gst_median_s=gst_s, jct_s=jct_s)
    assert (
        headline.finding(run)
        == headline.first_sentence(run)
        == (
            "On another network, BML on BCube took 0.50× the synchronisation time of PS on fat-tree, and 0.66× its job "
            f"completion time; on the same network, Ring on fat-tree took {times}."
        )
    )


def test_the_finding_prefers_valid_trials(run: Run) -> None:
    doubtful = tuple(judged(t, "INVALID") if t.id == "bml-b16" else t for t in run.trials)
    run = with_metrics(replace(run, trials=doubtful), "bml-b16", gst_median_s=1e-6)
    lead, _, left = headline.finding(run).partition(" Left out: ")
    assert "BML" not in lead
    assert left.startswith("BML on BCube at 1 of 2 settings (INVALID in GST); ")


def test_the_finding_says_of_how_many_settings_a_job_completion_time_is(run_dir: Path, edit: Edit) -> None:
    valid = {"gst": {"verdict": "VALID"}, "jct": {"verdict": "VALID"}}
    late = valid | {"jct": {"verdict": "INVALID", "spoilt_by": ["cpu"]}}
    for trial_id, numbers in (("ps-b16", valid), ("bml-b16", valid), ("ps-b64", valid), ("bml-b64", late)):
        fidelity = {"verdict": "VALID" if numbers is valid else "INVALID", "checks": [], "numbers": numbers}
        edit(
            run_dir / "trials" / f"{trial_id}.json",
            lambda trial, fidelity=fidelity: trial.update(
                status="done", fidelity=fidelity, metrics={"gst_median_s": 0.1, "jct_s": 1.0}
            ),
        )
    (run_dir / "samples" / "ps-b64.parquet").write_bytes((run_dir / "samples" / "bml-b64.parquet").read_bytes())
    run = load(run_dir)
    run = replace(run, trials=tuple(trial for trial in run.trials if "Ring" not in trial.label))
    for trial_id in ("bml-b16", "bml-b64"):
        run = with_metrics(run, trial_id, gst_median_s=0.05, jct_s=0.8)
    assert headline.finding(run) == (
        "On another network, BML on BCube took 0.50× the synchronisation time of PS on fat-tree, "
        "and 0.80× its job completion time at 1 of these 2 settings."
    )


def test_arms_with_other_numbers_of_workers_are_not_ranked(run: Run) -> None:
    run = only(run, "ps-b16", "ring-b16", "bml-b16")
    worlds = {"ps-b16": 9, "ring-b16": 18, "bml-b16": 27}
    run = replace(run, trials=tuple(replace(trial, world=worlds[trial.id]) for trial in run.trials))
    for trial_id, throughput_sps in (("ps-b16", 100.0), ("ring-b16", 150.0), ("bml-b16", 300.0)):
        run = with_metrics(run, trial_id, throughput_sps=throughput_sps)
    assert headline.finding(run) == (
        "Ring on fat-tree trained 1.50× as many samples a second as PS on fat-tree, with 18 workers in place of 9; "
        "BML on BCube trained 3.00× as many samples a second as PS on fat-tree, with 27 workers in place of 9."
    )


def test_each_network_is_said_once(run: Run) -> None:
    other = {"PS on fat-tree": "bcube(n=3,k=2)"}
    trials = (replace(trial, topology=other.get(trial.label, "star(hosts=9)")) for trial in run.trials)
    changed = replace(run, trials=tuple(trials))
    assert headline.unlike(changed) == (
        "Networks differ, so arms are ranked only within each: PS on fat-tree ran on bcube(n=3,k=2) with 9 workers; "
        "Ring on fat-tree and BML on BCube ran on star(hosts=9) with 9 workers."
    )


def test_of_many_arms_of_a_network_the_first_are_named(run: Run) -> None:
    run = only(run, "ps-b16", "ring-b16", "bml-b16")
    labels = [f"ring {i}" for i in range(6)]
    own = [replace(run.trials[1], id=label, label=label, topology="star(hosts=9)") for label in labels]
    first = replace(run.trials[0], topology="bcube(n=3,k=2)")
    for count, named in (
        (4, "ring 0, ring 1, ring 2 and ring 3"),
        (6, "ring 0, ring 1, ring 2, ring 3 and 2 more"),
    ):
        changed = replace(run, trials=(first, *own[:count]), labels=(first.label, *labels[:count]))
        assert headline.unlike(changed) == (
            "Networks differ, so arms are ranked only within each: PS on fat-tree ran on bcube(n=3,k=2) with 9 workers"
            f"; {named} ran on star(hosts=9) with 9 workers."
        )


def test_a_network_whose_rate_is_swept_is_said_once_with_its_rates(sweep: Run) -> None:
    """The rates of a sweep are those of the spec; links of a scaled profile have others."""
    links = {
        rate: [replace(link, rate_bps=1e6 * int(rate.partition(" ")[0])) for link in sweep.trials[0].links]
        for rate in RATES
    }
    trials = [
        replace(trial, links=tuple(links[trial.point["rate"]]))
        for trial in sweep.trials
        if ("Ring" not in trial.label or trial.point["rate"] != "50 Mbit/s")
    ]
    changed = replace(sweep, trials=tuple(trials))
    assert headline.unlike(changed) == (
        "Networks differ, so arms are ranked only within each: PS on fat-tree ran on star(hosts=9) at 50 Mbit/s, 100 "
        "Mbit/s and 200 Mbit/s with 9 workers; Ring on fat-tree ran on star(hosts=9) at 100 Mbit/s and 200 Mbit/s with "
        "9 workers; BML on BCube ran on bcube(n=3,k=2) at 50 Mbit/s, 100 Mbit/s and 200 Mbit/s with 9 workers."
    )
    named = set(names_of_networks(cells(changed)).values())
    assert named == {"star(hosts=9) with 9 workers", "bcube(n=3,k=2) with 9 workers"}


def test_the_networks_of_arms_without_a_pair_are_said_too(run: Run) -> None:
    """Ring ran at a batch at which the first arm failed, and so is beside nothing."""
    left = replace(run, trials=tuple(trial for trial in run.trials if trial.id != "ring-b16"))
    assert headline.unlike(left) == (
        "Networks differ, so arms are ranked only within each: PS on fat-tree and Ring on fat-tree ran on "
        "star(hosts=9) with 9 workers; BML on BCube ran on bcube(n=3,k=2) with 9 workers."
    )


TOOK_S = {"PS on fat-tree": (1.0, 1.0, 1.0), "BML on BCube": (1.02, 2.0, 4.2), "Ring on fat-tree": (1.0, 1.4, 2.8)}
RATES = ("50 Mbit/s", "100 Mbit/s", "200 Mbit/s")


def on_one_network(sweep: Run, *, without: tuple[str, str]) -> Run:
    """Trials of one batch, all of them VALID, without those of an arm at a rate."""
    trials = [
        judged(
            replace(
                trial,
                topology="star(hosts=9)",
                metrics=replace(trial.metrics, gst_median_s=TOOK_S[trial.label][RATES.index(rate)]),
            ),
            "VALID",
        )
        for trial in sweep.trials
        if trial.batch == 16
        for rate in [trial.point["rate"]]
        if (trial.label, rate) != without
    ]
    return replace(sweep, trials=tuple(trials))


def test_the_closest_arm_is_so_at_the_settings_that_all_have(sweep: Run) -> None:
    """An arm that also ran where it is easy to be close does not come closest for that."""
    run = on_one_network(sweep, without=("Ring on fat-tree", "50 Mbit/s"))
    assert headline.first_sentence(run) == (
        "No arm synchronised faster than PS on fat-tree; Ring on fat-tree came closest with 1.40× to 2.80× its time at "
        "2 of 3 settings, where every arm is compared."
    )


def test_settings_at_which_only_the_closest_arm_is_compared_are_told_apart(sweep: Run) -> None:
    """Ring ran at three settings, BML at two of them, and the numbers are of those two."""
    run = on_one_network(sweep, without=("BML on BCube", "50 Mbit/s"))
    assert headline.first_sentence(run) == (
        "No arm synchronised faster than PS on fat-tree; Ring on fat-tree came closest with 1.40× to 2.80× its time at "
        "2 of 3 settings, where every arm is compared."
    )


def test_settings_at_which_nothing_is_beside_the_first_arm_are_left_out(sweep: Run) -> None:
    run = on_one_network(sweep, without=("BML on BCube", "50 Mbit/s"))
    alone = [trial for trial in run.trials if trial.label == run.first or trial.point["rate"] == "100 Mbit/s"]
    assert headline.left_out(run) == ""
    assert (
        headline.left_out(replace(run, trials=tuple(alone)))
        == "Left out: PS on fat-tree at 2 of 3 settings (nothing beside it)."
    )


def test_a_single_arm_is_held_against_theory(run: Run) -> None:
    run = with_metrics(only(run, "bml-b64"), "bml-b64", gst_median_s=0.1, gst_ratio=1.03)
    assert (
        headline.finding(run)
        == "BML on BCube at batch 64 synchronised in 0.100\u00a0s (median), 1.03× its lower bound."
    )


def test_jobs_are_compared_with_jobs_of_the_same_name(run: Run) -> None:
    """Job b of arm y is faster than anything but not compared with job a of arm x."""
    run = with_metrics(run, "ps-b16", gst_median_s=0.2, jct_s=10.0)
    run = with_metrics(run, "ring-b16", gst_median_s=0.15, jct_s=9.0)
    run = with_metrics(run, "bml-b16", gst_median_s=0.01, jct_s=1.0)
    shared = sharing(run, {"ps-b16": "x: a", "bml-b16": "x: b", "ring-b16": "y: a"})
    assert headline.finding(shared) == (
        "y: a took 0.75× the synchronisation time of x: a, and 0.90× its job completion time."
    )
    slower = with_metrics(shared, "ring-b16", gst_median_s=0.3)
    assert headline.finding(slower) == (
        "No job synchronised faster than in the first arm; y: a took 1.50× the time of x: a."
    )


def test_jobs_without_others_of_their_name_are_not_compared(run: Run) -> None:
    run = with_metrics(run, "ps-b16", gst_median_s=0.2, gst_ratio=1.5)
    for other in ("x: b", "y: b"):
        found = headline.finding(sharing(run, {"ps-b16": "x: a", "bml-b16": other}))
        assert found == (
            "x: a at batch 16 synchronised in 0.200\u00a0s (median), 1.50× its lower bound. "
            f"Left out: {other} (nothing to compare with)."
        )


def test_a_doubt_that_all_jobs_share_is_not_why_some_are_left_out(run: Run) -> None:
    for verdict in ("INVALID", "SIMULATED"):
        trials = tuple(judged(trial, verdict) for trial in run.trials)
        shared = sharing(replace(run, trials=trials), {"ps-b16": "x: a", "bml-b16": "x: b"})
        assert headline.left_out(shared) == "Left out: x: b (nothing to compare with)."
    shared = sharing(run, {"ps-b16": "x: a", "bml-b16": "x: b"})
    assert headline.left_out(invalid(shared, "bml-b16")) == "Left out: x: b (INVALID in GST)."


def test_a_run_without_a_finished_trial(run: Run) -> None:
    run = only(run, "ps-b64")
    assert headline.finding(run) == "No trial finished, so there is nothing to compare."


def test_arms_without_samples_per_second_are_told_with_their_numbers_of_workers(run: Run) -> None:
    """Another sentence says on which networks they ran; one may be as large a star, of which one host is a server."""
    ring = "Ring on fat-tree took 0.75× the job completion time of PS on fat-tree"
    bml = "BML on BCube took 0.50× the job completion time of PS on fat-tree"

    def told(ring_topology: str, workers: Mapping[str, int], jct_s: float = 3.0) -> str:
        made = only(run, "ps-b16", "ring-b16", "bml-b16")
        for name, took_s in (("ps-b16", 4.0), ("ring-b16", jct_s), ("bml-b16", 2.0)):
            made = with_metrics(made, name, gst_median_s=None, throughput_sps=None, jct_s=took_s)
        trials = [replace(one, world=workers.get(one.id, one.world)) for one in made.trials]
        trials = [replace(one, topology=ring_topology) if one.id == "ring-b16" else one for one in trials]
        return headline.lead(replace(made, trials=tuple(trials)))

    of = run.trials[0].world
    star = run.trials[0].topology
    assert told(star, {"ring-b16": 4, "bml-b16": 4}) == f"With 4 workers in place of {of}, {ring}; {bml}."
    assert told(star, {"ring-b16": 4}) == f"With 4 workers in place of {of}, {ring}; on another network, {bml}."
    assert told("star(hosts=18)", {}) == f"On other networks, {ring}; {bml}."
    assert told(star, {"bml-b16": 1}, 4.0) == (
        f"With 1 worker in place of {of}, {bml}; with as many workers, Ring on fat-tree took 1.00×."
    )


def test_of_commands_a_valid_one_is_not_held_against_others(run: Run) -> None:
    run = only(run, "ps-b16", "bml-b16")
    for name, jct_s in (("ps-b16", 4.0), ("bml-b16", 3.0)):
        run = with_metrics(run, name, gst_median_s=None, jct_s=jct_s)
    assert headline.finding(run) == (
        "On another network, BML on BCube took 0.75× the job completion time of PS on fat-tree."
    )
    assert headline.finding(invalid(run, "ps-b16")) == (
        "BML on BCube at batch 16 took 3.00\u00a0s. Left out: PS on fat-tree (INVALID in JCT)."
    )
    assert headline.is_believable(invalid(run, "ps-b16"))


def test_a_finding_rests_on_valid_trials(run: Run) -> None:
    assert headline.is_believable(run)  # at batch 16 both are VALID
    assert not headline.is_believable(only(run, "ring-b64"))
    compared = only(run, "ps-b16", "bml-b16")
    first, other = (invalid(compared, name) for name in ("ps-b16", "bml-b16"))
    assert headline.finding(first).startswith("BML on BCube at batch 16 synchronised in ")  # the VALID one, by itself
    assert headline.is_believable(first)
    assert headline.finding(other).startswith("PS on fat-tree at batch 16 synchronised in ")
    assert headline.left_out(other) == "Left out: BML on BCube (INVALID in GST)."
    assert headline.is_believable(other)
    assert headline.unreliable(first) == headline.unreliable(other) == ""
    assert headline.is_believable(only(run, "ps-b64"))  # it says that nothing finished


def test_a_finding_beside_an_arm_with_one_valid_repeat(sweep: Run) -> None:
    """The VALID repeat alone counts of the first arm, and nothing that is INVALID is put beside it."""
    trials = [
        judged(trial, "VALID" if (trial.label, trial.repeat) == ("PS on fat-tree", 0) else "INVALID")
        for trial in sweep.trials
        if (trial.batch, trial.point["rate"]) == (16, "50 Mbit/s") and "BML" not in trial.label
    ]
    run = replace(sweep, trials=tuple(trials))
    assert headline.is_believable(run)
    assert headline.found(run).alone
    assert headline.left_out(run) == "Left out: Ring on fat-tree (INVALID in GST)."
