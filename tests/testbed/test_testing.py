"""The place for tests: what theory says comes out of a whole trial, and what it cannot play is refused."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest

from testbed.base import exits
from testbed.base.errors import SpecError
from testbed.evidence.referee import Referee
from testbed.execution.execute import Outcome, execute
from testbed.experiment.expand import trials
from testbed.experiment.run import Experiment, write_report
from testbed.experiment.runner import Here
from testbed.spec import read
from testbed.testing import IdealPlace
from testbed.topologies.call import parse
from testbed.topologies.cloud import places
from testbed.trial.model import Trial
from tests.packages import ROOT, commands, install_page

from .bench import fits_schema
from .conftest import PROFILE, SPEC
from .runner import go

JOBS = """
name: jobs
workload: {kind: profile, model: lenet5, scale: 10, batch: 16, iterations: 3, compute: {mode: paced, pace: {16: 20 ms}}}
links: {rate: 100 Mbit/s}
arms:
  - topology: star(hosts=4)
    jobs:
      - {name: a, scheme: ring, hosts: 2}
      - {name: b, scheme: ps, hosts: 2, start: 1 s}
"""


def played(text: str, folder: Path, place: IdealPlace | None = None) -> tuple[Trial, Outcome]:
    """The first trial of a spec, in the ideal place."""
    trial = trials(read(text, "spec.yaml", Path()))[0]
    with Referee() as referee:
        outcome = execute(trial, place or IdealPlace(), referee, folder, "reno", lambda *_: None)
    fits_schema(outcome)
    return trial, outcome


@pytest.mark.parametrize("text", [SPEC, PROFILE], ids=["trained", "profile"])
def test_numbers_are_the_least_that_theory_allows_and_certified(text: str, tmp_path: Path) -> None:
    trial, outcome = played(text, tmp_path)
    record = outcome.record
    assert (record["status"], record["error"]) == ("done", None)
    assert record["metrics"]["gst_median_s"] == pytest.approx(trial.job.gst_theory_s)
    assert record["metrics"]["gst_ratio"] == pytest.approx(1.0)
    assert record["fidelity"]["verdict"] == "VALID", record["fidelity"]
    assert record["fidelity"]["numbers"]["gst"]["certified"]
    for link in record["links"]:
        assert link["bytes"] == pytest.approx(link["theory_bytes"], abs=1)
    assert (record["accuracy"], record["sums"], record["loss"]) == (None, None, None), "nothing was computed"
    assert outcome.samples is not None
    assert len(outcome.samples) == trial.job.world * trial.iterations


def test_a_trial_that_is_slower_is_not_certified(tmp_path: Path) -> None:
    _, outcome = played(SPEC, tmp_path, IdealPlace(lambda _: 2.0))
    assert outcome.record["metrics"]["gst_ratio"] == pytest.approx(2.0)
    assert not outcome.record["fidelity"]["numbers"]["gst"]["certified"]


def test_a_trial_that_is_faster_than_its_bound_is_invalid(tmp_path: Path) -> None:
    _, outcome = played(SPEC, tmp_path, IdealPlace(lambda _: 0.5))
    assert "lower bound" in outcome.record["fidelity"]["numbers"]["gst"]["spoilt_by"]


def test_jobs_that_share_a_network_begin_as_planned(tmp_path: Path) -> None:
    _, outcome = played(JOBS, tmp_path)
    assert [job["status"] for job in outcome.record["jobs"]] == ["done", "done"]
    assert [job["started_s"] for job in outcome.record["jobs"]] == [0.0, 1.0]
    assert outcome.jobs.keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("perturb={kind: background, from: h0, to: h1}", "nothing can be done to a trial"),
        ("arms=[{topology: star(hosts=3), scheme: async_ps}]", "cannot play async_ps of kind asynchronous"),
        ("workload.overlap=layer", "cannot play"),
    ],
)
def test_what_theory_knows_no_single_answer_for_is_refused(change: str, problem: str, tmp_path: Path) -> None:
    source = read(SPEC, "spec.yaml", Path(), ["workload.compute={mode: paced, pace: {2: 10 ms}}", change])
    with pytest.raises(SpecError, match=problem):
        Experiment.new(source, tmp_path / "run", partial(Here, IdealPlace))
    assert not (tmp_path / "run").exists()


def test_a_run_in_it_has_a_report(tmp_path: Path) -> None:
    run = go(Experiment.new(read(SPEC, "spec.yaml", Path()), tmp_path / "run", partial(Here, IdealPlace)))
    assert [record["fidelity"]["verdict"] for record in run.records] == ["VALID", "VALID"]
    assert "ring" in write_report([run.path], tmp_path / "report.md", "md").read_text()


def test_a_place_of_another_package_plays_the_trials_of_a_spec(tmp_path: Path) -> None:
    """The very example of docs/extend/place.md."""
    install_page(ROOT / "docs/extend/place.md", tmp_path)
    ran, held = commands(tmp_path, ("run", "spec.yaml", "--out", "out"), ("up", "spec.yaml"))
    assert (ran.code, ran.err) == (exits.OK, "")
    (path,) = (tmp_path / "out" / "trials").iterdir()
    record = json.loads(path.read_text())
    assert record["metrics"]["gst_ratio"] == pytest.approx(1.02)
    assert record["fidelity"]["verdict"] == "VALID"
    assert held.code == exits.BAD_SPEC_OR_USAGE
    assert held.err.startswith("error: the lab late only plays trials: nothing can be started in it\n")


def test_hosts_that_probe_each_other_find_what_delays_say(tmp_path: Path) -> None:
    text = PROFILE.replace("star(hosts=5), ", "'cloud(racks=2,hosts_per_rack=4,oversubscription=2)', ")
    text = re.sub("scheme: [a-z_]+", "scheme: 'two_level(groups=probed,k=2)'", text)
    trial, outcome = played(text, tmp_path)
    hidden = places(trial.topology)
    (found,) = outcome.record["found"]
    near_s, far_s = (
        {
            round(row[b], 4)
            for a, row in enumerate(found["measured"].values())
            for b in range(8)
            if a != b and (hidden.racks[a] == hidden.racks[b]) == is_near
        }
        for is_near in (True, False)
    )
    assert max(near_s) < 0.001
    assert min(far_s) == max(far_s) == 0.002
    groups = parse(found["settings"]["scheme"], "ring").arguments["groups"]
    assert {frozenset(group) for group in groups} == {frozenset(f"h{host}" for host in rack) for rack in hidden.groups}


def test_bursts_between_hosts_share_uplinks_fairly(tmp_path: Path) -> None:
    cloud = "'cloud(racks=2,hosts_per_rack=2,oversubscription=4,rack_delay_s=0)'"
    text = PROFILE.replace("star(hosts=5), ", f"{cloud}, ")
    by_groups = re.sub("scheme: [a-z_]+", "scheme: 'two_level(groups=probed,k=2,probe=bandwidth)'", text)
    by_order = re.sub("scheme: [a-z_]+", "scheme: ring, order: best(model=linear)", text)
    for asked, first in ((by_groups, 0), (by_order, 4)):
        folder = tmp_path / str(first)
        folder.mkdir()
        trial, outcome = played(asked, folder)
        racks, rate_bps = places(trial.topology).racks, trial.network.goodput * 200e6
        (found,) = outcome.record["found"]
        for a, row in enumerate(found["measured"].values()):
            for b in {*range(4)} - {a}:
                times = (
                    1 if racks[a] == racks[b] else 4
                )  # both hosts of a rack send over an uplink of half a NIC's rate
                assert row[first + b] * rate_bps == pytest.approx(times)
    order = [racks[int(name[1:])] for name in found["search"]["order"]]
    assert sum(a != b for a, b in zip(order, [*order[1:], order[0]], strict=True)) == 2
