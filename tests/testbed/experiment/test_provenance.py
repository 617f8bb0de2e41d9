"""What is said about the source tree that ran."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from testbed.base.errors import SpecError
from testbed.experiment import provenance
from testbed.experiment.provenance import PACKAGES, git
from testbed.spec import Source, read

from ..conftest import SPEC


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A committed tree with a file in each package."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text("x = 1\n")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "all"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def test_a_run_from_a_clone_tells_its_commit(source: Source, root: Path) -> None:
    if not (root / ".git").exists():
        pytest.skip("this tree is not a clone")
    told = provenance.describe(source.spec, "reno")["git"]
    assert told is not None
    assert len(told["commit"]) == 40


@pytest.mark.parametrize("package", PACKAGES)
def test_a_change_in_any_package_is_told(tree: Path, package: str) -> None:
    found = git(tree)
    assert found is not None
    assert (len(found["commit"]), found["dirty"]) == (40, False)
    (tree / "notes.txt").write_text("not code")
    assert git(tree) == found
    (tree / package / "code.py").write_text("x = 2\n")
    assert git(tree) == found | {"dirty": True}


def test_somebody_elses_tree_is_not_ours(tree: Path) -> None:
    """As when we are installed into a virtual environment that lies in a user's own repository."""
    inside = tree / ".venv" / "site-packages"
    for name in PACKAGES:
        (inside / name).mkdir(parents=True)
        (inside / name / "code.py").write_text("x = 1\n")
    assert git(inside) is None


def test_a_congestion_control_that_the_kernel_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "sysctl", lambda _: "reno cubic")
    spec = read(SPEC, "spec.yaml", Path(), ["links.congestion_control=dctcp"]).spec
    with pytest.raises(SpecError) as caught:
        provenance.congestion_control(spec)
    assert caught.value.problem == "links.congestion_control: 'dctcp' is not in this kernel, which has reno, cubic"
    assert caught.value.fix == "choose one of these, or as root: modprobe tcp_dctcp"
    monkeypatch.setattr(provenance, "sysctl", lambda _: "reno cubic dctcp")
    assert provenance.congestion_control(spec) == "dctcp"
