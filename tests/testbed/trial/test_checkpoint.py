"""Which processes of a trial write checkpoints, how much, and what that adds to the least time of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.files import Files
from testbed.trial.job_files import worker_jobs
from testbed.trial.model import Trial
from testbed.workloads.learning.checkpoint import Checkpoint

from ..conftest import SPEC

FLOATS = 3_274_634  # of LeNet-5
BYTES_PER_S = 1e7


def planned(scheme: str, checkpoint: str = "") -> Trial:
    """Four hosts, three iterations of 0.1 s."""
    text = SPEC.replace("compute: none", "compute: {mode: paced, pace: {2: 0.1 s}}")
    text = text.replace("star(hosts=3), scheme: ps", f"star(hosts=4), scheme: {scheme}{checkpoint}")
    return trials(read(text, "spec.yaml", Path()))[0]


@pytest.mark.parametrize(
    ("scheme", "spread", "share"), [("ring", "", 1.0), ("ring", ", spread: 3", 0.75), ("ring", ", spread: 4", 1.0)]
)
def test_ranks_compute_after_they_have_written(scheme: str, spread: str, share: float) -> None:
    """After the first and the second of three iterations."""
    trial, without = planned(scheme, f", checkpoint: {{every: 1, rate: 10 MB/s{spread}}}"), planned(scheme)
    took_s = share * 4 * FLOATS / BYTES_PER_S
    assert trial.job.checkpoint_s == pytest.approx(took_s)
    assert trial.jct_theory_s == pytest.approx(without.jct_theory_s + 2 * took_s)  # type: ignore[operator]
    assert trial.identity != without.identity


def test_a_server_that_may_be_started_again_writes_all_arrays_and_its_journal() -> None:
    """Of nine updates, and of the training's momentum."""
    checkpoint = ", checkpoint: {every: 2, rate: 10 MB/s}"
    assert planned("mlfabric_a", checkpoint).job.checkpoints == {2: 4 * FLOATS}
    job = planned("mlfabric_a", checkpoint + ", perturb: [{kind: kill, nodes: [h2], at: 9 s}]").job
    assert job.returns == {"h2"}
    bytes_each = 2 * 4 * FLOATS + (1 + 2 * 3) * 200
    assert job.checkpoints == {2: bytes_each}
    assert job.checkpoint_s == bytes_each / BYTES_PER_S


@pytest.mark.parametrize(
    ("scheme", "spread", "writers"),
    [
        ("ring", "", {"h0": (3, None)}),
        ("ring", ", spread: 2", {f"h{rank}": (3, (2, 4, rank)) for rank in range(4)}),
        ("async_ps", "", {"h3": (9, None)}),
        ("async_ps(servers=2)", "", {"h2": (6, None), "h3": (6, None)}),
        ("async_ps(replication=chain)", "", {"h2": (6, None)}),
        ("mlfabric_a", "", {"h2": (6, None)}),
        ("mlfabric_s", "", {"h0": (3, None)}),
        ("mlfabric_s", ", spread: 2", {"h0": (3, (2, 2, 0)), "h1": (3, (2, 2, 1))}),
    ],
)
def test_who_writes_what(
    scheme: str, spread: str, writers: dict[str, tuple[int, tuple[int, int, int] | None]], tmp_path: Path
) -> None:
    trial = planned(scheme, f", checkpoint: {{every: 2, rate: 10 MB/s{spread}}}")
    files = Files(tmp_path / "work", tmp_path / "logs")
    found = {job.name: job.checkpoint for job in worker_jobs(trial.job, files, "reno", {}) if job.checkpoint}
    assert found == {
        name: Checkpoint(2, BYTES_PER_S, str(tmp_path / "work" / name / "checkpoint"), total, share)
        for name, (total, share) in writers.items()
    }
