"""The Python files that a command starts, and those that these import: found by their names, without running any."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from os.path import normpath
from pathlib import PurePosixPath

WORD = re.compile(r"[\w./-]+")
SCRIPTS = (".py", ".sh")
LONGEST = 2**20
"""Length of the longest text whose imports are read: parsing takes memory, and the text may be a stranger's."""


def reached(command: str, start: set[str], contents: Mapping[str, bytes], known: set[str]) -> set[str]:
    """Return the ``known`` files that a command leads to: by a file's name, by a module that is run (``-m``), or by an
    import; from what it says, from the files ``start``, and from those that are reached.

    Args:
        contents: bytes of the known files, as far as they could be read.
    """
    found = start | _named(command, ".") & known
    left = list(found)
    while left:
        name = left.pop()
        text = contents.get(name, b"").decode(errors="replace")
        new = _named(text, str(PurePosixPath(name).parent)) & known - found
        found |= new
        left += new
    return found


def _named(text: str, folder: str) -> set[str]:
    """Paths that the files may have that a text in ``folder`` names."""
    found: list[str] = []
    for before, word in pairwise(["", *WORD.findall(text)]):
        if word.endswith(SCRIPTS):
            found += [word, f"{folder}/{word}"]
        elif before == "-m":
            found += [*_files(".", word), f"{word.replace('.', '/')}/__main__.py"]
    above = [folder, *map(str, PurePosixPath(folder).parents)]
    for level, module in _imports(text):
        for place in above[level - 1 : level] if level else above:
            found += _files(place, module)
    return set(map(normpath, found))


def _imports(text: str) -> Iterator[tuple[int, str]]:
    """Yield each module that a Python text imports, with the number of dots before its name."""
    tree: ast.AST = ast.Pass()
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text[:LONGEST])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):  # what it takes of a package may be a module
            yield from ((node.level, ".".join(filter(None, [node.module, alias.name]))) for alias in node.names)


def _files(folder: str, module: str) -> Iterator[str]:
    """Yield the files of a module, and of the packages that it is in."""
    parts = module.split(".")
    for path in ("/".join([folder, *parts[:count]]) for count in range(len(parts) + 1)):
        yield from (f"{path}.py", f"{path}/__init__.py")
