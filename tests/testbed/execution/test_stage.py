"""What hosts find before the launch: the trial that runs is another one than the planned, with the identity of both."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import SpecError, TrialError
from testbed.evidence.referee import Referee
from testbed.execution import stage
from testbed.execution.execute import Outcome, execute
from testbed.execution.place import InLab
from testbed.experiment.expand import trials
from testbed.experiment.planning import plan, text
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.lab.measurements import Calibration
from testbed.spec import read
from testbed.testing import IdealPlace
from testbed.trial.job import Job
from testbed.trial.model import Trial
from tests.packages import ROOT

from ..bench import Bench, fits_schema
from ..doubles import picked as double
from ..doubles.two_processes import TwoProcesses
from ..fake_lab import FakeLab
from ..runner import go

SCHEME = f"{double.__file__}:picked"
SPEC = f"""\
name: found
links: {{rate: 100 Mbit/s}}
workload: {{kind: profile, model: lenet5, scale: 10, batch: 16, iterations: 3, compute: none}}
arms: [{{label: a, topology: star(hosts=3), scheme: "{SCHEME}"}}]
timeout: 20 s
retries: 0
quiet: 0 s
"""
SLOW = ["links.h0={rate: 20 Mbit/s}"]
JOBS = SPEC.replace(
    f'scheme: "{SCHEME}"', f'jobs: [{{name: one, scheme: "{SCHEME}", hosts: 3}}, {{name: two, scheme: ring, hosts: 3}}]'
).replace("hosts=3", "hosts=6")


def planned(text: str = SPEC, changes: list[str] | None = None) -> Trial:
    return trials(read(text, "spec.yaml", Path(), changes or []))[0]


def played(trial: Trial, folder: Path, place: Any = None) -> Outcome:
    with Referee() as referee:
        outcome = execute(trial, place or IdealPlace(), referee, folder, "reno", lambda *_: None)
    fits_schema(outcome)
    return outcome


def test_the_double_is_the_example_of_the_documentation() -> None:
    _, code = Path(double.__file__).read_text().split("\n\n", maxsplit=1)
    assert code in (ROOT / "docs/extend/finding.md").read_text()


def test_until_it_is_found_a_stand_in_is_planned_and_the_plan_says_so() -> None:
    found = plan(read(SPEC, "spec.yaml", Path()))
    assert found["trials"][0]["to_be_found"] == {"rates": "another plan"}
    assert "to be found" in text(found)
    assert "to_be_found" not in plan(read(SPEC, "spec.yaml", Path(), ["arms.0.scheme=ring"]))["trials"][0]


def test_parameters_may_leave_nothing_to_be_found() -> None:
    assert planned().findings[""].probe == "rates"
    assert not planned(SPEC.replace(":picked", ":picked(alike=0.0)")).findings


@pytest.mark.parametrize(("changes", "scheme"), [([], "ring"), (SLOW, "ps")])
def test_a_pure_function_picks_the_plan_that_runs(changes: list[str], scheme: str, tmp_path: Path) -> None:
    trial = planned(changes=changes)
    written = planned(SPEC.replace(SCHEME, scheme), changes)
    outcome, plain = played(trial, tmp_path), played(written, tmp_path)
    record = outcome.record
    (found,) = record["found"]
    assert (found["settings"], found["probe"], found["job"]) == ({"scheme": scheme}, "rates", "")
    assert found["measured"].keys() == {"h0", "h1", "h2"}
    assert record["identity"] == trial.identity, "that of the spec as written"
    assert record["id"] == trial.id
    assert record["fidelity"]["numbers"]["gst"]["verdict"] == "VALID", record["fidelity"]
    same = ("links", "metrics", "fidelity", "probes")
    assert {key: record[key] for key in same} == {key: plain.record[key] for key in same}, "bytes, bounds, verdict"


def test_renamed_hosts_get_the_same_settings_and_nobody_sees_a_topology() -> None:
    rates = {"x": [1e8], "y": [1e8], "z": [2e7]}
    assert double.chosen(["x", "y", "z"], rates, 0.8) == double.chosen(["z", "x", "y"], rates, 0.8) == {"scheme": "ps"}


def test_each_job_of_a_network_finds_its_own(tmp_path: Path) -> None:
    trial = planned(JOBS, ["links.h0={rate: 20 Mbit/s}"])
    outcome = played(trial, tmp_path)
    (found,) = outcome.record["found"]
    assert (found["job"], found["settings"]) == ("one", {"scheme": "ps"})
    assert [job["scheme"] for job in outcome.record["jobs"]] == ["ps", "ring"]
    assert [job["hosts"] for job in outcome.record["jobs"]] == [["h0", "h1", "h2"], ["h3", "h4", "h5"]]


def test_what_was_drawn_for_a_host_stays_with_it() -> None:
    straggling = ["perturb=[{kind: straggle, probability: 50 %, slowdown: 4}]", "workload.compute={pace: {16: 10 ms}}"]
    trial = planned(changes=straggling)
    assert trial.expand is not None
    ran = trial.expand(trial, {"": {"scheme": "ring"}})
    assert ran.job.stragglers is not None
    assert trial.job.stragglers is not None
    turned = job_turned(ran)
    assert turned.stragglers is not None
    drawn = dict(zip(turned.plan.workers, turned.stragglers.factor.tolist(), strict=True))
    assert drawn == dict(zip(trial.job.plan.workers, trial.job.stragglers.factor.tolist(), strict=True))


def job_turned(trial: Trial) -> Job:
    """The job with its workers in another order."""
    forest: Any = trial.job.plan
    return replace(trial.job, plan=replace(forest, workers=forest.workers[::-1]))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"scheme": "rings"}, r"what was found cannot run \(scheme: rings\): there is no scheme 'rings'"),
        ({"scheme": SCHEME}, "it leaves something to be found"),
        ({"schema": "ring"}, "schema is no setting of Arm"),
        ({"scheme": 3}, "what was found cannot run .*: found: scheme: 3 is not text"),
        ({"rate": "fast"}, "what was found cannot run .*: found: rate: "),
    ],
)
def test_a_plan_that_is_refused_fails_the_trial_and_names_why(settings: dict[str, Any], problem: str) -> None:
    trial = planned()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("testbed.workloads.sync.schemes.load_function", lambda *_: Loaded(settings))
        with pytest.raises(TrialError, match=problem):
            stage.decided(trial, lambda _: {})


class Loaded:
    """A user's scheme whose hosts find these settings."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.decides = lambda: double.Finding("rates", lambda *_: settings)

    def __call__(self, topology: Any, tensor_sizes: Any) -> Any:
        return double.ring(topology, tensor_sizes)


def test_a_probe_that_a_place_does_not_have_is_refused_before(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(double.picked, "decides", lambda: None, raising=False)
        patch.setattr("testbed.workloads.sync.schemes.load_function", lambda *_: Loaded({}))
        with pytest.raises(SpecError, match="wants hosts to measure 'rates'"):
            stage.check(planned(), ())
    assert not list(tmp_path.iterdir())


def test_trials_with_something_to_find_go_to_other_processes(tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(planned())).findings
    source = read(SPEC, "spec.yaml", Path(), SLOW)
    run = go(Experiment.new(source, tmp_path / "run", partial(TwoProcesses, partial(Here, IdealPlace))))
    (record,) = run.records
    assert record["found"][0]["settings"] == {"scheme": "ps"}


class Looking(FakeLab):
    """A lab that notes which job files there are when its links are measured, and what it launches."""

    def __init__(self, look: Callable[[], list[str]]) -> None:
        super().__init__()
        self._look = look
        self.seen: list[tuple[str, list[str]]] = []

    def up(self, *settings: Any) -> None:
        super().up(*settings)
        self.seen.append(("up", self._look()))

    def calibrate(self, pings: Any, bursts: Any) -> Calibration:
        self.seen.append(("measure", self._look()))
        return super().calibrate(pings, bursts)

    def launch(self, workers: Any) -> None:  # noqa: ARG002
        self.seen.append(("launch", self._look()))
        raise SpecError("far enough")


def test_job_files_are_written_after_links_were_measured(tmp_path: Path) -> None:
    lab = Looking(lambda: sorted(path.name for path in tmp_path.glob("**/h?.json")))
    with pytest.raises(SpecError, match="far enough"):
        played(planned(SPEC.replace(SCHEME, "ring")), tmp_path, InLab(lab))
    assert lab.seen == [("up", []), ("measure", []), ("launch", ["h0.json", "h1.json", "h2.json"])]


@pytest.mark.lab
def test_in_a_lab_the_hosts_measure_and_the_plan_that_was_found_runs(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(SPEC.replace("{rate: 100 Mbit/s}", "{rate: 100 Mbit/s, h0: {rate: 20 Mbit/s}}"), tmp_path)
    record = outcome.record
    assert (record["status"], record["error"]) == ("done", None)
    (found,) = record["found"]
    assert found["settings"] == {"scheme": "ps"}
    measured_bps = {name: rates[0] for name, rates in found["measured"].items()}
    # A fifth of what others have that do not send to it; a bucket adds what it lets pass at once on a busy machine.
    assert measured_bps["h0"] < 0.5 * max(measured_bps.values())
    ps = trials(read(SPEC.replace(SCHEME, "ps"), "spec.yaml", Path(), SLOW))[0]
    carried = {link["link"]: link["theory_bytes"] for link in record["links"]}
    expected = ps.job.cost.link_bytes * ps.iterations / ps.network.goodput
    assert [carried[link] for link in range(len(expected))] == pytest.approx(expected.tolist(), abs=1)
    checks = {check["name"]: check["ok"] for check in record["fidelity"]["checks"]}
    assert checks["bytes on the wire"]
