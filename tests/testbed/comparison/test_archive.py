"""A run in one file for somebody else, who reads it, and runs it again with the README's one command."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tarfile
from collections.abc import Callable
from contextlib import chdir
from fcntl import LOCK_EX, flock
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from testbed.base import exits
from testbed.comparison.archive import archive, crate, named_files, requirements
from testbed.comparison.archive import readme as pages
from testbed.experiment.expand import trials
from testbed.experiment.run import Experiment
from testbed.experiment.runner import Here
from testbed.spec import load

from ..conftest import SPEC, Called
from ..fake_lab import FakeLab
from ..runner import Ran, go
from ..spec.test_bad_input import GOLDEN, check

Made = Callable[..., Ran]
TREE = Path(__file__).parents[3] / "experiments" / "own" / "tree.py"
OWN = SPEC.replace("scheme: ring", "scheme: './tree.py:tree(fanout=2)'")
PLAYED = """\
links: {rate: 1 Gbit/s}
certify: 90 %  # how busy this machine is must not decide
workload: {kind: profile, model: lenet5, batch: 16, iterations: 3, scale: 10, compute: none}
arms:
  - {label: own, topology: star(hosts=3), scheme: './tree.py:tree(fanout=2)'}
retries: 0
quiet: 0 s
"""
SCRIPT = """\
links: {rate: 1 Gbit/s}
workload: {kind: command, command: python train.py}
arms: [{topology: star(hosts=2), scheme: ring}]
quiet: 0 s
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a spec and the scheme that it names."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "mine.yaml").write_text(OWN.replace("name: small\n", ""))
    shutil.copy(TREE, folder)
    return folder


def run_in(folder: Path, *overrides: str, name: str = "run") -> Path:
    """A run of the folder's spec, made up."""
    with chdir(folder):
        go(Experiment.new(load(Path("mine.yaml"), overrides), Path(name), partial(Here, FakeLab)))
    return folder / name


def unpacked(path: Path, into: Path) -> Path:
    """The archive's folder, extracted without what its members must not do."""
    with tarfile.open(path) as tar:
        tar.extractall(into, filter="data")
    (folder,) = into.iterdir()
    return folder


def command_of(folder: Path) -> str:
    """The one command of its README that runs it again."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (folder / "README.md").read_text(), re.M | re.S)
    (command,) = [block.strip() for block in blocks if block.startswith("testbed run")]
    return re.sub(r" \\\n +", " ", command)


def test_it_holds_what_was_measured_and_what_that_depended_on(made_up: Made, home: Path, tmp_path: Path) -> None:
    made_up()
    run = run_in(home)
    waited = {"most_bytes": 10**6, "mean_bytes": 10.0**6, "full_share": 0.0, "drops": 0, "marks": 0}
    table = pd.DataFrame({"link": [0, 1], "start_s": [0.0, 1.0], "window_s": 1.0, **waited})
    table.to_parquet(run / "queues" / "PS-b2.parquet", index=False)
    (run / "logs" / "secret.log").write_text("printed")
    (run / "notes.txt").write_text("of the user")
    made = archive(run)
    assert made.path == home / "run.tar.gz"
    assert (made.done, made.planned, made.files, made.lacking) == (2, 2, ["spec/tree.py"], {})
    folder = unpacked(made.path, tmp_path / "there")
    assert folder.name == "run"
    trials = sorted(path.stem for path in (run / "trials").iterdir())
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        *("README.md", "report.html", "requirements.txt", "ro-crate-metadata.json"),
        *("run/env.json", "run/queues/PS-b2.parquet", "run/resolved.json", "run/results.csv"),
        *(f"run/samples/{trial}.parquet" for trial in trials),
        "run/spec.yaml",
        *(f"run/trials/{trial}.json" for trial in trials),
        *("spec/mine.yaml", "spec/tree.py"),
    ]
    assert (folder / "spec" / "mine.yaml").read_bytes() == (home / "mine.yaml").read_bytes()
    assert json.loads((folder / "run" / "resolved.json").read_text())["folder"] == "spec"
    assert not [path for path in folder.rglob("*") if path.is_file() and str(tmp_path).encode() in path.read_bytes()]
    readme = (folder / "README.md").read_text()
    assert "2 of 2 trials are finished: 2 VALID. [`report.html`]" in readme
    assert re.findall(r"^\| `(run/.*?)` \|", readme, re.M) == [
        *("run/trials/", "run/samples/", "run/queues/"),
        *("run/results.csv", "run/spec.yaml", "run/resolved.json", "run/env.json"),
    ]


def test_the_readme_has_a_word_on_all_that_an_archive_may_have() -> None:
    known = [
        *(f"{folder}/" for folder in named_files.TRIALS),
        *named_files.FILES,
        named_files.MADE,
        f"{named_files.RERUN}/",
    ]
    assert not [name for name in known if not name.startswith(tuple(pages.KEPT))]


def test_the_same_run_gives_the_same_bytes(made_up: Made, home: Path, tmp_path: Path) -> None:
    made_up()
    run = run_in(home)
    first = archive(run, tmp_path / "a.tar.gz").path.read_bytes()
    for path in run.rglob("*"):
        os.utime(path, (0, 0))
        path.chmod(0o700)
    (tmp_path / "elsewhere").mkdir()
    before = os.umask(0o077)
    try:
        assert archive(run, tmp_path / "elsewhere" / "a.tar.gz").path.read_bytes() == first
    finally:
        os.umask(before)


def test_files_are_taken_only_if_they_are_what_the_run_says(made_up: Made, home: Path, tmp_path: Path) -> None:
    """Whoever made the run directory may have written another folder into it, and names of files there."""
    made_up()
    run = run_in(home)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    (secret / "tree.py").symlink_to(TREE)
    _change(run / "resolved.json", folder=str(secret))
    inputs = {"key": "0" * 16, "tree.py": _inputs(run)["tree.py"], "../up.py": "0" * 16, "/etc/passwd": "0" * 16}
    for path in (run / "trials").iterdir():
        _change(path, inputs=inputs)
    made = archive(run)
    assert made.files == []
    assert made.lacking == {
        "../up.py": "is outside of the spec's folder",
        "/etc/passwd": "is outside of the spec's folder",
        "key": "was changed since the run",
        "tree.py": "is a symbolic link, or in one, and links are not followed there",
    }
    readme = (unpacked(made.path, tmp_path / "there") / "README.md").read_text()
    assert "- `key`: was changed since the run\n" in readme


def test_data_of_the_users_own_is_in_it_if_asked_for(made_up: Made, home: Path) -> None:
    made_up()
    run = run_in(home)
    tree = _inputs(run)["tree.py"]
    for path in (run / "trials").iterdir():
        names = (
            "./data.py:digits, samples",
            "./net.py:Net, initial weights",
            "corpus ./words.txt",
            "corpus python_reference",
        )
        _change(path, inputs=dict.fromkeys(names, "0" * 16) | {"tree.py": tree})
    (home / "data.py").write_text("digits = ...\n")
    (home / "words.txt").write_text("1 2 3\n")
    assert list(archive(run, home / "a.tar.gz").lacking) == ["./data.py:digits", "./words.txt"]
    made = archive(run, home / "b.tar.gz", ["./data.py", "words.txt"])
    assert (made.files, made.lacking) == (["spec/data.py", "spec/tree.py", "spec/words.txt"], {})


def test_of_a_script_the_files_that_it_imports_are_in_it(
    made_up: Made, home: Path, testbed: Callable[..., Called]
) -> None:
    """And the command says which these are, and that there are others."""
    made_up()
    (home / "mine.yaml").write_text(SCRIPT)
    (home / "train.py").write_text("import net\n")
    for name in ("net.py", "private/diary.py", "private/letters.py"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).touch()
    run = run_in(home)
    done = testbed("archive", "home/run")
    assert (done.code, done.err) == (exits.OK, "")
    assert done.out.splitlines()[1:] == [
        f"packed 2 files of {home}: spec/net.py, spec/train.py",
        "not in it: 3 Python files there that the script does not import "
        "(private/diary.py, private/letters.py, tree.py)",
        "  if it loads one of them in another way, add it: --with NAME",
        "archive: home/run.tar.gz",
    ]
    made = archive(run, home / "b.tar.gz", ["tree.py"])
    assert made.files == ["spec/net.py", "spec/train.py", "spec/tree.py"]
    assert made.unused == ["private/diary.py", "private/letters.py"]


def test_of_a_script_with_inputs_these_are_in_it(made_up: Made, home: Path) -> None:
    made_up()
    (home / "mine.yaml").write_text(SCRIPT.replace("train.py}", "train.py, inputs: [tree.py]}"))
    (home / "train.py").write_text("import net\n")
    (home / "net.py").touch()
    made = archive(run_in(home))
    assert (made.files, made.unused) == (["spec/train.py", "spec/tree.py"], [])


def test_an_unfinished_run_says_so(made_up: Made, home: Path, testbed: Callable[..., Called], tmp_path: Path) -> None:
    made_up(stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        run_in(home)
    done = testbed("archive", "home/run")
    assert (done.code, done.err) == (exits.OK, "")
    assert re.fullmatch(
        r"1 of 2 trials, [\d.]+ \w+\n"
        r"the run is not finished, and the archive's README says so; go on with:\n"
        r"  testbed run --resume home/run\n"
        r"not in it: tree.py: no trial that ran tells its content; add it: --with NAME\n"
        r"archive: home/run.tar.gz\n",
        done.out,
    )
    folder = unpacked(home / "run.tar.gz", tmp_path / "there")
    assert "1 of 2 trials are finished: 1 VALID. **The run was not finished.**" in (folder / "README.md").read_text()
    assert "--only" not in command_of(folder)


def test_rounds_that_were_added_are_no_more_trials_than_there_are(
    made_up: Made, home: Path, testbed: Callable[..., Called], tmp_path: Path
) -> None:
    """As a baseline and ``repeats: {until: 3 %}`` add them: ``69 of 36 trials``."""
    made_up()
    run = run_in(home)
    _change(run / "resolved.json", repeats={"until": 0.03, "least": 1, "most": 2}, planned=1)
    assert testbed("archive", "home/run").out.startswith("2 of 2 trials, ")
    folder = unpacked(home / "run.tar.gz", tmp_path / "there")
    assert "2 of 2 trials are finished: 2 VALID. [`report.html`]" in (folder / "README.md").read_text()


def test_a_run_without_valid_trials_is_not_compared(made_up: Made, home: Path, tmp_path: Path) -> None:
    made_up()
    run = run_in(home)
    for path in (run / "trials").iterdir():
        record = json.loads(path.read_text())
        _change(path, fidelity=record["fidelity"] | {"verdict": "INVALID", "numbers": {}})
    folder = unpacked(archive(run).path, tmp_path / "there")
    assert not {"--baseline", "--allow"} & set(command_of(folder).split())
    readme = (folder / "README.md").read_text()
    assert "No trial of this run is VALID, and only VALID ones are compared:\n`testbed report run again" in readme
    assert "calls them\ninconclusive" not in readme


def test_the_command_repeats_what_this_run_did(made_up: Made, home: Path, tmp_path: Path) -> None:
    """Changed settings, what was chosen for this machine, a selection, and as many repeats."""
    (home / "mine.yaml").write_text(OWN.replace("compute: none", "compute: {mode: paced, pace: fit}"))
    made_up()
    source = load(home / "mine.yaml", ["links.rate=50 Mbit/s"]).paced({2: 0.25})
    only = {trial.id for trial in trials(source) if trial.label == "PS"}
    go(Experiment.new(source, home / "run", partial(Here, FakeLab), only=lambda _: only))
    command = command_of(unpacked(archive(home / "run").path, tmp_path / "there"))
    assert command.startswith(
        "testbed run spec/small.yaml --set 'links.rate=50 Mbit/s' --set 'workload.compute.pace={2: 0.25 s}' "
        "--set repeats=1 --only PS-b2 --baseline run --allow kernel --allow machine --allow cpu"
    )
    assert command.endswith(" --out again")


def test_versions_are_those_of_the_lock_file_if_the_run_had_these(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    locked = (
        "numpy==2.4.1 \\\n    --hash=sha256:00\nscipy==1.17.0 ; python_version >= '3.12' \\\n    --hash=sha256:11\n"
    )
    (tmp_path / "requirements" / "run.txt").write_text(locked)
    packages = {"NumPy": "2.4.1", "torch": "2.13.0+cpu", "testbed": "0.1.0"}
    same = requirements.text({"packages": packages}, tmp_path)
    assert same.endswith(locked)
    assert "PyTorch, 2.13.0+cpu, which set-up installs" in same
    other = requirements.text({"packages": packages | {"numpy": "2.0.0", "x; rm": "1", "y": "1\n"}}, tmp_path)
    assert other.splitlines()[1:] == ["numpy==2.0.0", "torch==2.13.0+cpu"]
    merged = {"parts": {"a": {"packages": packages}, "b": {"packages": {}}}}
    assert requirements.text(merged, tmp_path / "absent").splitlines()[1:] == ["numpy==2.4.1", "torch==2.13.0+cpu"]


def test_programs_find_every_file_in_its_metadata(made_up: Made, home: Path, tmp_path: Path) -> None:
    made_up()
    folder = unpacked(archive(run_in(home)).path, tmp_path / "there")
    graph = {entity["@id"]: entity for entity in json.loads((folder / crate.NAME).read_text())["@graph"]}
    assert graph[crate.NAME]["about"] == {"@id": "./"}
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    del files[crate.NAME]
    assert {part["@id"] for part in graph["./"]["hasPart"]} == files.keys()
    assert {name: int(graph[name]["contentSize"]) for name in files} == {
        name: path.stat().st_size for name, path in files.items()
    }
    assert re.match(r"20\d\d-", graph["./"]["datePublished"]) or graph["./"]["datePublished"].startswith("1970-")


CALLS = {
    "absent": ["absent"],
    "no_run": ["empty"],
    "out_is_there": ["home/run", "--out", "there.tar.gz"],
    "out_within_the_run": ["home/run", "--out", "home/run/mine.tar.gz"],
    "out_within_the_run_by_a_link": ["home/run", "--out", "link/mine.tar.gz"],
    "out_of_another_kind": ["home/run", "--out", "q.zip"],
    "out_into_nowhere": ["home/run", "--out", "absent/mine.tar.gz"],
    "being_written": ["busy"],
    "with_a_file_outside": ["home/run", "--with", "../empty"],
    "with_an_absent_file": ["home/run", "--with", "data.npz"],
    "samples_that_are_a_link": ["linked"],
    "damaged": ["damaged"],
}


@pytest.fixture
def files(made_up: Made, home: Path, tmp_path: Path) -> Path:
    made_up()
    run = run_in(home)
    for name in ("busy", "linked", "damaged"):
        shutil.copytree(run, tmp_path / name)
    (tmp_path / "busy" / ".lock").write_text("4242\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "there.tar.gz").write_text("mine")
    (tmp_path / "link").symlink_to(run)
    samples = tmp_path / "linked" / "samples" / "PS-b2.parquet"
    samples.unlink()
    samples.symlink_to("/etc/passwd")
    (tmp_path / "damaged" / "trials" / "PS-b2.json").write_text("{")
    return tmp_path


@pytest.mark.parametrize("name", CALLS)
def test_an_archive_that_cannot_be(name: str, testbed: Callable[..., Called], files: Path) -> None:
    before = sorted(files.rglob("*"))
    with (files / "busy" / ".lock").open("r") as lock:
        flock(lock, LOCK_EX)
        called = testbed("archive", *CALLS[name])
    check(f"archive/{name}", called)
    assert called.code == exits.BAD_SPEC_OR_USAGE
    assert sorted(files.rglob("*")) == before
    assert (files / "there.tar.gz").read_text() == "mine"


def test_every_golden_text_belongs_to_a_case() -> None:
    assert {path.stem for path in (GOLDEN / "archive").glob("*.txt")} == CALLS.keys()


@pytest.mark.usefixtures("ideal")
def test_somebody_else_reads_it_and_runs_it_again(testbed: Callable[..., Called], tmp_path: Path) -> None:
    """With nothing but the archive, by the commands of its README."""
    home, there = tmp_path / "home", tmp_path / "there"
    home.mkdir()
    (home / "mine.yaml").write_text(PLAYED)
    shutil.copy(TREE, home)

    def call(command: str, folder: Path) -> Called:
        _, *words = shlex.split(command.replace("\\\n", " "), comments=True)
        return testbed(*words, folder=folder)

    first = call("testbed run mine.yaml --out run --set links.rate='2 Gbit/s'", home)
    assert first.code == exits.OK, first.err
    assert call("testbed archive run", home).out.endswith("archive: run.tar.gz\n")
    shutil.move(home / "run.tar.gz", tmp_path)
    shutil.rmtree(home)
    folder = unpacked(tmp_path / "run.tar.gz", there)
    blocks = re.findall(r"^```sh\n(.*?)^```$", (folder / "README.md").read_text(), re.M | re.S)
    assert [block.split()[1] for block in blocks] == ["report", "run"]
    again_page, again_run = (call(block, folder) for block in blocks)
    assert (again_page.code, again_page.err) == (exits.OK, "")
    assert (folder / "report-again.html").read_bytes() == (folder / "report.html").read_bytes()
    assert again_run.code == exits.UNDECIDED, again_run.err  # one repeat decides nothing
    assert re.search(r"^own\s.*\sGST\s", again_run.out, re.M), again_run.out
    assert (folder / "again" / "comparison.json").is_file()
    assert json.loads((folder / "again" / "resolved.json").read_text())["links"]["rate_bps"] == 2_000_000_000
    assert call("testbed compare run again --metric gst", folder).code == exits.UNDECIDED


def test_numbers_of_a_simulator_are_shown_side_by_side(testbed: Callable[..., Called], home: Path) -> None:
    """As no comparison counts them."""
    (home / "mine.yaml").write_text(PLAYED)
    assert testbed("run", "mine.yaml", "--out", "run", "--backend", "simulator", folder=home).code == exits.OK
    folder = unpacked(archive(home / "run").path, home / "there")
    again = command_of(folder)
    assert again == "testbed run spec/mine.yaml --set lab=simulator --out again"
    assert "shows what was simulated." in (folder / "README.md").read_text()
    assert "measured" not in (folder / "README.md").read_text()
    (beside,) = re.findall(r"`(testbed report run again .*?)`", (folder / "README.md").read_text())
    assert [testbed(*shlex.split(line)[1:], folder=folder).code for line in (again, beside)] == [exits.OK] * 2


def _change(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def _inputs(run: Path) -> dict[str, str]:
    return {
        name: digest
        for path in (run / "trials").iterdir()
        for name, digest in json.loads(path.read_text())["inputs"].items()
    }
