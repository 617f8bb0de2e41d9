"""Which labs there are, and that nothing outside of a lab's folder knows them by name."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import testbed
from testbed.base.errors import UsageError
from testbed.base.plugins import plugged
from testbed.lab import BUILT_IN
from testbed.lab.choice import DEFAULT, built_in, of_inventory, opener, place_of, places
from tests.packages import commands, install, python
from tests.sources import parsed

ROOT = Path(testbed.__file__).parents[1]
LABS = ROOT / "testbed" / "lab"
EXCEPTIONS = {
    "testbed/cli/containers.py": "testbed image is a command about one lab",
    "testbed/cli/hosts.py": "testbed hosts is a command about one lab",
    "testbed/spread/ssh.py": "machines of --on ssh:// are in an inventory as that lab has one",
}
WORD = "machines"
"""Name of a lab that is also a word of its own, and is looked for only as the lab's."""
NAMED = re.compile(rf"\b({'|'.join(name for name in BUILT_IN if name != WORD)})\b|\blab[. ]{WORD}\b|\b{WORD}\.place\b")


def test_every_folder_with_a_place_is_a_lab() -> None:
    assert {path.parent.name for path in LABS.glob("*/place.py")} == set(BUILT_IN)
    assert list(built_in()) == list(BUILT_IN)
    assert all(place.name == name for name, place in places().items())
    assert DEFAULT in BUILT_IN


def test_no_line_outside_of_the_labs_names_one() -> None:
    modules = [*(ROOT / "testbed").rglob("*.py"), *(ROOT / "analysis").rglob("*.py")]
    outside = {str(path.relative_to(ROOT)): path for path in modules if LABS not in path.parents}
    assert len(outside) > 100
    found = parsed((path for name, path in outside.items() if name not in EXCEPTIONS), NAMED.pattern)
    assert [f"{path}:{line}" for path, tree in found for line in _naming(tree)] == []


def _naming(tree: ast.Module) -> Iterator[str]:
    """Lines in which an identifier, or text that is not a docstring, has a lab's name."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in documentation:
            for word in _words(node):
                if NAMED.search(word):
                    yield f"{getattr(node, 'lineno', '?')}: {word!r}"


def _words(node: ast.AST) -> list[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return [name]
        case ast.alias(name=name):
            return [name]
        case ast.ImportFrom(module=str(name)):
            return [name]
        case ast.keyword(arg=str(name)):
            return [name]
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
    return []


@pytest.mark.parametrize(
    "code",
    [
        "if lab == 'docker': pass",
        "import testbed.lab.netns",
        "f'the lab mininet {x}'",
        "run(docker=1)",
        "import testbed.lab.machines",
    ],
)
def test_a_line_that_names_a_lab_is_found(code: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(f'"""In netns."""\n{code}\n')
    ((_, tree),) = parsed([tmp_path / "bad.py"], NAMED.pattern)
    assert len(list(_naming(tree))) == 1


def test_an_unknown_lab_is_told_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="there is no lab 'nets'") as told:
        place_of("nets")
    assert told.value.fix == f"use one of: {', '.join(BUILT_IN)}"


def test_an_inventory_is_for_a_lab_that_takes_one() -> None:
    assert of_inventory(None) is place_of("baremetal")
    with pytest.raises(UsageError, match="--inventory is for the lab baremetal or machines, not docker"):
        of_inventory("docker")
    with pytest.raises(UsageError, match="the lab baremetal needs to know its hosts"):
        opener("baremetal")()


PAGE = ROOT / "docs" / "extend" / "lab.md"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The example of the page about labs, installed as far as entry points go."""
    files = dict(re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)```", PAGE.read_text(), re.M | re.S))
    assert list(files) == ["patient/place.py", "patient/lab.py", "pyproject.toml"]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    _install(tmp_path, tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]["testbed.labs"])
    return tmp_path


def _install(folder: Path, labs: dict[str, str]) -> None:
    install(folder, {"testbed.labs": labs})


def _python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return python(folder, *words, cwd=ROOT)


SPEC = """\
name: tiny
lab: patient
patient: {settle: 200 ms}
links: {rate: 200 Mbit/s}
workload: {kind: profile, model: lenet5, batch: 32, iterations: 3, compute: none}
arms: [{topology: star(hosts=2), scheme: ring}]
retries: 0
quiet: 0
"""


def test_a_lab_of_another_package_is_planned(example: Path) -> None:
    (example / "spec.yaml").write_text(SPEC)
    asked: tuple[tuple[str, ...], ...] = ((), ("--set", "patient.settle=2 min"), ("--backend", "pateint"))
    planned, too_long, misspelt = commands(example, *(("plan", "spec.yaml", *words) for words in asked))
    assert "1 trial in lab patient" in planned.out, planned.err
    assert too_long.err == "error: spec.yaml: patient: 120 s is too long to wait\n  fix: give a minute at most\n"
    assert "'pateint' is not one of: netns, mininet, docker, baremetal, machines, simulator, patient" in misspelt.err


def test_a_lab_of_another_package_has_limits_of_its_own(example: Path) -> None:
    (limits,) = re.findall(r"```python\n(from testbed.lab.limits.*?)```", PAGE.read_text(), re.S)
    with (example / "patient/place.py").open("a") as place:
        place.write(limits)
    (example / "spec.yaml").write_text(SPEC)
    asked = ("perturb=[{kind: rate, share: 0.1 %}]", "links.rate=2 Gbit/s")
    slow, fast = commands(example, *(("plan", "spec.yaml", "--set", one) for one in asked))
    assert "200 kbit/s cannot be emulated; the patient shaper does 1 Mbit/s to 1 Gbit/s" in slow.err
    assert "2 Gbit/s cannot be emulated; the patient shaper does 1 Mbit/s to 1 Gbit/s" in fast.err


@pytest.mark.lab
def test_a_lab_of_another_package_is_looked_at(example: Path) -> None:
    done = _python(example, "-m", "testbed", "doctor", "--json")
    found = {check["name"]: check for check in json.loads(done.stdout)}
    assert found["lab patient"]["ok"]
    assert found["lab patient"]["detail"] == "--backend patient: ready"


@pytest.mark.lab
def test_a_lab_of_another_package_runs_with_its_settings(example: Path) -> None:
    (example / "spec.yaml").write_text(SPEC)
    run = example / "run"
    done = _python(example, "-m", "testbed", "run", str(example / "spec.yaml"), "--out", str(run))
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "resolved.json").read_text())["patient"] == {"settle_s": 0.2}
    (lab,) = json.loads((run / "env.json").read_text())["lab"].values()
    assert (lab["lab"], lab["settle_s"]) == ("patient", 0.2)
    conditions = (
        "from pathlib import Path; from testbed.analysis.comparing.measured import read; "
        "print(read(Path({!r})).conditions)"
    )
    assert "'patient.settle_s': 0.2" in _python(example, "-c", conditions.format(str(run))).stdout


WHAT_RUNS_HAVE = """
import json
from pathlib import Path
from testbed.run_directory.resolved import resolved
from testbed.experiment.expand import first_trials
from testbed.spec import load
source = load(Path("experiments/quickstart.yaml"), ["workload.compute.pace={16: 0.3 s, 64: 0.8 s}"])
print(json.dumps([resolved(source), [trial.identity for trial in first_trials(source)]]))
"""


def test_installing_a_lab_changes_nothing_of_other_labs(
    example: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    without = tmp_path_factory.mktemp("without")
    assert _python(example, "-c", WHAT_RUNS_HAVE).stdout == _python(without, "-c", WHAT_RUNS_HAVE).stdout != ""


@pytest.fixture
def _forgotten() -> Iterator[None]:
    plugged.cache_clear()
    yield
    plugged.cache_clear()


@pytest.mark.usefixtures("_forgotten")
def test_what_is_no_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, {"round": "math:pi"})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=r"entry point round of testbed\.labs is 3\.14.*, not a DeclaredPlace"):
        places()


def test_a_lab_whose_settings_have_the_name_of_another_key_is_refused(tmp_path: Path) -> None:
    code = "from testbed.lab.docker.place import Containers\nfrom testbed.lab.place import DeclaredPlace\n"
    (tmp_path / "clash.py").write_text(f'{code}PLACE = DeclaredPlace("links", options=Containers)\n')
    _install(tmp_path, {"links": "clash:PLACE"})
    done = _python(tmp_path, "-m", "testbed", "plan", "experiments/quickstart.yaml")
    assert done.stderr.startswith("error: the lab links has settings, and a spec has a key links already\n")
