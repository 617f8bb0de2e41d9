"""Two jobs on one server that adds: a kind in a folder of its own, and not a line elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from testbed.base import exits
from tests.packages import ROOT, commands, install, python

DOUBLE = ROOT / "tests/testbed/doubles/adder"
JOBS = (
    "[{name: a, scheme: './adder.py:adder', hosts: [h0, h1]}, {name: b, scheme: './adder.py:adder', hosts: [h3, h2]}]"
)
SPEC = f"""
name: added
workload:
  {{kind: profile, model: lenet5, scale: 10, batch: 16, iterations: 6, compute: {{mode: paced, pace: {{16: 50 ms}}}}}}
links: {{rate: 2 Gbit/s}}
retries: 0
quiet: 0 s
arms:
  - {{label: whole, topology: star(hosts=5), jobs: {JOBS}}}
  - {{label: no_server, topology: star(hosts=5), jobs: {JOBS}, perturb: [{{kind: kill, nodes: [h4], at: 300 ms}}]}}
  - {{label: no_worker, topology: star(hosts=5), jobs: {JOBS}, perturb: [{{kind: kill, nodes: [h0], at: 300 ms}}]}}
"""
PROCESSES = """
from pathlib import Path
from testbed.experiment.expand import first_trials
from testbed.spec import load
trial, *_ = first_trials(load(Path("spec.yaml")))
for process in trial.members.values():
    print(process.name, process.node, *[f"{part.job}:{part.role}:{part.rank}" for part in process.parts])
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder as an installed distribution, and a spec of two jobs."""
    folder = tmp_path_factory.mktemp("adder")
    shutil.copy(DOUBLE / "adder.py", folder)
    install(folder, {"testbed.kinds": {"adder": "adder:KIND"}})
    (folder / "spec.yaml").write_text(SPEC)
    return folder


def test_a_server_has_a_part_in_each_job_and_a_worker_in_one(package: Path) -> None:
    listed = python(package, "-c", PROCESSES)
    assert listed.stdout.splitlines() == [
        "a/h0 0 a:worker:0",
        "a/h1 1 a:worker:1",
        "h4 4 a:server:None b:server:None",
        "b/h3 3 b:worker:0",
        "b/h2 2 b:worker:1",
    ], listed.stderr


@pytest.fixture(scope="module")
def records(package: Path) -> dict[str, dict[str, Any]]:
    done = python(package, "-m", "testbed", "run", "spec.yaml", "--out", "out")
    records = {
        path.stem.split("-b16")[0]: json.loads(path.read_text()) for path in (package / "out/trials").glob("*.json")
    }
    assert records.keys() == {"whole", "no-server", "no-worker"}, done.stdout + done.stderr
    return records


def checks(job: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [check for check in job["fidelity"]["checks"] if check["name"] == name]


@pytest.mark.lab
def test_jobs_on_one_server_have_their_own_sums_bytes_and_verdicts(records: dict[str, dict[str, Any]]) -> None:
    record = records["whole"]
    assert record["status"] == "done", record["error"]
    for job in record["jobs"]:
        assert job["status"] == "done", job["error"]
        assert job["sums"]["wrong_elements"] == 0
        assert job["sums"]["checked_elements"] > 0
        assert not [check for check in job["fidelity"]["checks"] if not check["ok"] and not check["machine"]]
    assert checks(record["jobs"][0], "bytes on the wire")


@pytest.mark.lab
def test_all_jobs_fail_with_the_server_that_they_share(records: dict[str, dict[str, Any]]) -> None:
    record = records["no-server"]
    assert record["status"] == "failed"
    assert record["error"].startswith("after perturb had killed h4: the server on h4 was killed by SIGKILL")


@pytest.mark.lab
def test_a_server_goes_on_for_the_other_job_when_a_worker_dies(records: dict[str, dict[str, Any]]) -> None:
    record = records["no-worker"]
    a, b = record["jobs"]
    assert (a["status"], a["by_perturb"], b["status"]) == ("failed", True, "done"), b["error"]
    assert "a/h0 was killed by SIGKILL" in a["error"]
    assert b["sums"]["wrong_elements"] == 0


@pytest.mark.lab
def test_the_report_is_as_of_all_kinds(package: Path, records: dict[str, dict[str, Any]]) -> None:
    assert records
    (reported,) = commands(package, ("report", "out", "--format", "md"))
    assert reported.code == 0, reported.err


def test_jobs_that_begin_later_share_no_process(package: Path) -> None:
    late = JOBS.replace("hosts: [h3, h2]", "hosts: [h3, h2], start: 2 s")
    (planned,) = commands(package, ("plan", "spec.yaml", "--set", f"arms=[{{topology: star(hosts=5), jobs: {late}}}]"))
    assert planned.code == exits.BAD_SPEC_OR_USAGE
    problem, fix = planned.err.splitlines()
    assert problem.endswith("the jobs a and b share the process h4, but do not begin at the same time")
    assert fix == "  fix: remove start and after from both jobs, or give both the same start"
