"""Two runs at once on one machine: beside each other in different directories, and never in the same one."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from testbed import rundir
from testbed.errors import OutputError
from testbed.rundir import RunDirectory
from testbed.spec import Source

from .records import carried_what_the_forest_says
from .test_run import COMMAND, LONG, PATIENCE_S

SHORT = LONG.replace("iterations: 20", "iterations: 3")
BUSY = "another run is writing into it\n  fix: wait for its end, or name another directory with --out"


def both(folder: Path, *arguments: list[str]) -> list[tuple[int, str, str]]:
    """Exit code and output of command lines that go on at once."""
    started = [
        subprocess.Popen([*COMMAND, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for words in arguments
    ]
    said = [one.communicate(timeout=PATIENCE_S) for one in started]
    return [(one.returncode, *texts) for one, texts in zip(started, said, strict=True)]


@pytest.mark.lab
def test_the_same_spec_twice_at_once(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SHORT)
    for code, _, err in both(tmp_path, *(["run", "spec.yaml", "--out", out] for out in ("a", "b"))):
        assert (code, err) == (0, "")
    for out in ("a", "b"):
        records = [json.loads(path.read_text()) for path in (tmp_path / out / "trials").iterdir()]
        assert [record["status"] for record in records] == ["done", "done"]
        assert all(record["sums"]["wrong_elements"] == 0 for record in records)
        assert (tmp_path / out / "report.html").exists()
        for record in records:  # nobody else's packets are counted
            carried_what_the_forest_says(record)


@pytest.mark.lab
def test_the_same_directory_twice_at_once(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SHORT)
    ends = both(tmp_path, *[["run", "spec.yaml", "--out", "a"]] * 2)
    assert sorted(code for code, _, _ in ends) == [0, 2]
    (refused,) = [err for code, _, err in ends if code == 2]
    assert refused == f"error: a: {BUSY}\n" or refused.startswith("error: a: is not empty\n")
    assert sorted(path.stem for path in (tmp_path / "a" / "trials").iterdir()) == ["ps-star3-b32", "ring-star3-b32"]


def test_a_directory_is_one_runs_until_that_ends(tmp_path: Path, source: Source) -> None:
    first = RunDirectory.create(tmp_path / "a", source)
    for other in (lambda: RunDirectory.reopen(tmp_path / "a"), lambda: RunDirectory(tmp_path / "a")):
        with pytest.raises(OutputError) as error:
            other()
        assert str(error.value) == f"{tmp_path / 'a'}: {BUSY}"
    first.close()
    RunDirectory.reopen(tmp_path / "a").close()
    with pytest.raises(OutputError, match="is not empty"):
        RunDirectory.create(tmp_path / "a", source)


def test_a_directory_that_was_half_made_is_made_anew(tmp_path: Path, source: Source) -> None:
    path = tmp_path / "a"
    RunDirectory.create(path, source).close()
    (path / rundir.MADE).rename(path / f".{rundir.MADE}.tmp")  # killed just before the end
    with pytest.raises(OutputError, match="is not a run directory"):
        RunDirectory.reopen(path)
    RunDirectory.create(path, source).close()
    assert (path / rundir.MADE).exists()
    assert not list(path.glob(".*.tmp"))


def test_somebody_elses_directory_with_a_lock_in_it_is_left_alone(tmp_path: Path, source: Source) -> None:
    (tmp_path / rundir.LOCK).touch()
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(OutputError, match="is not empty"):
        RunDirectory.create(tmp_path, source)
    assert {path.name for path in tmp_path.iterdir()} == {rundir.LOCK, "thesis.tex"}


def test_what_a_killed_run_left_is_removed_when_it_goes_on(tmp_path: Path, source: Source) -> None:
    RunDirectory.create(tmp_path / "a", source).close()
    (tmp_path / "a" / "work" / "t").mkdir(parents=True)
    (tmp_path / "a" / "trials" / ".t.json.tmp").write_text('{"half')
    RunDirectory.reopen(tmp_path / "a").close()
    assert not (tmp_path / "a" / "work").exists()
    assert list((tmp_path / "a" / "trials").iterdir()) == []


def test_runs_that_start_within_a_second_get_directories_of_their_own(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> Clock:  # noqa: ARG003
            return cls(2026, 11, 21, 12, 0, 0)

    monkeypatch.setattr(rundir, "datetime", Clock)
    monkeypatch.chdir(tmp_path)
    made = [RunDirectory.create(None, source) for _ in range(3)]
    assert [str(one.path) for one in made] == [f"runs/small-20261121-120000{end}" for end in ("", "-2", "-3")]
    for one in made:
        one.close()
