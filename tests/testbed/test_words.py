"""Docstrings begin with what the thing is or does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("testbed", "topologies", "workloads", "analysis")
RIDDLE = re.compile(r"(What|Of|Those|Who|That)\b")
MOST = 20
"""Docstrings that may begin so; there were 1,397 of 8,224."""


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring in a module: of it, its classes, functions and attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                statements = node.body
            case _:
                continue
        for before, statement in zip([None, *statements], statements, strict=False):
            if before is not None and not isinstance(before, (ast.Assign, ast.AnnAssign)):
                continue
            match statement:
                case ast.Expr(value=ast.Constant(value=str() as text)):
                    yield statement.lineno, text.strip()


def test_docstrings_begin_with_what_the_thing_is_or_does() -> None:
    paths = [path for name in FOLDERS for path in (ROOT / name).rglob("*.py")]
    known = [(path, line, text) for path in paths for line, text in docstrings(path)]
    assert len(known) > 5000
    bad = [f"{path.relative_to(ROOT)}:{line}: {text:.60}" for path, line, text in known if RIDDLE.match(text)]
    assert len(bad) <= MOST, "\n".join(bad)


def test_a_docstring_is_seen_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""A."""\nX = 1\n"""B."""\nclass Y:\n    """C."""\n    z: int\n    """D."""\ndef f():\n    """E."""\n'
    )
    assert [text for _, text in docstrings(path)] == ["A.", "B.", "C.", "D.", "E."]
