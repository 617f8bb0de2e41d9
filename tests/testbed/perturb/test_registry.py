"""A kind of perturbation that an installed package adds: the very example of docs/extend/perturbation.md."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.packages import commands, install, python

PAGE = Path(__file__).parents[3] / "docs/extend/perturbation.md"
SPEC = "halved.yaml"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's package, as files of an installed distribution, with its spec."""
    blocks = dict(re.findall(r"```(python|toml|yaml)(?: plugged)?\n(.*?)```", PAGE.read_text(), re.S))
    (tmp_path / "halving.py").write_text(blocks["python"])
    (tmp_path / SPEC).write_text(blocks["yaml"] + "retries: 0\nquiet: 0 s\n")
    install(tmp_path, tomllib.loads(blocks["toml"])["project"]["entry-points"])
    return tmp_path


def test_a_spec_can_have_it_and_messages_know_it_and_its_keys(package: Path) -> None:
    written = (package / SPEC).read_text()
    (package / "halv.yaml").write_text(written.replace("kind: halve", "kind: halv"))
    (package / "late.yaml").write_text(written.replace("iteration 2", "iteration 7"))
    right, misspelt, late = commands(package, *(("plan", name) for name in (SPEC, "halv.yaml", "late.yaml")))
    assert right.code == 0, right.err
    assert "ring-star3-b32" in right.out
    assert "fix: did you mean 'halve'?" in misspelt.err
    assert "perturb.0 (halve): there is no iteration 7: the workload has 6" in late.err


@pytest.mark.lab
def test_a_run_carries_it_out_and_records_it(package: Path) -> None:
    done = python(package, "-m", "testbed", "run", SPEC, "--out", "out")
    record = json.loads((package / "out/trials/ring-star3-b32.json").read_text())
    assert record["status"] == "done", done.stderr
    (event,) = record["events"]
    assert (event["kind"], event["what"], event["error"]) == ("halve", "links of all hosts at half of their rate", None)
    assert set(event["links"]["rate_bps"].values()) == {50_000_000}


def test_the_module_of_a_kind_may_be_imported_first(package: Path) -> None:
    told = "import halving; from testbed.perturb.registry import PERTURBATIONS; print(list(PERTURBATIONS)[-1])"
    done = python(package, "-c", told)
    assert done.stdout == "halve\n", done.stderr


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ({"half": "halving:Halve"}, "the entry point half of testbed.perturbations is Halve, whose kind is 'halve'"),
        ({"halve": "halving:targets"}, "the entry point halve of testbed.perturbations is <module"),
        ({"kill": "halving:Halve"}, "two packages add 'kill' to testbed.perturbations"),
    ],
)
def test_what_is_no_kind_of_that_name_is_refused(package: Path, points: dict[str, str], problem: str) -> None:
    install(package, {"testbed.perturbations": points})
    done = python(package, "-m", "testbed", "plan", SPEC)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {problem}")
    assert "\n  fix: " in done.stderr
    assert "Traceback" not in done.stderr
