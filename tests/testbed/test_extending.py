"""A kind of trial, a workload and a check that an installed package adds: the very example of docs/extend/kind.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.analysis.load import load
from testbed.base import exits
from testbed.base.errors import OutputError
from tests.packages import ROOT, commands, install_page, python

PAGE = ROOT / "docs/extend/kind.md"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's package, as files of an installed distribution, with its spec."""
    folder = tmp_path_factory.mktemp("package")
    install_page(PAGE, folder)
    return folder


def test_plan_and_forest_know_the_kind(package: Path) -> None:
    planned, drawn, refused = commands(
        package,
        ("plan", "spec.yaml"),
        ("forest", "./lockstep.py:stepwise", "star(hosts=3)"),
        ("plan", "spec.yaml", "--set", "perturb=[{kind: circuits, flip: all}]"),
    )
    assert planned.code == 0, planned.err
    assert "lockstep-b1" in planned.out
    assert "lockstep     workers wait for each other after each sum" in drawn.out
    assert "fix: " in refused.err


PACKAGES = """
from pathlib import Path
from testbed.experiment.expand import first_trials
from testbed.spec import load
for trial in first_trials(load(Path("spec.yaml"))):
    print(*[name.split()[0] for name in trial.inputs if "of the package other" in name])
"""


def test_trials_depend_on_the_code_that_they_use(package: Path) -> None:
    listed = python(package, "-c", PACKAGES)
    lockstep, ring = map(str.split, listed.stdout.splitlines())
    assert (lockstep, ring) == (
        ["constant", "constant_task", "lockstep", "patience"],
        ["constant", "constant_task", "patience"],
    ), listed.stderr


@pytest.fixture(scope="module")
def run(package: Path) -> Path:
    done = python(package, "-m", "testbed", "run", "spec.yaml", "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    return package / "out"


@pytest.mark.lab
def test_a_run_has_its_samples_sums_and_checks(run: Path) -> None:
    ours, other = (json.loads((run / f"trials/{name}-b1.json").read_text()) for name in ("lockstep", "ring"))
    assert (ours["moves"], ours["kind"]) == ("lockstep", "constant")
    assert ours["sums"] == {"checked_elements": 3 * 6 * 200_000, "wrong_elements": 0}
    looked = [[check["name"] for check in one["fidelity"]["checks"]] for one in (ours, other)]
    assert ["patience" in names for names in looked] == [True, False]


@pytest.mark.lab
def test_resume_compare_and_report_know_the_kind(package: Path, run: Path) -> None:
    assert "In lockstep, GST ends before the barrier." in (run / "report.html").read_text()
    resumed, compared, reported = commands(
        package,
        ("run", "--resume", "out"),
        ("compare", "out", "out", "--arms", "ring=lockstep"),
        ("report", "out", "--format", "md"),
    )
    assert resumed.code == 0, resumed.err
    assert compared.code in (exits.OK, exits.REGRESSION, exits.UNDECIDED), compared.out + compared.err
    assert "lockstep" in compared.out + compared.err or "INVALID" in compared.err
    assert reported.code == 0, reported.err


@pytest.mark.lab
def test_without_the_package_a_report_says_what_is_missing(run: Path) -> None:
    with pytest.raises(OutputError, match="there is no kind of trial 'lockstep'; there is forest, library"):
        load(run)
