"""What makes a trial that ran to its end fail all the same; and the files that it has meanwhile."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

import pandas as pd
import pytest

from testbed.base.errors import OutputError, SchemeError, TrialError, WorkerError
from testbed.evidence.referee import REFERENCE
from testbed.execution.accounting import journal, told_by_processes
from testbed.execution.correctness import are_equal, check_loss, check_weights, storable
from testbed.execution.working_files import working_files
from testbed.experiment.expand import trials
from testbed.spec import Source, read

RIGHT = {
    "weights_equal": True,
    "weights_error": 3e-7,
    "training_error": 1e-5,
    "training_allowed": 4e-5,
    "coarseness": 1e-4,
    "coarsest": 1e-3,
    "scale_needed": 1e6,
    "reference": REFERENCE,
}


def test_lines_that_make_no_sense_fail_the_trial_and_not_the_run() -> None:
    """Even where they are taken for a mistake in what was asked for."""
    with pytest.raises(TrialError) as caught, told_by_processes():
        raise SchemeError("node 7 is not in a tree", fix="take trees of all members")
    assert str(caught.value) == (
        "what the workers wrote does not go together (SchemeError: node 7 is not in a tree)\n"
        "  fix: see whether a worker writes something else than its samples; then run the trial again"
    )


def test_weights_as_near_as_rounding_allows_are_right() -> None:
    check_weights(RIGHT)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"weights_equal": False}, "the workers ended with different weights"),
        (
            {"training_error": 0.004},
            "the weights differ from those of single-process SGD by 0.004 of what training changed; rounding explains "
            "4e-05",
        ),
        ({"training_error": math.nan}, "the weights differ from those of single-process SGD by nan of what training"),
        (
            {"coarseness": 1.0, "training_error": 0.0, "training_allowed": 0.0},
            "scale too coarse: rounding to fixed point changed the sums by 1 of their norm; 0.001 is allowed",
        ),
    ],
)
def test_wrong_weights_fail(found: dict[str, float], problem: str) -> None:
    with pytest.raises(TrialError) as caught:
        check_weights(RIGHT | found)
    assert caught.value.problem.startswith(problem)


def test_a_scale_that_is_too_coarse_is_told_which_one_to_take() -> None:
    with pytest.raises(TrialError) as caught:
        check_weights(RIGHT | {"coarseness": 0.02})
    assert caught.value.fix == "give the scheme scale=1e+06"


PLANNED = """
name: planned
links: {rate: 1 Gbit/s}
workload: {model: lenet5, dataset: digits, batch: 2, iterations: 3, compute: {mode: paced, pace: {2: 0.1 s}}}
arms:
  - {topology: star(hosts=5), scheme: "mlfabric_a(divergence_updates=4)"}
  - {topology: star(hosts=4), scheme: mlfabric_a}
"""


def test_only_a_server_that_has_a_replica_may_write_a_journal() -> None:
    """Otherwise a worker could tell what a server did that was lost."""
    replicated, alone = (trial.job for trial in trials(read(PLANNED, "planned.yaml", Path())))
    mine, forged = {"name": "h2", "step": []}, {"name": "h0", "step": []}
    assert journal(replicated, [mine]) == [mine]
    assert journal(replicated, []) == []
    with pytest.raises(WorkerError, match="h0 has written a journal, which is for h2 to write"):
        journal(replicated, [mine, forged])
    with pytest.raises(WorkerError, match="which is for no process to write"):
        journal(alone, [mine])


def said(**weights: str | None) -> list[dict[str, str | None]]:
    return [{"name": name, "weights_sha256": one} for name, one in weights.items()]


@pytest.mark.parametrize(
    ("weights", "before", "is_right"),
    [
        (said(h0="a", h1="a", h2=None), [], True),
        (said(h0="a", h1="b"), [], False),
        (said(h2=None), [], False),
        (said(h0="a", h1="b"), ["h0"], True),
        (said(h0="a", h1="b", h2="c"), ["h0", "h1"], False),
        (said(h0="a", h1="a"), ["h0", "h1"], True),
        (said(h0="a", h1="b"), ["h0", "h1"], False),
    ],
)
def test_workers_end_with_the_same_weights_as_those_of_the_same_server(
    weights: list[dict[str, str | None]], before: list[str], *, is_right: bool
) -> None:
    assert are_equal(weights, before) is is_right


def test_how_far_a_lost_server_was_from_its_replica_must_be_explained() -> None:
    found = RIGHT | {"takeover_apart": 0.5, "takeover_allowed": 0.4996, "takeover_rounded": 0.001}
    check_weights(found)
    with pytest.raises(TrialError, match=r"lacked explain 0\.5, and roundings 1e-05"):
        check_weights(found | {"takeover_rounded": 1e-5})


def test_what_is_no_number_is_stored_as_unknown() -> None:
    stored = storable(RIGHT | {"weights_error": math.nan, "test_loss": math.inf})
    assert stored == RIGHT | {"weights_error": None, "test_loss": None}


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_names_its_iteration(loss: float) -> None:
    samples = pd.DataFrame(
        {"rank": [0, 0, 0, 1, 1, 1], "iteration": [0, 1, 2, 0, 1, 2], "loss": [2.3, 2.1, 1.9, 2.3, loss, loss]}
    )
    with pytest.raises(TrialError, match="training diverged: the loss of iteration 1 is not a finite number"):
        check_loss(samples, range(2))
    check_loss(samples[samples["iteration"] == 0], range(2))
    check_loss(samples, [0])  # nobody expects a loss of the other


def test_working_files_are_the_harness_own_and_all_go(tmp_path: Path, source: Source) -> None:
    trial, precious = trials(source)[0], tmp_path / "precious"
    precious.touch()
    run = tmp_path / "run"
    run.mkdir()
    with working_files(run, trial) as files:
        assert files.work.stat().st_mode & 0o777 == 0o700
        assert sorted(path.name for path in files.work.iterdir()) == ["h0", "h1", "h2", "s0"]
        os.mkfifo(files.own("h0") / "fifo")
        (files.own("h1") / "link").symlink_to(tmp_path)
    assert not any((run / "work").iterdir())
    assert files.logs.is_dir()
    assert precious.exists()


@pytest.mark.parametrize("name", ["work", "logs"])
def test_working_files_are_not_made_behind_a_link(tmp_path: Path, source: Source, name: str) -> None:
    trial, run = trials(source)[0], tmp_path / "run"
    precious = tmp_path / "elsewhere" / trial.id / "precious"
    precious.parent.mkdir(parents=True)
    precious.touch()
    run.mkdir()
    (run / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="not a directory"), working_files(run, trial):
        pass
    assert precious.exists()


def test_a_log_is_no_program_whatever_its_process_made_of_it(tmp_path: Path, source: Source) -> None:
    with working_files(tmp_path, trials(source)[0]) as files:
        assert stat.S_IMODE(files.logs.stat().st_mode) == 0o700
        log = files.log("h0")
        log.write_text("#!/bin/sh")
        log.chmod(0o4755)
    assert (stat.S_IMODE(log.stat().st_mode), stat.S_IMODE(log.parent.stat().st_mode)) == (0o644, 0o755)
