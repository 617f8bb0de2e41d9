"""Installed, from a clone or from a wheel, testbed takes one import name, and a user's files may have all others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from testbed.base.old_names import NEW

ROOT = Path(__file__).parents[2]
STATEMENT = re.compile(r"^[ \t]*(?:from|import) (\w+)", re.M)
FOLDERS = ("testbed", *NEW)
"""Of a clone, those that have code to install."""
SPEC = """\
links: {rate: 200 Mbit/s}
workload: {kind: command, command: python train.py}
arms: [{topology: star(hosts=2), scheme: ring}]
retries: 0
quiet: 0 s
"""
TRAIN = """\
import json, os, sys
from importlib import import_module

import torch
import torch.distributed as dist

import testbed

for name in ("analysis", "topologies.mine", "workloads"):
    assert import_module(name).OWNER == "user"
dist.init_process_group("gloo")
model = torch.nn.Linear(1000, 10)
for step in range(4):  # by hand: DDP and an optimizer would import for longer than all else takes
    model.weight.grad = None
    model(torch.randn(2, 1000)).sum().backward()
    dist.all_reduce(model.weight.grad)
    model.weight.data -= 0.01 * model.weight.grad
    testbed.mark()
print("SEEN", json.dumps([testbed.__file__, sys.path, os.environ["PYTHONPATH"]]), flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's project, in which modules are called as folders of ours: a file, a package, and a folder without an
    ``__init__.py``."""
    folder = tmp_path / "project"
    for name in ("analysis", "topologies"):
        (folder / name).mkdir(parents=True)
    for name in ("workloads.py", "analysis/__init__.py", "topologies/mine.py"):
        (folder / name).write_text("OWNER = 'user'\n")
    (folder / "spec.yaml").write_text(SPEC)
    (folder / "train.py").write_text(TRAIN)
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that a clone makes; it is made from a copy, so that nothing is written into this one."""
    clone, made = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("wheel")
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / name, clone / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    pip(sys.executable, "wheel", "--no-build-isolation", "--wheel-dir", str(made), str(clone))
    return next(made.glob("testbed-*.whl"))


@pytest.fixture(scope="session")
def wheel_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Python of a virtual environment with the wheel, which also sees the packages of this one, and not this clone."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    said = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True
    )
    # A clone's finder comes from a .pth file in that folder, which Python does not read there.
    Path(said.stdout.strip(), "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip(sys.executable, "--python", str(python), "install", "--ignore-installed", "--no-compile", str(wheel))
    return str(python)


def pip(python: str, *words: str) -> None:
    """Run pip without a network."""
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    place = 2 if words[0].startswith("-") else 0
    command = [python, "-m", "pip", *quiet, *words[: place + 1], "--no-deps", "--no-index", *words[place + 1 :]]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)


def called(python: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Testbed in a folder that is also in PYTHONPATH."""
    return subprocess.run(
        [python, "-P", "-m", "testbed", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def trained(python: str, folder: Path) -> Path:
    """Train the project's script under its scheme; the package ``testbed`` that it imported."""
    done = called(python, folder, "run", "spec.yaml", "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = (folder / "out" / "trials").glob("*.json")
    assert json.loads(record.read_text())["metrics"]["gst_median_s"] > 0  # its sums went along the scheme's trees
    (log,) = (folder / "out").rglob("h0.log")
    (line,) = (line for line in log.read_text().splitlines() if line.startswith("SEEN "))
    file, path, given = json.loads(line.removeprefix("SEEN "))
    assert str(ROOT) not in path
    assert given == str(folder)
    return Path(file).parent


@pytest.mark.rehearse
@pytest.mark.lab
def test_a_clone_trains_a_script_beside_modules_that_are_called_as_its_folders(folder: Path) -> None:
    assert trained(sys.executable, folder) == ROOT / "testbed"


@pytest.mark.rehearse
@pytest.mark.lab
def test_a_wheel_does(folder: Path, wheel_python: str) -> None:
    assert trained(wheel_python, folder).parent.name == "site-packages"


def test_a_wheel_has_one_import_name_and_each_file_once(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    code = [name for name in names if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in code} == {"testbed"}
    assert {name for name in code if name.endswith((".py", ".typed"))} == set(map(_installed_as, _sources()))
    assert len(code) == len(set(code))
    templates = [path for name in FOLDERS for path in (ROOT / name).rglob("templates/*") if path.is_file()]
    assert {_installed_as(path.relative_to(ROOT)) for path in templates} <= {*code}


def test_this_installation_has_one_import_name() -> None:
    assert [name for name, of in metadata.packages_distributions().items() if "testbed" in of] == ["testbed"]


def test_entry_points_are_in_the_package() -> None:
    points = metadata.distribution("testbed").entry_points
    assert {point.name: point.module for point in points if point.group == "torch.backends"} == {
        "testbed": "testbed.autoload"
    }
    assert {point.module.split(".")[0] for point in points} == {"testbed"}


def test_nothing_imports_an_old_name() -> None:
    """A clone's folders would be found by them where its root is on the path."""
    others = [path for name in ("tests", "benchmarks", "experiments", "docs") for path in (ROOT / name).rglob("*.py")]
    paths = [*map(ROOT.joinpath, _sources()), *others]
    assert len(paths) > 1400
    bad = [f"{path.relative_to(ROOT)}: {name}" for path in paths for name in _imported(path) if name in NEW]
    assert bad == []


def _sources() -> Iterator[Path]:
    """Files with code, as they lie in the clone; a walk does not follow the links in ``testbed/``."""
    for name in FOLDERS:
        yield from (path.relative_to(ROOT) for path in (ROOT / name).rglob("*.py"))
    yield Path("testbed/py.typed")


def _installed_as(path: Path) -> str:
    return f"testbed/{path}" if path.parts[0] in NEW else str(path)


def _imported(path: Path) -> Iterator[str]:
    """Top-level names that lines of a file import; to parse all files takes many seconds."""
    yield from STATEMENT.findall(path.read_text())
