"""The files that go into an archive: those that a run writes, by name; and those that its spec names, such as its own
topologies, schemes and scripts, as far as their content is what the run says it was (:mod:`testbed.trial.inputs`).

Python files that a command starts, and those that these import, are found by their names, without running any.
"""

from __future__ import annotations

import ast
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from os.path import normpath
from pathlib import Path, PurePosixPath
from typing import Any

from testbed.analysis.comparing.measured import RERUN
from testbed.base.errors import UsageError
from testbed.base.printable import NOT_ON_A_LINE
from testbed.comparison.archive.packing import Entry
from testbed.files.foreign import UnfitError, read_bytes, reason
from testbed.files.writing import read_json
from testbed.run_directory import stored
from testbed.run_directory.layout import MADE, TABLES
from testbed.spec import Source
from testbed.trial.inputs import DATA, MOST_BYTES, MOST_FILES, NO_FILE, built_from, checked, is_inside

RUN = "run"
"""The archive's folder with the run directory."""
FILES = ("spec.yaml", "env.json", "results.csv", "comparison.md", "comparison.json", "comparison.xml")
TRIALS = {"trials": ".json", **dict.fromkeys(("samples", *TABLES), ".parquet")}
"""Ending of the file that each trial may have there, by folder. Logs are left out: they hold what commands printed."""


def entries(run: Path) -> Iterator[Entry]:
    """All files of a run that was loaded before. What was measured once more is a run directory within it.

    Raises:
        OutputError: its resolved.json cannot be read.
    """
    yield from _of(run, run, RUN)
    if (run / RERUN / MADE).is_file():
        yield from _of(run, run / RERUN, f"{RUN}/{RERUN}")


def _of(run: Path, directory: Path, name: str) -> Iterator[Entry]:
    yield Entry(f"{name}/{MADE}", _moved(read_json(directory / MADE, run)))
    trials = [path.stem for path in sorted((directory / "trials").glob("*.json"))]
    inside = [f"{folder}/{trial}{ending}" for folder, ending in TRIALS.items() for trial in trials]
    for file in (*FILES, *inside):
        if os.path.lexists(directory / file):
            yield Entry(f"{name}/{file}", directory / file, run)


def _moved(resolved: dict[str, object]) -> bytes:
    """With the spec's folder as it is called in the archive: its name on this machine is nobody else's business."""
    text = json.dumps(resolved | {"folder": SPEC}, indent=2, ensure_ascii=False)
    return f"{text}\n".encode(errors="backslashreplace")


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


Records = Mapping[str, Mapping[str, Any]]
"""Records of trials, by their ids."""
SPEC = "spec"
"""The archive's folder with the spec and its files."""
NO_TRIAL = "no trial that ran tells its content; add it: --with NAME"
UNKNOWN = "the run knows its values, and not its files; add each of them: --with NAME"


@dataclass(frozen=True)
class Named:
    """The files that are taken, by name, why others are not, and the Python files that no script was found to import.
    All names are of files in ``folder``."""

    folder: Path
    entries: Sequence[Entry]
    lacking: Mapping[str, str]
    unused: Sequence[str]


def of(run: Path, records: Records, source: Source, more: Sequence[str] = ()) -> Named:
    """Collect the files that a run with these records and this spec names; also the files ``more`` of the spec's
    folder, whatever is in them.

    Raises:
        UsageError: one of ``more`` cannot be taken.
        OutputError: the run is damaged.
    """
    folder = Path(str(stored.made(run).get("folder") or ""))
    more = list(map(os.path.normpath, more))
    taken = {name: _asked_for(folder, name) for name in more}
    lacking: dict[str, str] = {}
    left_bytes = MOST_BYTES
    for name, digest in _digests(records).items():
        data = DATA.fullmatch(name)
        if data:
            written = data["set"] or data["corpus"]
            if not any(PurePosixPath(file).parts[0] in written for file in more):
                lacking[written] = UNKNOWN
        elif name not in taken and not NO_FILE.fullmatch(name):
            try:
                taken[name] = checked(folder, name, digest, left_bytes)
                left_bytes -= len(taken[name])
            except (OSError, ValueError) as error:
                lacking[name] = reason(error)
    lacking |= {name: NO_TRIAL for name in _named_by(source) if name not in taken and name not in lacking}
    unused = _unused(source, taken, {*taken, *lacking}).difference(more)
    entries = [Entry(f"{SPEC}/{name}", content) for name, content in sorted(taken.items()) if name not in unused]
    told = {NOT_ON_A_LINE.sub(" ", name): why for name, why in lacking.items() if name not in unused}
    return Named(folder, entries, told, sorted(unused & taken.keys()))


def _unused(source: Source, contents: Mapping[str, bytes], known: set[str]) -> set[str]:
    """Python files that a run of a script without ``inputs`` knows because they are below the spec's folder, and that
    the command does not lead to."""
    programs = [program for cell in source.grid.cells if (program := cell.spec.workload.program)]
    if not programs or any(program.inputs is not None for program in programs):
        return set()
    words = [word for program in programs for word in program.words]
    start = (_named_by(source) | set(map(os.path.normpath, words))) & known
    start |= {name for name in known if not name.endswith(".py")}
    return known - reached(" ".join(words), start, contents, known)


def _named_by(source: Source) -> set[str]:
    """The topologies, schemes and traces that the spec names, whether their trials ran or not."""
    named: list[str] = []
    for cell in source.grid.cells:
        named += built_from(cell.arm)
        named += (name for perturb in (*cell.spec.perturb, *cell.arm.perturb) for name in perturb.inputs)
    return set(map(os.path.normpath, named))


def _digests(records: Records) -> dict[str, str]:
    """Collect the digests by name that the trials of a run have recorded, as far as they agree."""
    digests: dict[str, str] = {}
    for record in records.values():
        for name, digest in (record.get("inputs") or {}).items():
            if digests.setdefault(str(name), str(digest)) != digest:
                digests[str(name)] = ""
    return dict(sorted(digests.items())[:MOST_FILES])


def _asked_for(folder: Path, name: str) -> bytes:
    """
    Raises:
        UsageError: it is no file of the spec's folder.
    """
    fix = f"name a file of the spec's folder, which is {folder}"
    if not is_inside(name):
        raise UsageError(f"--with {name}: is outside of the spec's folder", fix=fix)
    try:
        return read_bytes(folder / name, MOST_BYTES, folder)
    except (OSError, UnfitError) as error:
        raise UsageError(f"--with {name}: {reason(error)}", fix=fix) from None
