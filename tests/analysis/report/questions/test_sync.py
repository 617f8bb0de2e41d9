"""GST against theory and against the number of workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report import plot
from testbed.analysis.report.questions import sync

from ..helpers import LATE, answer, asked, in_trial, judged, only, with_metrics


def test_gst_tells_the_span_and_the_widest(run: Run) -> None:
    run = only(run, "ps-b16", "ring-b16", "bml-b16")
    run = with_metrics(run, "ps-b16", gst_ratio=1.01, gst_median_s=0.2, gst_p95_s=0.21)
    run = with_metrics(run, "ring-b16", gst_ratio=1.04, gst_median_s=0.1, gst_p95_s=0.15)
    run = with_metrics(run, "bml-b16", gst_ratio=1.07, gst_median_s=0.1, gst_p95_s=0.2)
    on_star, on_bcube = "On star(hosts=9) with 9 workers, ", "On bcube(n=3,k=2) with 9 workers, "
    assert answer(run, "gst").seen == (
        f"{on_star}the median GST is 1.01× to 1.04× its lower bound; Ring on fat-tree at batch 16 is farthest from it.",
        f"{on_star}Ring on fat-tree at batch 16 varies most: its 95th percentile is 1.50× its median.",
        f"{on_bcube}the median GST is 1.07× its lower bound.",
        f"{on_bcube}the 95th percentile of BML on BCube at batch 16 is 2.00× its median.",
    )


def test_the_one_arm_that_counts_of_several_is_named(run: Run) -> None:
    both = with_metrics(only(run, "ps-b16", "ring-b16"), "ps-b16", gst_ratio=1.01)
    ps, ring = both.trials
    seen = answer(replace(both, trials=(judged(ps, "VALID"), judged(ring, "INVALID"))), "gst").seen
    assert seen[0] == "The median GST of PS on fat-tree at batch 16 is 1.01× its lower bound."


def test_a_spread_of_repeats_is_that_within_a_trial(run: Run) -> None:
    slow, fast = only(run, "ps-b16").trials, with_metrics(only(run, "ps-b16"), "ps-b16", gst_median_s=0.1).trials
    twice = replace(run, trials=(*slow, *(replace(trial, repeat=1) for trial in fast)))
    assert answer(twice, "gst").seen[-1].endswith(" its median within a trial.")


def test_what_is_not_valid_is_neither_farthest_nor_widest(run: Run) -> None:
    run = with_metrics(only(run, "ps-b16", "ring-b16"), "ring-b16", gst_ratio=9.0)
    doubtful = replace(run, trials=(run.trials[0], judged(run.trials[1], "INVALID")))
    seen = answer(doubtful, "gst").seen
    assert "farthest" not in " ".join(seen)
    assert seen[-1] == "Not counted here, because not VALID in GST: Ring on fat-tree at batch 16."
    none = replace(run, trials=tuple(judged(trial, "INVALID") for trial in run.trials))
    assert answer(none, "gst").seen[-1] == "None of this is VALID in GST."


def test_gst_below_theory_gets_a_word(run: Run) -> None:
    run = only(run, "ps-b16", "bml-b16")
    assert not [sentence for sentence in answer(run, "gst").seen if "less than theory" in sentence]
    run = with_metrics(run, "bml-b16", gst_theory_s=1.0, gst_ratio=1.02)
    told = answer(run, "gst").seen[-1]
    assert told.startswith(
        "Some GST of BML on BCube at batch 16 is less than theory's, which is for the whole gradient:"
    )
    assert "The bound is for the bytes that were left" in told
    overlapped = answer(with_metrics(run, "bml-b16", gst_ratio=None), "gst").seen[-1]
    assert overlapped == told.partition(" The bound")[0]


def test_every_iteration_after_the_warm_up_is_a_point(run: Run) -> None:
    frame = answer(only(run, "bml-b16"), "gst").frame
    assert frame["iteration"].tolist() == list(range(1, 20))
    assert frame["gst_over_bound"].tolist() == pytest.approx((frame["gst_s"] / 0.0974).tolist())


def test_of_too_many_iterations_quantiles_are_drawn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "MOST_POINTS", 10)
    question = answer(run, "gst")
    (trial,) = (trial for trial in run.trials if trial.id == "bml-b16")
    assert trial.gst_s is not None
    row = question.frame[(question.frame["arm"] == trial.label) & (question.frame["batch"] == 16)].iloc[0]
    assert (row["iterations"], row["gst_s_p75"]) == (19, pytest.approx(trial.gst_s.quantile(0.75)))
    assert {trace["type"] for panel in question.panels for trace in panel.figure["data"]} == {"box"}


def test_gst_against_n_is_drawn_where_a_scheme_ran_with_several(run: Run) -> None:
    assert asked(run, "gst-workers") is None
    first = next(trial for trial in run.trials if trial.id == "ring-b16")

    def with_workers(world: int, gst_s: float, label: str) -> Trial:
        metrics = replace(first.metrics, gst_median_s=gst_s, gst_theory_s=gst_s / 1.25)
        topology = f"star(hosts={world})"
        return replace(first, id=label, label=label, world=world, topology=topology, metrics=metrics)

    trials = (
        *(with_workers(n, 0.1 * n, f"{n} workers") for n in (8, 4)),
        *(with_workers(n, 0.2 * n, f"{n} workers, 5 ms") for n in (4, 8)),
        with_workers(4, 0.3, "alone"),
    )
    arms = [
        {"label": trial.label, "perturb": [{"kind": "jitter"}] if "ms" in trial.label else []}
        for trial in trials
        if trial.label != "alone"
    ]
    arms.append({"label": "alone", "perturb": [{"kind": "hog"}]})
    labels = tuple(trial.label for trial in trials)
    question = answer(replace(run, trials=trials, labels=labels, resolved={"arms": arms}), "gst-workers")
    assert question.frame["series"].tolist() == ["N workers"] * 2 + ["N workers, 5 ms"] * 2
    assert question.frame["workers"].tolist() == [4, 8, 4, 8]
    assert question.seen == ()
    assert question.told[0] == {
        "Scheme": "N workers",
        "Workers": "4 to 8",
        "GST grows": "2.00×",
        "By theory": "2.00×",
    }
    assert [row["Scheme"] for row in question.told] == ["N workers", "N workers, 5 ms"]


def test_a_sweep_over_hosts_is_one_series(run: Run) -> None:
    first = next(trial for trial in run.trials if trial.id == "ring-b16")
    trials = tuple(
        replace(first, id=str(n), world=n, topology=f"star(hosts={n})", point={"hosts": n}) for n in (2, 4, 16)
    )
    question = answer(replace(run, trials=trials, labels=(first.label,)), "gst-workers")
    assert question.frame["workers"].tolist() == [2, 4, 16]
    assert question.seen[0].startswith("Ring on fat-tree: GST with 16 workers is 1.00× that with 2")
    assert question.told == ()
    assert [key.label for key in question.legend] == ["Ring on fat-tree", "theory"]


def test_a_sweep_has_seconds_and_ratios_along_its_axis(sweep: Run) -> None:
    question = answer(sweep, "gst")
    assert [panel.caption for panel in question.panels] == [
        f"Batch {batch} per worker: {what}" for what in ("time", "over its bound") for batch in (16, 64)
    ]
    assert question.frame["rate (Mbit/s)"].tolist()[:3] == [50, 100, 200]
    assert question.frame["gst_theory_s"].tolist()[:3] == pytest.approx([0.7792, 0.3896, 0.1948])


def test_gst_is_drawn_by_the_size_of_keys(run: Run) -> None:
    first = next(trial for trial in run.trials if trial.id == "ring-b16")
    trials = tuple(replace(first, id=str(n), point={"key_bytes": n}) for n in (4096, 65536, 16384))
    question = answer(replace(run, trials=trials, labels=(first.label,)), "gst")
    assert question.frame["key_bytes"].tolist() == [4096, 16384, 65536]
    (line, theory) = question.panels[0].figure["data"]
    assert line["x"] == theory["x"] == {"column": "key_bytes"}


def test_theory_of_an_arm_with_one_point_is_a_dash_and_of_others_a_line(run: Run) -> None:
    ring, ps = (next(trial for trial in run.trials if trial.id == name) for name in ("ring-b16", "ps-b16"))
    at = ((ring, 4096), (ring, 16384), (ps, 16384))
    trials = tuple(replace(trial, id=str(i), point={"key_bytes": n}) for i, (trial, n) in enumerate(at))
    question = answer(replace(run, trials=trials), "gst")
    two, one = question.panels[0].figure["data"][-2:]
    assert [trace["rows"][1] - trace["rows"][0] for trace in (one, two)] == [1, 2]
    assert (one["mode"], two["mode"]) == ("markers", "lines")
    assert "marker" not in two
    assert two["line"]["dash"] == "4px,3px"
    assert one["marker"]["symbol"] == "line-ew-open"
    assert one["marker"]["line"] == {"color": plot.colour(run, ps.label), "width": 1}
    assert one["y"]["column"] == two["y"]["column"] == "gst_theory_s"


def test_a_network_is_told_from_those_whose_trials_are_not_valid(sweep: Run) -> None:
    """Another rate that no setting tells makes another network: its median is not that of the network at all rates."""
    trials = []
    for trial in sweep.trials:
        is_fast = trial.point["rate"] == "200 Mbit/s"
        links = tuple(replace(link, rate_bps=200e6 if is_fast else 100e6) for link in trial.links)
        verdict = "VALID" if is_fast or trial.label != "BML on BCube" else "INVALID"
        trials.append(replace(judged(trial, verdict), links=links, point={"size": trial.point["rate"]}))
    seen = answer(replace(sweep, trials=tuple(trials)), "gst").seen
    (told,) = [text for text in seen if "bcube" in text and "the median GST is" in text]
    assert told.startswith("On bcube(n=3,k=2) at 200 Mbit/s with 9 workers, ")


def test_parts_of_an_iteration_add_up(run: Run) -> None:
    changed = with_metrics(only(run, "ps-b16"), "ps-b16", iteration_median_s=1.0, gst_median_s=0.6, gst_ratio=1.5)
    question = answer(changed, "overhead")
    (row,) = question.frame.to_dict("records")
    parts = [row[name] for name in ("compute_s", "least_s", "more_s")]
    assert parts == pytest.approx([0.4, 0.4, 0.2])
    assert sum(parts) == pytest.approx(row["iteration_s"])
    (panel,) = question.panels
    assert [trace["x"] for trace in panel.figure["data"]] == [
        {"column": name} for name in ("compute_s", "least_s", "more_s")
    ]
    assert panel.figure["layout"]["barmode"] == "stack"
    assert "20.0%" in question.seen[0]


def test_gst_below_its_bound_adds_nothing_beyond_it(run: Run) -> None:
    changed = with_metrics(only(run, "ps-b16"), "ps-b16", iteration_median_s=1.0, gst_median_s=0.6, gst_ratio=0.9)
    (row,) = answer(changed, "overhead").frame.to_dict("records")
    assert (row["least_s"], row["more_s"]) == (0.6, 0.0)


def test_what_has_no_bound_is_left_out_and_counted(run: Run) -> None:
    timed = with_metrics(only(run, "ps-b16", "ring-b16"), "ring-b16", iteration_median_s=30.0)
    changed = with_metrics(timed, "ps-b16", iteration_median_s=30.0, gst_ratio=None)
    question = answer(changed, "overhead")
    assert question.frame["arm"].tolist() == ["Ring on fat-tree"]
    assert question.seen[0].endswith("; known of 1 of 2.")


def test_an_iteration_that_is_not_valid_is_neither_counted_nor_drawn_as_if_it_were(run: Run) -> None:
    """GST may be VALID where workers computed for too long; the share is then of a wrong time."""
    both = only(run, "ps-b16", "ring-b16")
    for trial in both.trials:
        both = with_metrics(both, trial.id, iteration_median_s=1.0, gst_median_s=0.6, gst_ratio=1.5)
        both = in_trial(both, trial.id, **(LATE if trial.id == "ring-b16" else {}))
    question = answer(both, "overhead")
    told, left_out = question.seen
    assert told.endswith(": 20.0% for PS on fat-tree.")
    assert left_out == "Not counted here, because not VALID in iteration times: Ring on fat-tree at batch 16."
    assert question.frame["verdict"].tolist() == ["VALID", "INVALID"]
    (panel,) = question.panels
    assert ["INVALID" in label for label in panel.figure["layout"]["yaxis"]["ticktext"]] == [False, True]
