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
IMPORTERS = {"import_module", "__import__", "run_module"}
"""Functions that take the name of a module as their first argument."""
MODULE = re.compile(r"(\w+(?:\.\w+)+)(?::\w+)?")
"""Text that names a module of a package, or something in it."""
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
        named = _named(text, str(PurePosixPath(name).parent))
        new = {each for each in known - found if named.intersection(_patterns(each))}
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


def _patterns(path: str) -> tuple[str, str, str]:
    """A file's path, and those with ``*`` in place of the last part of its module's name."""
    return path, normpath(f"{path}/../*.py"), normpath(f"{path}/../../*/{PurePosixPath(path).name}")


def _imports(text: str) -> Iterator[tuple[int, str]]:
    """Yield each module that a Python text imports, with the number of dots before its name; of a name that is made
    while it runs, such as ``f"models.{name}"``, the part that is written, and ``*``. In a text that imports by names
    from elsewhere, such as a table, every text that is like the name of a module counts."""
    tree: ast.AST = ast.Pass()
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text[:LONGEST])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):  # what it takes of a package may be a module
            yield from ((node.level, ".".join(filter(None, [node.module, alias.name]))) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and _name(node.func) in IMPORTERS:
            written, *rest = re.split("[%{]", _written(node.args[0]))
            if rest:
                written = f"{written.rpartition('.')[0]}.*" if "." in written else ""
            named = [written] if written else _texts(tree)
            yield from ((len(module) - len(module.lstrip(".")), module.lstrip(".")) for module in named)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _written(node: ast.expr) -> str:
    """The text that an expression begins with; what is not known of it is ``{``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_written, node.values))
    if isinstance(node, ast.BinOp):  # + and %
        return f"{_written(node.left)}{{"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _written(node.func.value)
    return "{"


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts in a program that are like the name of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (named := MODULE.fullmatch(node.value)):
            yield named[1]


def _files(folder: str, module: str) -> Iterator[str]:
    """Yield the files of a module, and of the packages that it is in."""
    parts = module.split(".")
    for path in ("/".join([folder, *parts[:count]]) for count in range(len(parts) + 1)):
        yield from (f"{path}.py", f"{path}/__init__.py")
