"""Compiled parts: absent, of another machine, of another version."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed.base import compiled
from testbed.base.errors import MissingToolError


def test_a_library_is_loaded_and_its_functions_are_declared() -> None:
    library = compiled.load("testbed.workloads.sync._mover", 4, [("mover_new", ctypes.c_void_p, [ctypes.c_void_p])])
    assert library is not None
    assert library.mover_new.restype is ctypes.c_void_p


def test_where_there_is_none_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert compiled.load("testbed.workloads.sync._none", 1, ()) is None
    assert compiled.load("testbed.workloads.sync.not_compiled._none", 1, ()) is None  # nor its folder
    foreign = tmp_path / "_mover.so"
    foreign.write_bytes(b"\x7fELF of another machine")
    spec = importlib.util.spec_from_loader("foreign", None, origin=str(foreign))
    monkeypatch.setattr(compiled, "find_spec", lambda _: spec)
    assert compiled.load("testbed.workloads.sync._mover", 4, ()) is None


@pytest.mark.parametrize(
    "stale",
    [
        SimpleNamespace(mover_version=lambda: 3, mover_new=None),
        SimpleNamespace(mover_version=lambda: 4),  # built from a source that had no such function
        SimpleNamespace(),
    ],
)
def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, stale: SimpleNamespace) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: stale)
    with pytest.raises(MissingToolError, match=r"_mover\S+ is of another version of testbed") as caught:
        compiled.load("testbed.workloads.sync._mover", 4, [("mover_new", ctypes.c_void_p, [])])
    assert "install a C compiler" in str(caught.value.fix)
