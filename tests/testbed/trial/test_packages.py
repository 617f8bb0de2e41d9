"""The code of installed packages as part of a trial's identity, with distributions that each test writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

import pytest

from testbed.base.errors import ChangedError, MissingToolError
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial import packages
from testbed.trial.inputs import check_unchanged
from testbed.trial.model import Trial
from testbed.trial.packages import Packages
from tests.packages import install

SPEC = """\
name: order
links: {rate: 100 Mbit/s}
workload: {kind: command, command: sleep 1}
arms: [{topology: star(hosts=2)}]
"""
CHECKS = "testbed.checks"
Plan = Callable[[], Trial]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packages are installed. They are looked for each time, as in processes of their own."""
    monkeypatch.setattr(packages, "entry_points", metadata.entry_points)
    monkeypatch.syspath_prepend(tmp_path / "site")
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


@pytest.fixture
def planned(tmp_path: Path) -> Plan:
    (tmp_path / "spec").mkdir()
    return lambda: trials(read(SPEC, "spec.yaml", tmp_path / "spec"))[0]


def add(folder: Path, files: Mapping[str, str], points: Mapping[str, str], group: str = CHECKS) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    install(folder, {group: points})


def test_a_package_that_no_trial_uses_changes_no_identity(folder: Path, planned: Plan) -> None:
    before = planned()
    add(folder, {"calm_gossip.py": ""}, {"gossip": "calm_gossip:KIND"}, "testbed.kinds")
    assert (planned().inputs, planned().identity) == (before.inputs, before.identity)


@pytest.mark.parametrize(
    ("group", "name"), [("kinds", "command"), ("workloads", "command"), ("labs", "netns"), ("checks", "any")]
)
def test_a_package_counts_by_the_names_that_a_trial_uses(folder: Path, planned: Plan, group: str, name: str) -> None:
    """The names are those of testbed's own, so that nothing has to be loaded."""
    trial = planned()
    add(folder, {"used_part.py": ""}, {name: "used_part:PART", "another": "used_other:PART"}, f"testbed.{group}")
    if group == "checks":
        (folder / "used_other.py").write_text("")
    found = Packages().of(trial)
    assert list(found)[-1] == "used_part of the package other"
    assert len(found) == (2 if group == "checks" else 1)


def test_its_code_its_version_and_its_whole_package_count(folder: Path, planned: Plan) -> None:
    files = {"patient/__init__.py": "", "patient/deep/look.py": "A = 1", "patient/notes.txt": "", "other.py": ""}
    add(folder, files, {"look": "patient.deep.look"})
    before = planned()
    (name,) = before.inputs
    assert (name, before.inputs[name][:4]) == ("patient of the package other", "1.0 ")
    for unseen in ("patient/notes.txt", "other.py"):
        (folder / unseen).write_text("more")
    (folder / "patient/__pycache__").mkdir()
    (folder / "patient/__pycache__/look.pyc").write_text("")
    assert planned().identity == before.identity

    (folder / "patient/deep/look.py").write_text("A = 2")
    changed = planned()
    assert changed.identity != before.identity
    (folder / "patient/deep/look.py").write_text("A = 1")
    metadata = folder / "other-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.0", "1.1"))
    assert planned().inputs == {name: before.inputs[name].replace("1.0", "1.1")}


def test_distributions_may_share_a_namespace(folder: Path, planned: Plan) -> None:
    add(folder, {"company_wide/look/__init__.py": "", "company_wide/strange.py": ""}, {"look": "company_wide.look"})
    before = planned()
    assert list(before.inputs) == ["company_wide.look of the package other"]
    (folder / "company_wide/strange.py").write_text("more")
    assert planned().identity == before.identity


def test_a_package_must_stay_as_it_is_while_the_run_goes_on(folder: Path, planned: Plan) -> None:
    add(folder, {"steady.py": ""}, {"look": "steady"})
    trial = planned()
    check_unchanged(trial)
    (folder / "steady.py").write_text("more")
    with pytest.raises(ChangedError, match=r"^steady of the package other was changed since the run began"):
        check_unchanged(trial)
    (folder / "steady.py").unlink()
    with pytest.raises(ChangedError, match="there is no module steady, as there was when the run began"):
        check_unchanged(trial)


def test_a_module_that_is_not_there_is_named(folder: Path, planned: Plan) -> None:
    install(folder, {CHECKS: {"lost": "no_such_module:ONE"}})
    with pytest.raises(MissingToolError, match=r"point lost of testbed\.checks is no_such_module:ONE, which cannot"):
        planned()
