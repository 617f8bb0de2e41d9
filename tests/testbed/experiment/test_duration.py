"""Guesses at how long trials take, and what is learnt from those that have run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.experiment.duration import (
    FEW_PROCESSES,
    OVERHEAD_S,
    PER_LINK_S,
    PER_PROCESS_S,
    PLAYED_AGAIN_S,
    PLAYED_CALL_S,
    START_S,
    TRAINED_S,
    UNKNOWN_COMPUTE_S,
    Estimate,
    expected_s,
    planned_changes,
)
from testbed.experiment.expand import trials
from testbed.spec import Source, read
from testbed.trial.model import Trial
from testbed.workloads.kinds.parts import Simulation

from ..conftest import SPEC

PACED = "workload.compute={mode: paced, pace: {2: 0.1 s}}"


def test_a_guess_is_the_theory_and_some_overhead(trial: Trial) -> None:
    assert trial.job.jct_theory_s is not None
    assert expected_s(trial) == pytest.approx(trial.job.jct_theory_s + OVERHEAD_S + TRAINED_S + 3 * PER_LINK_S)


def test_processes_beyond_a_few_take_time_to_start(source: Source) -> None:
    few, many = (
        trials(read(SPEC, "spec.yaml", source.folder, [f"arms=[{{topology: star(hosts={hosts}), scheme: ring}}]"]))[0]
        for hosts in (FEW_PROCESSES, FEW_PROCESSES + 4)
    )
    more_s = expected_s(many) - many.job.jct_theory_s - expected_s(few) + few.job.jct_theory_s
    assert more_s == pytest.approx(4 * (PER_PROCESS_S + PER_LINK_S))


@pytest.mark.parametrize(("probe", "least_s"), [("latency", 15 * 200 * 0.002), ("bandwidth", 15 * 0.4)])
def test_hosts_that_probe_each_other_take_time(probe: str, least_s: float, source: Source) -> None:
    probed, random = (
        trials(read(SPEC, "spec.yaml", source.folder, [f"arms=[{{topology: cloud, scheme: 'two_level({groups})'}}]"]))[
            0
        ]
        for groups in (f"groups=probed,probe={probe}", "groups=random")
    )
    assert least_s < expected_s(probed) - expected_s(random) < 30


def test_a_simulated_trace_takes_time_for_each_of_its_messages(tmp_path: Path) -> None:
    (tmp_path / "x.goal").write_text("num_ranks 2\nrank 0 {\nsend 4096b to 1\n}\nrank 1 {\nrecv 4096b from 0\n}\n")
    text = (
        "{name: x, lab: simulator, links: {rate: 1 Gbit/s}, arms: [{topology: star(hosts=2), scheme: ring}],"
        " workload: {kind: trace, file: x.goal, iterations: 5}}"
    )
    (trial,) = trials(read(text, "spec.yaml", tmp_path))
    assert expected_s(trial) == pytest.approx(5 * 2 * 2 * 2 * PLAYED_CALL_S)


def test_a_simulated_trial_takes_no_longer_over_slow_links(source: Source) -> None:
    paced = "batch: 2, iterations: 2, chunk: 64 KiB, compute: {mode: paced, pace: {2: 1 s}}"
    given = ["lab=simulator", f"workload={{kind: profile, model: lenet5, {paced}}}"]
    straggler = "perturb=[{kind: slow, workers: [h0], slowdown: 2}]"
    fast, slow, slowed = (
        expected_s(trials(read(SPEC, "spec.yaml", source.folder, [*given, one]))[0])
        for one in ("links.rate=1 Gbit/s", "links.rate=50 Mbit/s", straggler)
    )
    assert fast == slow
    assert slowed == pytest.approx(fast * (1 + PLAYED_AGAIN_S / Simulation.message_s))
    assert fast < OVERHEAD_S


@pytest.mark.parametrize("scheme", ["async_ps", "mlfabric_s"])
def test_every_iteration_is_played_that_is_decided_by_message(scheme: str) -> None:
    text = (
        "{name: x, lab: simulator, links: {rate: 1 Gbit/s}, workload: {kind: profile, model: lenet5, batch: 2,"
        " iterations: %d, compute: {mode: paced, pace: {2: 1 s}}}, arms: [{topology: star(hosts=8), scheme: %s}]}"
    )
    three, six = (trials(read(text % (count, scheme), "spec.yaml", Path()))[0] for count in (3, 6))
    assert expected_s(six) == pytest.approx(2 * expected_s(three))


def test_every_iteration_of_simulated_jobs_is_played() -> None:
    text = (
        "{name: x, lab: simulator, links: {rate: 1 Gbit/s}, workload: {kind: profile, model: lenet5, batch: 2,"
        " iterations: 3, chunk: 1 GB, compute: none}, arms: [{topology: star(hosts=8), jobs: %s}]}"
    )
    job = "{name: a, scheme: ring, hosts: 4%s}"
    alone, twice = (trials(read(text % f"[{job % copies}]", "spec.yaml", Path()))[0] for copies in ("", ", copies: 2"))
    assert expected_s(alone) == pytest.approx(24 * (Simulation.message_s + 2 * PLAYED_AGAIN_S))
    assert expected_s(twice) == 2 * expected_s(alone)


def test_links_that_get_slower_make_synchronisations_longer(source: Source) -> None:
    rates = "perturb=[{kind: rates, every: 1 s, shares: {50 %: 1.0}, links: [h0]}]"
    slow = trials(read(SPEC, "spec.yaml", source.folder, [rates]))[0]
    (plain,) = [one for one in trials(source) if one.cell == slow.cell]
    more_s = expected_s(slow) - expected_s(plain)
    assert more_s == pytest.approx(plain.iterations * plain.job.gst_theory_s, rel=0.01)
    assert planned_changes(plain) == []


def test_the_beginning_of_scheduled_trials_is_played_for_some_cells(source: Source) -> None:
    """The least time of scheduled updates says nothing of how they wait for each other."""
    arms = "arms=[{topology: star(hosts=8), scheme: mlfabric_a}, {topology: star(hosts=8), scheme: mlfabric_ssp}]"
    first, second = trials(read(SPEC, "spec.yaml", source.folder, [arms, PACED]))
    assert first.job.jct_theory_s is not None
    assert expected_s(first) > expected_s(first, plays=False)
    estimate = Estimate(most_played=1)
    assert estimate.of(first) == expected_s(first)
    assert estimate.of(second) == expected_s(second, plays=False)


def test_of_computing_that_takes_what_it_takes_there_is_a_guess(source: Source) -> None:
    real = trials(read(SPEC, "spec.yaml", source.folder, ["workload.compute=real"]))[0]
    assert expected_s(real) == pytest.approx(
        3 * (UNKNOWN_COMPUTE_S + real.job.gst_theory_s) + OVERHEAD_S + TRAINED_S + 3 * PER_LINK_S
    )


def test_the_first_trial_starts_the_lab(trial: Trial) -> None:
    estimate = Estimate()
    assert estimate.left_s([trial, trial]) == pytest.approx(2 * expected_s(trial) + START_S)
    assert estimate.left_s([]) == 0.0
    estimate.learn(trial, expected_s(trial) + START_S)
    assert estimate.left_s([trial, trial]) == pytest.approx(2 * expected_s(trial))


def test_a_cell_that_has_run_takes_as_long_again(source: Source) -> None:
    ps, ring = trials(source)
    estimate = Estimate()
    estimate.learn(ps, 10.0 + START_S)
    estimate.learn(ps, 14.0)
    assert estimate.of(replace(ps, repeat=5)) == pytest.approx(12.0)
    assert estimate.of(ring) == pytest.approx(expected_s(ring) * 12.0 / expected_s(ps))


def test_a_first_trial_that_was_fast_leaves_time_for_the_others(trial: Trial) -> None:
    estimate = Estimate()
    estimate.learn(trial, START_S)
    assert estimate.of(trial) == pytest.approx(START_S * expected_s(trial) / (expected_s(trial) + START_S))


def test_points_of_a_sweep_are_learnt_apart(source: Source) -> None:
    slow, fast = trials(read(SPEC, "spec.yaml", source.folder, ["links.rate=[50 Mbit/s, 1 Gbit/s]"]))[::2]
    estimate = Estimate()
    estimate.learn(slow, 2 * expected_s(slow) + START_S)
    assert estimate.of(slow) == pytest.approx(2 * expected_s(slow))
    assert estimate.of(fast) == pytest.approx(2 * expected_s(fast))
    estimate.learn(fast, 1.0)
    assert estimate.of(fast) == pytest.approx(1.0)
