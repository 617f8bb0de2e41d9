"""Homes of ranks: what is in the caller's can be read, and files can be written beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab import homes


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The caller's home, with a download and what a library has left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = tmp_path / "caller"
    for name in (".cache/hub/models/weights.bin", ".cache/hub/models.lock", ".config/tool/settings", ".netrc"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return home


def settled(theirs: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> dict[str, str]:
    monkeypatch.setenv("HOME", str(theirs))
    environment = {homes.VARIABLE: "1", "HOME": str(theirs), **more}
    homes.settle(environment)
    assert homes.VARIABLE not in environment
    return environment


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_what_is_there_can_be_read_and_new_files_are_the_ranks_own(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(theirs)
    home = Path(settled(theirs, monkeypatch)["HOME"])
    assert files(home) == {".cache/hub/models/weights.bin", ".config/tool/settings", ".netrc"}
    assert (home / ".cache/hub/models/weights.bin").read_text() == ".cache/hub/models/weights.bin"
    for name in (".cache/hub/models.lock", ".config/tool/more", ".cache/hub/models/new"):
        (home / name).write_text("own")
    (home / ".config/tool/more").replace(home / ".config/tool/settings")  # as libraries write settings
    assert files(theirs) == before
    assert (theirs / ".config/tool/settings").read_text() == ".config/tool/settings"


def test_variables_name_folders_that_can_be_written(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = settled(theirs, monkeypatch, HF_HOME="/data/hub", TRITON_CACHE_DIR=str(theirs.parent / "none"))
    assert environment["HF_HOME"] == "/data/hub"
    for name in ("HOME", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"):
        Path(environment[name], "own").write_text("own")
    assert not (theirs / "own").exists()
    assert not (theirs.parent / "none").exists()


def test_what_pytorch_has_built_is_not_built_again_nor_waited_for(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (built := theirs / "extensions" / "adam").mkdir(parents=True)
    for name in ("adam.so", "lock"):
        (built / name).write_text(name)
    environment = settled(theirs, monkeypatch, TORCH_EXTENSIONS_DIR=str(built.parent))
    own = Path(environment["TORCH_EXTENSIONS_DIR"])
    assert files(own) == {"adam/adam.so"}
    (own / "adam" / "lock").touch()
    assert own.is_relative_to(environment["HOME"])


def test_a_cache_elsewhere_is_read_there(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere := theirs.parent / "data").mkdir()
    (elsewhere / "download").write_text("much")
    environment = settled(theirs, monkeypatch, XDG_CACHE_HOME=str(elsewhere))
    assert (Path(environment["XDG_CACHE_HOME"]) / "download").read_text() == "much"
    assert Path(environment["XDG_CACHE_HOME"]).parent == Path(environment["HOME"])


def test_a_large_folder_is_one_link(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (many := theirs / "many").mkdir()
    for number in range(homes.MOST_ENTRIES):
        (many / str(number)).touch()
    home = Path(settled(theirs, monkeypatch)["HOME"])
    assert (home / "many").is_symlink()
    assert (home / "many/7").exists()
    assert not (home / ".cache/hub").is_symlink(), "what comes later, and is small, is as ever"


def test_a_caller_without_a_home_and_a_program_that_is_no_rank(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files(Path(settled(theirs / "none", monkeypatch)["HOME"])) == set()
    environment = {"HOME": "/root"}
    homes.settle(environment)
    assert environment == {"HOME": "/root"}
