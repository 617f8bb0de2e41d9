"""Every Python that the project starts leaves the current directory out of its path of imports."""

from __future__ import annotations

import ast
import os
import re
import site
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.base import python
from testbed.base.python import code_command, installed, module_command, search_path
from tests.sources import parsed

ROOT = Path(__file__).parents[3]
PACKAGES = ("testbed", "topologies", "workloads", "analysis")
SAFE = ("-P", "-I")
"""Options that leave it out; -I leaves out more."""


def test_words() -> None:
    assert module_command("a.b", "c") == [sys.executable, "-P", "-m", "a.b", "c"]
    assert code_command("pass") == [sys.executable, "-P", "-c", "pass"]


INTERPRETER = r"sys\.executable|[\"']-m[\"']"
"""Text of a source with a command of Python's."""


def _unsafe(tree: ast.Module) -> Iterator[int]:
    """Lines with a command of Python's that may import from the current directory: the interpreter is followed by words
    that do not begin with a safe option, or ``-m`` and one of our modules come without one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.List | ast.Tuple):
            continue
        words = [ast.unparse(word) for word in node.elts]
        texts = [word.value if isinstance(word, ast.Constant) else None for word in node.elts]
        for place, word in enumerate(words[:-1]):
            if word == "sys.executable" and texts[place + 1] not in SAFE:
                yield node.lineno
            if texts[place] == "-m" and str(texts[place + 1]).startswith(PACKAGES) and not {*texts[:place]} & {*SAFE}:
                yield node.lineno


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("[sys.executable, '-m', 'testbed', *words]", [1]),
        ("(sys.executable, '-c', code)", [1]),
        ("[python, '-m', 'testbed.workloads.worker']", [1]),
        ("[sys.executable, str(SCRIPT)]", [1]),
        ("[sys.executable, '-P', '-m', name]\n[python, '-P', '-m', 'testbed.agent']\n[sys.executable, '-I', path]", []),
        ("['mount', '-m', folder]", []),
    ],
)
def test_the_search_knows_a_command_that_imports_from_the_current_directory(source: str, lines: list[int]) -> None:
    assert not lines or re.search(INTERPRETER, source)
    assert sorted(set(_unsafe(ast.parse(source)))) == lines


def test_no_source_has_one() -> None:
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(sources) > 500
    found = parsed(sources, INTERPRETER)
    bad = [f"{path.relative_to(ROOT)}:{line}" for path, tree in found for line in _unsafe(tree)]
    assert bad == []


def test_processes_get_the_callers_path_and_not_the_clones_root(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed() == ROOT / "testbed"
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert search_path() == []
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/a", "", "/b"]))
    assert search_path() == ["/a", "/b"]


def test_a_testbed_that_is_not_installed_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or another one is: then processes would run that."""
    monkeypatch.setenv("PYTHONPATH", "/a")
    monkeypatch.setattr(python, "PACKAGE", tmp_path / "testbed")
    (tmp_path / "testbed").mkdir()
    assert search_path() == [str(tmp_path), "/a"]
    monkeypatch.undo()
    monkeypatch.setattr(sys, "meta_path", [])
    assert installed() is None


def test_a_testbed_in_the_folder_of_packages_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "testbed").mkdir()
    (tmp_path / "testbed" / "__init__.py").touch()
    monkeypatch.setattr(python, "PACKAGE", tmp_path / "testbed")
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(tmp_path)])
    assert installed() == tmp_path / "testbed"
