"""Several jobs that share a trial's network, made without a spec: what has room for them. ``test_shared.py`` runs those
of a spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.execution.accounting import attributed, summary
from testbed.execution.observing import observe
from testbed.execution.working_files import needed_bytes, working_files
from testbed.experiment.expand import trials
from testbed.fidelity import link_rate
from testbed.spec import read
from testbed.trial import job_files
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.workloads.kinds.forest.kind import ForestRepair

from ..bench import Bench

SPEC = """
name: jobs
workload: {kind: profile, model: lenet5, scale: 10, batch: 16, iterations: 3, compute: none}
links: {rate: 100 Mbit/s}
arms:
  - {scheme: rina, topology: 'star(hosts=4,ina=all)'}
"""


def without(job: Job, name: str, dead: Sequence[int]) -> Job:
    """The job of the other hosts, under another name."""
    plan = ForestRepair().without(job.plan, job.network.topology, job.gradient.tensors, dead)
    cost = job.kind.cost(plan, job.network.topology, job.gradient_bytes)
    return replace(job, name=name, plan=plan, cost=cost)


@pytest.fixture
def whole() -> Trial:
    """One job on four hosts."""
    (found,) = trials(read(SPEC, "spec.yaml", Path()))
    return found


@pytest.fixture
def shared(whole: Trial) -> Trial:
    """Two jobs, on two hosts each."""
    return replace(whole, jobs=(without(whole.job, "a", (2, 3)), without(whole.job, "b", (0, 1))))


def test_processes_are_called_by_job(shared: Trial) -> None:
    assert [*shared.jobs[0].processes][:2] == ["a/h0", "a/h1"]
    assert {name for name in shared.processes if name.startswith("b/h")} == {"b/h2", "b/h3"}


def test_a_trial_needs_what_all_its_jobs_need(whole: Trial, shared: Trial) -> None:
    each = [replace(shared, jobs=(job,)) for job in shared.jobs]
    assert needed_bytes(shared) == sum(map(needed_bytes, each))
    assert set(job_files.host_pairs(shared)) == {pair for one in each for pair in job_files.host_pairs(one)}
    assert len({one.identity for one in (whole, shared, *each)}) == 4


def test_only_one_job_can_be_recorded(shared: Trial) -> None:
    with pytest.raises(ValueError, match="too many values"):
        _ = shared.job


def test_jobs_run_at_the_same_time_and_each_has_its_own_numbers(
    bench: Bench, shared: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_files, "_probing", lambda _: {})
    with working_files(tmp_path, shared) as files:
        lab = bench.lab
        lab.share(files.work, [])
        seen = observe(shared, lab, files, "reno", lambda *_: None)
    found = {job.name: summary(shared, job, seen, attributed(job, seen)) for job in shared.jobs}
    for job in shared.jobs:
        assert len(attributed(job, seen).samples) == 2 * 3
        assert job.gst_theory_s < found[job.name]["metrics"]["gst_median_s"]
        checks = found[job.name]["fidelity"]["checks"]
        assert {check["name"] for check in checks if not check["ok"] and not check["machine"]} <= {link_rate.ABOUT.name}
    carried = [link for link in found["a"]["links"] if link["theory_bytes"]]
    assert {link["from"] for link in carried} == {"h0", "h1", "h2", "h3", "s0"}, "bytes of both jobs are expected"
    assert found["a"]["links"] == found["b"]["links"]
