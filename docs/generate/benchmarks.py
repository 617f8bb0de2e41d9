"""The page of benchmarks, from what each says of itself."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

from docs.generate.markdown import in_sight
from testbed.base.docstrings import plain

FOLDER = Path(__file__).parents[2] / "benchmarks"
INTRODUCTION = """\
# Benchmarks

`benchmarks/` holds measurements of testbed itself, each beside its reference. They need what
`./setup.sh test` installs. This page is made from their docstrings.
"""
_COMMANDS = re.compile(r"(?:^ {4}.*\n)+\n*", re.M)
"""Lines of a docstring that are set apart: how the benchmark is started."""


def page() -> str:
    return "\n".join([INTRODUCTION, *map(_section, programs())])


def programs() -> list[Path]:
    """The files that can be started; the others hold what these share."""
    return [path for path in sorted(FOLDER.glob("*.py")) if '__name__ == "__main__"' in path.read_text()]


def _section(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    head, _, rest = inspect.cleandoc(text).partition("\n\n")
    body = _COMMANDS.sub(_block, plain(rest) + "\n")
    return f"## {path.stem.replace('_', ' ')}\n\n*{plain(head)}* (`benchmarks/{path.name}`)\n\n{body}"


def _block(lines: re.Match[str]) -> str:
    return f"```sh\n{in_sight(textwrap.dedent(lines[0]).strip())}\n```\n\n"
