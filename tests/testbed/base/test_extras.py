"""Commands that install optional packages, and none that could install somebody else's testbed."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import tomllib
from pathlib import Path
from shlex import split

import pytest

from testbed.base import extras
from testbed.base.extras import install

ROOT = Path(__file__).parents[3]
OPTIONAL = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", OPTIONAL)
def test_the_packages_of_an_extra_are_named(extra: str) -> None:
    first, second, *packages = split(install(extra))
    assert (first, second) == ("pip", "install")
    assert {_sorted(package) for package in packages} == {_sorted(package) for package in OPTIONAL[extra]}


def _sorted(requirement: str) -> tuple[str, ...]:
    """A requirement whatever the order of its bounds, which tools change."""
    name, bounds = re.fullmatch(r"([\w-]+)(.*)", requirement).groups()  # type: ignore[union-attr]
    return name.lower(), *sorted(bounds.split(","))


def test_the_pip_of_an_environment_that_is_not_activated_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``.venv/bin/testbed`` runs there, and ``pip`` in the same shell is the system's, which may refuse."""
    ours, theirs = tmp_path / "a clone/.venv/bin", tmp_path / "usr/bin"
    for folder in (ours, theirs):
        folder.mkdir(parents=True)
        for name in ("pip", "python"):
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
    monkeypatch.setattr("sys.executable", str(ours / "python"))
    monkeypatch.setenv("PATH", str(theirs))
    assert split(install("watch"))[:2] == [str(ours / "pip"), "install"]
    monkeypatch.chdir(ours.parents[1])
    assert extras.install_of("tornado").startswith(".venv/bin/pip install ")
    monkeypatch.setenv("PATH", f"{ours}:{theirs}")
    assert extras.pip() == "pip"
    (ours / "pip").unlink()
    assert split(extras.pip()) == [str(ours / "python"), "-m", "pip"]


def test_an_extra_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="there is no extra nothing"):
        install("nothing")


def test_a_checkout_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("testbed.base.extras.requires", missing)
    assert install("watch") == "pip install -e '.[watch]', in the checkout of testbed"


def test_nothing_asks_an_index_for_testbed() -> None:
    """Somebody else could have a package of that name there."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    asks = re.compile(r"pip install[^\n`#,]*?[\"' ]testbed(?:\[|[\"'`](?!s)|$)", re.MULTILINE)
    assert asks.search("pip install 'testbed[watch]'")
    assert asks.search("pip install testbed\n")
    found = []
    for name in filter(None, files.split("\0")):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".yaml", ".yml", ".sh", ".ipynb", ".toml"} and path != Path(__file__):
            found += [f"{name}: {match[0]}" for match in asks.finditer(path.read_text())]
    assert found == []
