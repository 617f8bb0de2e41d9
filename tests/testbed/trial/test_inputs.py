"""The files that a trial's result depends on: what is changed in them makes another trial, and nothing else does."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.base.errors import ChangedError, SpecError, TrialError
from testbed.evidence.referee import Referee
from testbed.execution.execute import execute
from testbed.execution.place import InLab
from testbed.experiment.expand import trials
from testbed.run_directory.layout import LOCK, MADE
from testbed.spec import read
from testbed.spec.workload.command import Command
from testbed.trial import inputs
from testbed.trial.inputs import Inputs, check_unchanged, differing, matcher
from testbed.trial.model import Trial

from ..conftest import PROFILE
from ..fake_lab import FakeLab

SPEC = """\
name: order
links: {rate: 100 Mbit/s}
workload: {kind: command, command: COMMAND}
arms: [{topology: star(hosts=2)}]
"""
FILES = {
    "train.py": "import model",
    "model/net.py": "LAYERS = 3",
    "data.csv": "1,2",
    "run.sh": "python train.py",
    "train": "#!/bin/sh",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a spec's directory holds."""
    for name, text in FILES.items():
        write(tmp_path / "spec" / name, text)
        (tmp_path / "spec" / name).chmod(0o755)
    return tmp_path / "spec"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def planned(folder: Path, command: str = "python train.py", names: str | None = None) -> Trial:
    text = SPEC.replace("COMMAND", f"{command!r}" + (f", inputs: {names}" if names else ""))
    return trials(read(text, "spec.yaml", folder))[0]


def seen(folder: Path, *arguments: str) -> set[str]:
    """The files whose content makes another trial of a command."""
    before = planned(folder, *arguments).identity
    assert planned(folder, *arguments).identity == before
    found = set()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            text = path.read_text()
            path.write_text(f"{text} ")
            if planned(folder, *arguments).identity != before:
                found.add(str(path.relative_to(folder)))
            path.write_text(text)
    return found


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["python train.py"], {"train.py", "model/net.py"}),
        (["./run.sh --fast"], {"train.py", "model/net.py", "run.sh"}),
        (["bash run.sh data.csv"], {"train.py", "model/net.py", "run.sh"}),
        (["bash train"], {"train.py", "model/net.py", "train"}),
        (["python -u train.py", "[]"], {"train.py"}),
        (["python -u train.py", "data.csv"], {"train.py", "data.csv"}),
        (["./train", "['**/net.py', './data.*']"], {"train", "model/net.py", "data.csv"}),
        (["python -m model.net", "'model/*.py'"], {"model/net.py"}),
        (["sleep 1", "[spec/../run.sh]"], {"run.sh"}),
    ],
)
def test_what_a_command_depends_on(folder: Path, arguments: list[str], wanted: set[str]) -> None:
    (folder / "spec").mkdir()
    assert seen(folder, *arguments) == wanted


def test_a_file_more_or_less_is_another_trial(folder: Path) -> None:
    before = planned(folder).identity
    write(folder / "late.py", "")
    assert planned(folder).identity != before
    (folder / "late.py").unlink()
    (folder / "model" / "net.py").rename(folder / "model" / "web.py")
    assert planned(folder).identity != before


def test_what_runs_leave_is_of_no_concern(folder: Path) -> None:
    before = planned(folder)
    for name in (
        "__pycache__/a.py",
        ".venv/lib/b.py",
        "env/lib/site-packages/c.py",
        "env2/lib/d.py",
        "env2/pyvenv.cfg",
    ):
        write(folder / name, "")
    for run, mark in (("runs/order-1", MADE), ("out", LOCK)):
        write(folder / run / mark, "")
        write(folder / run / "work" / "order" / "made.py", "")
        write(folder / run / "logs" / "order" / "h0.log", "")
    write(folder / "results.txt", "")
    assert (planned(folder).inputs, planned(folder).identity) == (before.inputs, before.identity)


def test_no_link_is_followed_out_of_the_folder(folder: Path) -> None:
    """Where it leads is seen, and what is there is not, unless somebody names it."""
    others = folder.parent / "others"
    write(others / "lib.py", "1")
    (folder / "lib.py").symlink_to("../others/lib.py")
    (folder / "libs").symlink_to("../others")
    assert set(planned(folder).inputs) == {"train.py", "model/net.py", "lib.py"}
    before, named = planned(folder).identity, planned(folder, names="[lib.py]").identity
    write(others / "lib.py", "2")
    assert planned(folder).identity == before
    assert planned(folder, names="[lib.py]").identity != named
    (folder / "lib.py").unlink()
    (folder / "lib.py").symlink_to("../others/none.py")
    assert planned(folder).identity != before


def test_a_link_to_a_program_is_not_read(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    assert "bin/python" not in planned(folder, "bin/python train.py").inputs


@pytest.mark.parametrize(
    ("limit", "most", "names", "told"),
    [
        ("MOST_FILES", 1, None, "more than 1 files in HERE would have to be read"),
        ("MOST_FILES", 1, "[data.csv]", "more than 1 files in HERE would have to be read"),
        ("MOST_ENTRIES", 4, None, "HERE holds more than 4 files and directories"),
        ("MOST_BYTES", 15, None, "model/net.py and the files before it in HERE have more than 0 MiB"),
    ],
)
def test_what_would_be_too_much_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, names: str | None, told: str
) -> None:
    planned(folder, names=names)
    monkeypatch.setattr(inputs, limit, most)
    with pytest.raises(SpecError) as error:
        planned(folder, names=names)
    assert error.value.problem.replace(str(folder), "HERE") == f"spec.yaml: workload.inputs: {told}"
    assert error.value.fix == "name what the command depends on: inputs: [train.py, 'model/*.py']"


@pytest.mark.parametrize("names", ["train.pyy", "model", "'**/*.pyx'", "'../spec/*.py'", "'/proc/*'"])
def test_what_is_named_and_not_there_is_refused(folder: Path, names: str) -> None:
    with pytest.raises(SpecError, match=r"workload\.inputs: (there is )?no file ") as error:
        planned(folder, names=names)
    assert error.value.fix is not None


def test_words_that_no_file_can_be_called_are_no_scripts(folder: Path) -> None:
    work = Command(kind="command", command=["./" + "x" * 5000, "y" * 5000 + ".py", "no\0file.py"])
    assert set(Inputs(folder).of_program(work.program)) == {"train.py", "model/net.py"}


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"workload\.inputs: .*absent.* cannot be read: no such file or directory"):
        planned(tmp_path / "absent", "sleep 1")


OWN = (
    PROFILE.replace("star(hosts=5), scheme: ring", "./own/net.py:net, scheme: ./own/tree.py:ring")
    + "perturb: [{kind: trace, file: slow.csv}]\n"
)


@pytest.mark.parametrize("name", ["own/net.py", "own/tree.py", "slow.csv"])
def test_files_that_any_spec_names_count(tmp_path: Path, name: str) -> None:
    write(tmp_path / "own" / "net.py", "from testbed.topologies.star import star\ndef net(rate_bps, delay_s):\n")
    with (tmp_path / "own" / "net.py").open("a") as file:
        file.write("    return star(rate_bps=rate_bps, delay_s=delay_s, hosts=5)\n")
    write(tmp_path / "own" / "tree.py", "from testbed.workloads.sync.schemes.ring import ring\n")
    write(tmp_path / "slow.csv", "worker,iteration,slowdown\nh0,1,2\n")

    def plan() -> Trial:
        return trials(read(OWN, "spec.yaml", tmp_path))[0]

    before = plan()
    assert set(before.inputs) == {"own/net.py", "own/tree.py", "slow.csv"}
    with (tmp_path / name).open("a") as file:
        file.write("\n" if name != "slow.csv" else "h0,99,2\n")  # an iteration that never comes
    assert plan().identity != before.identity
    if name == "slow.csv":
        with pytest.raises(ChangedError, match=r"^slow\.csv was changed since the run began\n"):
            check_unchanged(before)
    else:
        check_unchanged(before)  # the forest is made, and nobody reads them again


def test_a_script_must_stay_as_it_is_while_the_run_goes_on(folder: Path) -> None:
    trial = planned(folder)
    check_unchanged(trial)
    write(folder / "train.py", "import model, time")
    write(folder / "more.py", "")
    (folder / "model" / "net.py").unlink()
    with pytest.raises(ChangedError) as error:
        check_unchanged(trial)
    assert error.value.problem == (
        "train.py was changed, model/net.py was removed, more.py was added since the run began"
    )
    fix = "undo that and go on with --resume, or run into a new directory; workload.inputs says which files count"
    assert error.value.fix == fix


def test_a_trial_whose_script_was_changed_is_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows with which script its ranks began; so it leaves no record, and the run ends."""
    trial, lab = planned(folder), FakeLab()

    def edited(*_: object) -> None:
        write(folder / "train.py", "import time")
        raise TrialError("a rank failed")

    monkeypatch.setattr("testbed.execution.place.observe", edited)
    for _ in range(2):  # while it runs, then before
        with Referee() as referee, pytest.raises(ChangedError, match=r"^train\.py was changed since the run began"):
            execute(trial, InLab(lab), referee, tmp_path, "reno", lambda *_: None)
    assert not lab.notes


def test_only_some_of_many_differences_are_told() -> None:
    assert differing({"a": "1"}, {"a": "1"}) == ""
    assert differing(dict.fromkeys("abcde", "1"), {}) == ("a was removed, b was removed, c was removed and 2 more")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py"], ["b/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "b/a.py", "b/c/a.py"], ["a.txt"]),
        ("b/**", ["b/a", "b/c/a"], ["a", "c/b/a"]),
        ("**/b/**/a.*", ["b/a.x", "c/b/d/e/a.x"], ["a.x", "b/a/c"]),
        ("./[ab]?.py", ["a1.py", "b2.py"], ["c1.py", "a.py"]),
        ("/".join(["**", "*"] * 30), ["/".join("x" * 30)], ["/".join("x" * 29)]),
    ],
)
def test_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    matches: Callable[[str], bool] = matcher(pattern)
    assert [name for name in (*yes, *no) if matches(name)] == yes


def test_another_process_finds_the_same(folder: Path) -> None:
    write(folder / "spec.yaml", SPEC.replace("COMMAND", "python train.py"))
    code = (
        "from pathlib import Path; from testbed.spec import load; from testbed.experiment.expand import trials\n"
        "print(trials(load(Path('spec.yaml')))[0].identity)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).parents[3])}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == planned(folder).identity


def test_a_network_in_a_file_is_an_input(folder: Path) -> None:
    text = SPEC.replace("star(hosts=2)", "net.gml").replace("COMMAND", "'true'")
    write(
        folder / "net.gml",
        "graph [ node [id 0] node [id 1] node [id 2] edge [source 0 target 1] edge [source 1 target 2] ]",
    )
    first = trials(read(text, "spec.yaml", folder))[0]
    assert "net.gml" in first.inputs
    write(folder / "net.gml", "graph [ node [id 0] node [id 1] edge [source 0 target 1] ]")
    assert trials(read(text, "spec.yaml", folder))[0].identity != first.identity


def test_what_vanishes_while_the_folder_is_read_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "cache/deep/a.py", "A = 1")
    write(folder / "gone.py", "B = 1")
    look = os.scandir

    def scandir(path: Path | int) -> object:
        if isinstance(path, Path) and path.name == "cache":
            found = list(look(path))
            shutil.rmtree(folder / "cache/deep")
            (folder / "gone.py").unlink()
            return contextlib.nullcontext(found)
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    work = Command(kind="command", command=["python", "train.py"])
    assert set(Inputs(folder).of_program(work.program)) == {"train.py", "model/net.py"}
