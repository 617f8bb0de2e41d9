"""A user's file that imports a name that a package of ours had before is told the new one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import testbed as package
from testbed.base import old_names
from testbed.base.errors import MissingToolError
from testbed.base.plugins import plugged
from testbed.topologies.build import build
from tests import own

from ..conftest import SPEC, Called

ARM = "topology: star(hosts=3), scheme: ps"
OLD = {name: name for name in old_names.NEW}
"""Names as they stand in the files below, which a script that renames imports leaves as they are."""
TOPOLOGIES, WORKLOADS, ANALYSIS = OLD.values()


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that a test imports by old names are of that test alone."""
    for name in OLD:
        monkeypatch.setitem(sys.modules, name, sys)  # so that it is put back
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("change", "files", "told"),
    [
        pytest.param(
            (ARM, "topology: ./mine.py:net, scheme: ps"),
            {"mine.py": f"from {TOPOLOGIES}.model import Topology\n"},
            "error: spec.yaml: arms.0: ./mine.py fails to run: mine.py imports 'topologies', which is called "
            "'testbed.topologies' now\n"
            "  fix: write testbed.topologies in place of topologies in line 1 of mine.py\n",
            id="topology",
        ),
        pytest.param(
            (ARM, "topology: star(hosts=3), scheme: ./mine.py:tree"),
            {"mine.py": f"import numpy\n\nimport {WORKLOADS}\n"},
            "error: spec.yaml: arms.0: ./mine.py fails to run: mine.py imports 'workloads', which is called "
            "'testbed.workloads' now\n"
            "  fix: write testbed.workloads in place of workloads in line 3 of mine.py\n",
            id="scheme",
        ),
        pytest.param(
            ("model: lenet5", "model: ./net.py:Net"),
            {"net.py": "import helper\n", "helper.py": f"def f():\n    from {ANALYSIS}.load import load\nf()\n"},
            "error: spec.yaml: workload.model: ./net.py fails to run: helper.py imports 'analysis', which is called "
            "'testbed.analysis' now\n"
            "  fix: write testbed.analysis in place of analysis in line 2 of helper.py\n",
            id="model",
        ),
    ],
)
def test_the_file_and_both_names_are_told(
    testbed: Callable[..., Called],
    spec_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, str],
    files: dict[str, str],
    told: str,
) -> None:
    own.in_this_process(monkeypatch)
    for name, text in files.items():
        (spec_file.parent / name).write_text(text)
    spec_file.write_text(SPEC.replace(*change))
    called = testbed("plan", "spec.yaml")
    assert (called.code, called.out, called.err) == (2, "", told)


@pytest.mark.lab
def test_a_script_is_told(testbed: Callable[..., Called], spec_file: Path) -> None:
    (spec_file.parent / "train.py").write_text(f"import {WORKLOADS}.job\n")
    workload = "workload: {kind: command, command: python train.py}\n"
    arms = "arms: [{topology: star(hosts=2)}]\nretries: 0\nquiet: 0 s\n"
    spec_file.write_text(f"links: {{rate: 200 Mbit/s}}\n{workload}{arms}")
    called = testbed("run", "spec.yaml", "--out", "out")
    assert called.code == 1
    assert (
        f"write testbed.workloads in place of workloads in line 1 of {spec_file.parent / 'train.py'}" in called.out
    ), called.out


def test_a_package_that_is_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugging.py").write_text(f"from {WORKLOADS}.kinds.base import Kind\n")
    info = tmp_path / "plugging-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: plugging\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[testbed.of_this_test]\nmine = plugging:KIND\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingToolError) as caught:
        plugged("of_this_test")
    place = tmp_path / "plugging.py"
    assert caught.value.problem == (
        "the entry point mine of testbed.of_this_test is plugging:KIND, which cannot be imported: "
        f"{place} imports 'workloads', which is called 'testbed.workloads' now"
    )
    assert caught.value.fix == f"write testbed.workloads in place of workloads in line 1 of {place}"


def test_a_module_of_the_users_is_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is not ours any more may be anybody's; also what it lacks is theirs to mend."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{TOPOLOGIES}.py").write_text("HOSTS = 3\n")
    made = "from testbed.topologies.star import star\ndef net(rate_bps, delay_s):\n"
    made += "    return star(rate_bps, delay_s, hosts=HOSTS)\n"
    (tmp_path / "mine.py").write_text(f"from {TOPOLOGIES} import HOSTS\n{made}")
    assert len(build("./mine.py:net", rate_bps=10**6).hosts) == 3
    (tmp_path / "other.py").write_text(f"from {TOPOLOGIES}.model import Topology\n{made}")
    with pytest.raises(package.errors.TopologyError, match=r"No module named 'topologies.model'.*is not a package"):
        build("./other.py:net", rate_bps=10**6)


def test_other_errors_are_not_taken_for_it() -> None:
    for error in (ModuleNotFoundError("x", name="numpyy"), ModuleNotFoundError("x"), ImportError("x", name=WORKLOADS)):
        assert old_names.in_error(error) is None


LOG = f"""\
loss 3.0
Traceback (most recent call last):
  File "/home/me/train.py", line 7, in <module>
    import helper
  File "/home/me/helper.py", line 12, in <module>
    from {ANALYSIS}.load import load
ModuleNotFoundError: No module named '{ANALYSIS}'
"""


@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_the_last_traceback_of_a_log_names_the_file(prefix: str) -> None:
    lines = [prefix + line for line in LOG.splitlines()]
    assert old_names.in_log(lines) == old_names.OldImport(ANALYSIS, "/home/me/helper.py", 12)
    assert old_names.in_log(lines[-1:]) is None
    assert old_names.in_log(LOG.replace(f"'{ANALYSIS}'", f"'{ANALYSIS}.load'").splitlines()) is None
    assert old_names.in_log(["nothing of the kind"]) is None
