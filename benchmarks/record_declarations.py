"""Declarations of the fields of records: how many lines they take, and how many places a metric has, before and now.

    python benchmarks/record_declarations.py [--before COMMIT]

A declaration is a field of a dataclass, an entry of a mapping, a name in a list of columns, or an argument of a
constructor that has the name of a field of a record or of a trial's tables. Counted are the lines of classes, without
their methods, of constants and of functions that have some; and besides, all lines of the modules that hold them, of
which some do other things, such as loading a run. To reach: 950 lines; two places for a new metric, the code that
makes it included, in place of 3 to 5.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from testbed.analysis import dictionary
from testbed.base.columns import columns

ROOT = Path(__file__).parents[1]
BEFORE = "9512cb35"
"""The commit before one model declared all fields."""
WHOLE = ("dictionary", "schema", "recorded", "load")
"""Modules of analysis/ that are looked through, with all of analysis/record/."""
IN_PART: Mapping[str, frozenset[str]] = {
    "analysis/verdicts.py": frozenset({"Number", "_number"}),
    "analysis/strikes.py": frozenset({"Strikes"}),
    **{
        f"analysis/{drawer}{name}.py": frozenset({"COLUMNS"})
        for name in ("samples", "queues", "transfers")
        for drawer in ("", "tables/")  # before and now
    },
    "testbed/execution/results.py": frozenset({"COLUMNS", "OF_JOBS", "SAMPLE_COLUMNS"}),
    "testbed/execution/execute.py": frozenset({"blank"}),
    "testbed/execution/several.py": frozenset({"blank"}),
}
"""Other files, and the names in them that are counted."""
REACH_LINES, REACH_PLACES = 950, 2


class Sources:
    """The Python files of a commit, or of the working tree."""

    def __init__(self, commit: str | None) -> None:
        self._commit = commit

    def names(self) -> list[str]:
        """Files that hold declarations."""
        there = self._git("ls-tree", "-r", "--name-only", self._commit or "HEAD").splitlines()
        looked_at = {*(f"analysis/{name}.py" for name in WHOLE), *IN_PART}
        return [name for name in there if name in looked_at or name.startswith("analysis/record/")]

    def text(self, name: str) -> str:
        """The text of a file."""
        return (ROOT / name).read_text() if self._commit is None else self._git("show", f"{self._commit}:{name}")

    def _git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def fields() -> frozenset[str]:
    """The names of all fields, without the objects that they are in."""
    paths = [path for _, known in dictionary.FILES.values() for path in known]
    return frozenset(path.replace("[]", "").rpartition(".")[2] for path in paths) - {"*"}


def metrics() -> list[str]:
    """The names of metrics that no other field has."""
    paths = [path for _, known in dictionary.FILES.values() for path in known if not path.startswith("attempts[]")]
    others = {path.rpartition(".")[2] for path in paths if "." in path and not path.startswith("metrics.")}
    known = [path.removeprefix("metrics.") for path in paths if path.startswith("metrics.")]
    return [name for name in known if name not in {*others, *dictionary.SAMPLES}]


def declared(text: str, within: frozenset[str] | None, known: frozenset[str]) -> Iterator[tuple[set[str], int]]:
    """The fields that each statement of a file declares, and its lines; or only of the functions, classes and constants
    ``within``."""
    for top in ast.parse(text).body:
        names = {getattr(top, "name", ""), *(getattr(target, "id", "") for target in getattr(top, "targets", ()))}
        names.add(getattr(getattr(top, "target", None), "id", ""))
        if within is None or names & within:
            yield {name for node in ast.walk(top) for name in _declared(node) if name in known}, _lines(top)


def _lines(top: ast.stmt) -> int:
    """The lines of a statement, of a class without its methods."""
    methods = [node for node in getattr(top, "body", ()) if isinstance(top, ast.ClassDef) and hasattr(node, "args")]
    return sum((1 if node is top else -1) * ((node.end_lineno or 0) - node.lineno + 1) for node in (top, *methods))


def _declared(node: ast.AST) -> Iterator[str]:
    """The names that a class, a mapping, a list or a call may declare."""
    if isinstance(node, ast.ClassDef):
        for line in node.body:
            target = line.target if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [None])[0]
            if isinstance(line, ast.AnnAssign | ast.Assign) and isinstance(target, ast.Name):
                key = next((_text(word.value) for word in _keywords(line.value) if word.arg == "key"), target.id)
                yield key.rpartition(".")[2]
    elif isinstance(node, ast.Dict):
        yield from (_name(key) for key in node.keys if key is not None)
    elif isinstance(node, ast.Tuple):
        yield from map(_name, node.elts)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[:1].isupper():
        yield from (word.arg or "" for word in node.keywords)


def _keywords(value: ast.AST | None) -> list[ast.keyword]:
    return value.keywords if isinstance(value, ast.Call) else []


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _name(node: ast.AST) -> str:
    return _text(node).replace("[]", "").rpartition(".")[2]


def counted(sources: Sources) -> tuple[int, int, list[int]]:
    """Lines that declare fields, all lines of modules that are looked through as a whole, and in how many files each
    metric is declared."""
    known, lines, whole = fields(), 0, 0
    files: dict[str, set[str]] = defaultdict(set)
    for name in sources.names():
        text, within = sources.text(name), IN_PART.get(name)
        whole += 0 if within is not None else len(text.splitlines())
        for names, count in declared(text, within, known):
            lines += count if names else 0
            for field in names:
                files[field].add(name)
    return lines, whole, [len(files[name]) for name in metrics()]


def main() -> None:
    """Print both counts beside what is to be reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=BEFORE, help="a commit to compare with")
    before, now = counted(Sources(parser.parse_args().before)), counted(Sources(None))
    places = [f"{1 + statistics.mean(count[2]):.1f}, at most {1 + max(count[2])}" for count in (before, now)]
    rows = [
        ("lines that declare fields", f"{before[0]:,}", f"{now[0]:,}", f"{REACH_LINES:,}"),
        ("all lines of these modules of analysis/", f"{before[1]:,}", f"{now[1]:,}", ""),
        ("places that a metric has, with what makes it", *places, str(REACH_PLACES)),
    ]
    print(columns(("", "before", "now", "to reach"), rows))


if __name__ == "__main__":
    main()
