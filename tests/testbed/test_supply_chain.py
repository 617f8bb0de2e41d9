"""What is installed is what was locked; rights of the example workflow; and the tests that docs/threats.md names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = {
    "run": (),
    "test": ("dev", "mpi", "docker", "baremetal", "mininet", "plink", "collectives", "lightgbm", "docs", "chakra"),
}
"""Which extras each lock file has."""


def locked(name: str) -> dict[str, list[Requirement]]:
    """The requirements of a lock file by package, which may differ from one version of Python to another.

    Fails the test where one is not pinned or has no hash.
    """
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    found: dict[str, list[Requirement]] = {}
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        wanted, *hashes = line.split(" --hash=")
        assert hashes, line
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one.strip()) for one in hashes), line
        requirement = Requirement(wanted)
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), line
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files_hold_what_pyproject_asks_for_with_hashes(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for extra in LOCKS[name] for one in project["optional-dependencies"][extra]]
    found = locked(name)
    for wanted in map(Requirement, [*project["dependencies"], *extras]):
        if wanted.name == "torch":  # each index has another build
            assert "torch" not in found
            (pin,) = Requirement((ROOT / "requirements" / "torch.txt").read_text().strip()).specifier
            assert pin.operator == "=="
            assert wanted.specifier.contains(pin.version)
            continue
        pins = found[canonicalize_name(wanted.name)]
        assert all(wanted.specifier.contains(str(pin.specifier)[2:], prereleases=True) for pin in pins), wanted


@pytest.mark.parametrize("name", [*LOCKS, "tools", "decoders"])
def test_lock_files_name_no_index(name: str) -> None:
    assert locked(name)
    assert "://" not in (ROOT / "requirements" / f"{name}.txt").read_text()


def test_what_both_lock_files_have_has_one_version() -> None:
    run, test = locked("run"), locked("test")
    assert {name: [str(pin) for pin in pins] for name, pins in run.items()} == {
        name: [str(pin) for pin in test[name]] for name in run
    }


def test_set_up_takes_unhashed_only_what_it_says() -> None:
    text = (ROOT / "setup.sh").read_text()
    calls = re.findall(r"^.*pip install.*$", text, re.M)
    unhashed = [
        call for call in calls if "--require-hashes" not in call and "--no-deps --no-build-isolation" not in call
    ]
    allowed = ("oldest)", "torch)", "--dry-run", '--requirement <(echo "$wanted")')
    assert calls
    assert [call for call in unhashed if not any(word in call for word in allowed)] == []


def test_an_audit_without_a_network_says_so(tmp_path: Path) -> None:
    """In a copy whose pip-audit does as the real one without a network, and then as one that finds a fault."""
    (tmp_path / "requirements").mkdir()
    shutil.copy(ROOT / "requirements" / "audit.sh", tmp_path / "requirements")
    shutil.copy(ROOT / "requirements" / "torch.txt", tmp_path / "requirements")
    (tmp_path / "requirements" / "run.txt").write_text("numpy==2.0.0 ; python_version < '4' \\\n    --hash=sha256:0\n")
    tool = tmp_path / ".venv-tools" / "bin" / "pip-audit"
    tool.parent.mkdir(parents=True)
    asked = 'for last; do :; done; cat "$last" >asked; '

    def audit(script: str) -> subprocess.CompletedProcess[str]:
        tool.write_text(f"#!/bin/sh\n{asked}{script}\n")
        tool.chmod(0o755)
        return subprocess.run(
            ["requirements/audit.sh"], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
        )

    done = audit("echo 'no route to host' >&2; exit 1")
    assert done.returncode == 2
    assert "nothing is known of these versions" in done.stderr
    assert (tmp_path / "asked").read_text().splitlines() == ["numpy==2.0.0", "torch==2.13.0"]
    done = audit("echo 'numpy 2.0.0 FAULT-1'; exit 1")
    assert (done.returncode, done.stdout) == (1, "numpy 2.0.0 FAULT-1\n")
    assert audit("exit 0").returncode == 0


def test_the_example_workflow_has_few_rights_and_names_actions_by_commit() -> None:
    workflow = yaml.safe_load((ROOT / "docs" / "github-actions.yml").read_text())
    assert workflow["permissions"] == {}
    assert workflow[True] == "pull_request"  # YAML 1.1 reads "on" as a truth value
    for job in workflow["jobs"].values():
        assert job["permissions"] == {"contents": "read"}
        actions = [step for step in job["steps"] if "uses" in step]
        assert actions
        for step in actions:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]), step
            if step["uses"].startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    assert "secrets." not in str(workflow)


def test_each_threat_names_tests_that_exist_or_none() -> None:
    rows = re.findall(r"^\| (?!threat |---)(.*) \|$", (ROOT / "docs" / "threats.md").read_text(), re.M)
    assert rows
    for row in rows:
        threat, who, how, tests = row.split(" | ")
        assert all((threat, who, how)), row
        if tests != "-":
            files = re.findall(r"`([^`]*)`", tests)
            assert files, row
            assert all(file.startswith("tests/") and (ROOT / file).is_file() for file in files), row


def test_the_base_image_is_named_by_its_digest() -> None:
    bases = re.findall(r"^ARG BASE=(.*)$|^FROM (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert [one for pair in bases for one in pair if one][1:] == ["${BASE}"]
    assert re.fullmatch(r"python:[0-9.]+-slim-bookworm@sha256:[0-9a-f]{64}", bases[0][0])
