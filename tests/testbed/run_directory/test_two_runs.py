"""Two runs at once on one machine: beside each other in different directories, and never in the same one."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from testbed.base.errors import OutputError
from testbed.run_directory import access, layout
from testbed.run_directory.directory import RunDirectory
from testbed.spec import Source
from testbed.trial.files import WORK

from ..experiment.test_run import COMMAND, LONG, PATIENCE_S
from ..records import carried_what_the_forest_says

PS = "  - {label: PS, topology: star(hosts=3), scheme: ps}\n"
SHORT = LONG.replace("iterations: 20", "iterations: 3").replace(PS, "")
BUSY = "another run is writing into it (process {})\n  fix: wait for its end, or name another directory with --out"


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
        assert [record["status"] for record in records] == ["done"]
        assert all(record["sums"]["wrong_elements"] == 0 for record in records)
        assert (tmp_path / out / "report.html").exists()
        for record in records:  # nobody else's packets are counted
            carried_what_the_forest_says(record)


@pytest.mark.rehearse
@pytest.mark.lab
def test_the_same_directory_twice_at_once(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SHORT)
    ends = both(tmp_path, *[["run", "spec.yaml", "--out", "a"]] * 2)
    assert sorted(code for code, _, _ in ends) == [0, 2]
    (refused,) = [err for code, _, err in ends if code == 2]
    busy = "error: a: another run is writing into it (process "
    assert refused.startswith((busy, "error: a: is not empty\n"))
    assert sorted(path.stem for path in (tmp_path / "a" / "trials").iterdir()) == ["ring-b32"]


def test_a_directory_is_one_runs_until_that_ends(tmp_path: Path, source: Source) -> None:
    first = RunDirectory.create(tmp_path / "a", source)
    for other in (lambda: RunDirectory.reopen(tmp_path / "a"), lambda: RunDirectory(tmp_path / "a")):
        with pytest.raises(OutputError) as error:
            other()
        assert str(error.value) == f"{tmp_path / 'a'}: {BUSY.format(os.getpid())}"
    first.close()
    RunDirectory.reopen(tmp_path / "a").close()
    with pytest.raises(OutputError, match="is not empty"):
        RunDirectory.create(tmp_path / "a", source)


def test_a_directory_that_was_half_made_is_made_anew(tmp_path: Path, source: Source) -> None:
    path = tmp_path / "a"
    RunDirectory.create(path, source).close()
    (path / layout.MADE).rename(path / f".{layout.MADE}.tmp")  # killed just before the end
    with pytest.raises(OutputError, match="not a run directory"):
        RunDirectory.reopen(path)
    RunDirectory.create(path, source).close()
    assert (path / layout.MADE).exists()
    assert not list(path.glob(".*.tmp"))


def test_somebody_elses_directory_with_a_lock_in_it_is_left_alone(tmp_path: Path, source: Source) -> None:
    (tmp_path / layout.LOCK).touch()
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(OutputError, match="is not empty"):
        RunDirectory.create(tmp_path, source)
    assert {path.name for path in tmp_path.iterdir()} == {layout.LOCK, "thesis.tex"}


def test_what_a_killed_run_left_is_removed_when_it_goes_on(tmp_path: Path, source: Source) -> None:
    RunDirectory.create(tmp_path / "a", source).close()
    (tmp_path / "a" / "work" / "t").mkdir(parents=True)
    (tmp_path / "a" / "trials" / ".t.json.tmp").write_text('{"half')
    RunDirectory.reopen(tmp_path / "a").close()
    assert not (tmp_path / "a" / "work").exists()
    assert list((tmp_path / "a" / "trials").iterdir()) == []


def made(folder: Path, source: Source) -> Path:
    """A run directory with nothing in it."""
    path = folder / "run"
    RunDirectory.create(path, source).close()
    return path


def test_nobody_else_can_lock_a_run_out(tmp_path: Path, source: Source) -> None:
    path = made(tmp_path, source)
    assert (path / layout.LOCK).stat().st_mode & 0o777 == 0o600
    (path / layout.LOCK).chmod(0o644)  # as earlier versions made it
    RunDirectory.reopen(path).close()
    assert (path / layout.LOCK).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", [layout.LOCK, WORK, *layout.FOLDERS])
def test_a_link_in_a_run_directory_leads_nowhere(tmp_path: Path, source: Source, name: str) -> None:
    path, victim = made(tmp_path, source), tmp_path / "victim"
    victim.mkdir()
    (victim / ".a.tmp").touch()
    if (path / name).is_dir():
        (path / name).rmdir()
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(victim)
    with pytest.raises(OutputError, match=f"{path / name}: is a symbolic link"):
        RunDirectory.reopen(path)
    assert [one.name for one in victim.iterdir()] == [".a.tmp"]


def test_a_folder_that_becomes_a_link_is_not_written_through(tmp_path: Path, source: Source) -> None:
    run, victim = RunDirectory.create(tmp_path / "run", source), tmp_path / "victim"
    victim.mkdir()
    (tmp_path / "run" / "trials").rmdir()
    (tmp_path / "run" / "trials").symlink_to(victim)
    with pytest.raises(OutputError, match=r"a\.json: cannot be written: not a directory"):
        run.save_record({"id": "a"})
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("what", ["link", "records", "link to the lock"])
def test_what_looks_half_made_and_holds_more_is_refused(tmp_path: Path, source: Source, what: str) -> None:
    path, victim = tmp_path / "out", tmp_path / "victim"
    victim.mkdir()
    path.mkdir()
    if what == "link to the lock":
        (victim / "passwd").touch(0o644)
        (path / layout.LOCK).symlink_to(victim / "passwd")
    else:
        (path / layout.LOCK).touch()
    if what == "link":
        (path / "logs").symlink_to(victim)
    if what == "records":
        (path / "trials").mkdir()
        (path / "trials" / "ring-b32.json").write_text("{}")
    with pytest.raises(OutputError, match="is not empty"):
        RunDirectory.create(path, source)
    assert not (path / "resolved.json").exists()


def test_a_directory_of_another_users_is_refused(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path, source)
    (tmp_path / "prepared").mkdir()
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    for begin in (lambda: RunDirectory.reopen(path), lambda: RunDirectory.create(tmp_path / "prepared", source)):
        with pytest.raises(OutputError, match=f"belongs to another user \\(uid {uid}\\)"):
            begin()
    assert list((tmp_path / "prepared").iterdir()) == []


def test_whose_lock_cannot_be_read_is_not_merged(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opens = made(tmp_path, source), os.open

    def refuse(name: str | Path, *rest: int, **more: int) -> int:
        if Path(name).name == layout.LOCK:
            raise PermissionError(13, "Permission denied")
        return opens(name, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OutputError, match="only its owner can see whether a run is writing into it"):
        access.check_idle(path)


def test_runs_that_start_within_a_second_get_directories_of_their_own(
    tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> Clock:  # noqa: ARG003
            return cls(2026, 11, 21, 12, 0, 0)

    monkeypatch.setattr(layout, "datetime", Clock)
    monkeypatch.chdir(tmp_path)
    made = [RunDirectory.create(None, source) for _ in range(3)]
    assert [str(one.path) for one in made] == [f"runs/small-20261121-120000{end}" for end in ("", "-2", "-3")]
    for one in made:
        one.close()
