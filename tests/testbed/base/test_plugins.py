"""Entry points of installed packages, as files of a distribution that each test writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.base.errors import MissingToolError, UsageError
from testbed.base.plugins import plugged, with_plugged


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    plugged.cache_clear()
    yield
    plugged.cache_clear()


def install(folder: Path, name: str, points: str) -> None:
    """A distribution with nothing but entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[testbed.tests]\n{points}\n")


def test_nothing_is_added_by_nobody() -> None:
    assert plugged("tests") == {}
    assert with_plugged("tests", {"ours": 1}) == {"ours": 1}


def test_what_is_added_comes_after_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "other", "z = math:pi\na = math:e")
    monkeypatch.syspath_prepend(tmp_path)
    assert list(with_plugged("tests", {"ours": 1.0})) == ["ours", "a", "z"]


def test_a_name_of_ours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "other", "ours = math:pi")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=r"two packages add 'ours' to testbed\.tests"):
        with_plugged("tests", {"ours": 1.0})


def test_two_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "one", "same = math:pi")
    install(tmp_path, "two", "same = math:e")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="two packages add 'same'"):
        plugged("tests")


@pytest.mark.parametrize("value", ["no_such_module:ONE", "math:no_such_name"])
def test_one_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    install(tmp_path, "other", f"lost = {value}")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingToolError, match=f"the entry point lost of testbed.tests is {value}"):
        plugged("tests")
