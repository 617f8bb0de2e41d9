"""Words of the interface of a kind of trial, and lines that ask for the sort of a job, counted in the source.

    python benchmarks/kinds.py [ROOT] [--lines]

A word is a public method or attribute of the class ``Kind``. It is for one kind if the folder of one kind alone says
something else about it than the interface. A part is an attribute of ``Kind`` whose class, for what some kinds need,
is in ``workloads/kinds/parts.py``. A line asks for the sort of a job if it is outside of ``workloads/kinds/`` and
has one of the expressions :data:`ASKS`; lines that take a part from a kind are counted apart. The reference is what was
counted before there were parts.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("testbed", "topologies", "workloads", "analysis")
BEFORE = {"words": 80, "words of one kind": 33, "lines that ask": 86, "files that ask": 40, "lines that take parts": 0}
REACH = {"words": 30, "words of one kind": 0, "lines that ask": 50}
ASKS = re.compile(
    r"\bis_synchronised\b|\bis_shared\b|\bslot is (not )?None|\.slot (if|else)\b|if \w+(\.\w+)*\.slot\b|\"update\" in\b"
    r"|\bprogram is (not )?None|\bisinstance\([^()]*\b(Synchronised|Replay|Scripted|Forest)\)"
    r"|\bwrites_samples\b|\bsums_together\b|\bruns_our_engine\b|\btells_resent\b|\btells_unsent\b"
    r"|\bparallel_connections\b|\bshares_network\b|\bends_alone\b|\.kind\.goes_on\b"
)
"""Expressions that ask for the sort of a job: of its workload, its place beside other jobs, its samples, its kind."""


def classes(path: Path) -> list[ast.ClassDef]:
    """Return the classes that a module defines at its top level."""
    return [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]


def words(definition: ast.ClassDef) -> list[str]:
    """List the public methods and attributes that the body of a class defines, in its order."""
    names: list[str] = []
    for node in definition.body:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def interface(root: Path) -> tuple[list[str], list[str]]:
    """Return the words and the parts of ``Kind``."""
    folder = root / "workloads" / "kinds"
    (kind,) = (node for node in classes(folder / "base.py") if node.name == "Kind")
    types = {node.name for node in classes(folder / "parts.py")} if (folder / "parts.py").exists() else set[str]()
    parts = [
        node.target.id
        for node in kind.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and types & {name.id for name in ast.walk(node.annotation) if isinstance(name, ast.Name)}
    ]
    return [word for word in words(kind) if word not in parts], parts


def said_by(root: Path) -> Mapping[str, set[str]]:
    """Return for each word the kinds whose own classes define it."""
    folder = root / "workloads" / "kinds"
    found: dict[str, set[str]] = defaultdict(set)
    for path in [*folder.glob("*/kind.py"), folder / "script" / "command.py"]:
        kind = path.parent.name if path.stem == "kind" else path.stem
        for definition in classes(path):
            if definition.name.endswith("Kind"):
                for word in words(definition):
                    found[word].add(kind)
    for definition in classes(folder / "base.py"):
        if definition.name != "Kind":
            for word in words(definition):
                found[word].add("forests")
    return found


def of_parts(parts: Sequence[str]) -> re.Pattern[str]:
    """Return the expression of a line that takes one of these parts from a kind."""
    return re.compile(rf"kind\w*(\(.*\))?\.({'|'.join(parts)})\b(?!\.)" if parts else "$^")


def lines(root: Path, wanted: re.Pattern[str]) -> Iterator[tuple[Path, int, str]]:
    """Yield the lines of code outside of the kinds' folders that have the expression: file, number, text."""
    for top in FOLDERS:
        for path in sorted((root / top).rglob("*.py")):
            if (root / "workloads" / "kinds") in path.parents or path.is_symlink():
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if wanted.search(line.split("#")[0]):
                    yield path.relative_to(root), number, line.strip()


def main() -> None:
    """Print what is counted beside the reference and what is to be reached."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("root", nargs="?", type=Path, default=ROOT, help="a checkout")
    options.add_argument("--lines", action="store_true", help="print the lines that ask for the sort of a job")
    asked = options.parse_args()
    there, parts = interface(asked.root)
    by, asking, taking = said_by(asked.root), [*lines(asked.root, ASKS)], [*lines(asked.root, of_parts(parts))]
    single = {word: next(iter(by[word])) for word in there if len(by[word]) == 1}
    if asked.lines:
        for path, number, text in (*asking, *taking):
            print(f"{path}:{number}: {text}")
    now = {
        "words": len(there),
        "words of one kind": len(single),
        "lines that ask": len(asking),
        "files that ask": len({path for path, _, _ in asking}),
        "lines that take parts": len(taking),
    }
    print(f"{'':<22} {'before':>8} {'now':>8} {'reach':>8}")
    for name, count in now.items():
        print(f"{name:<22} {BEFORE[name]:>8} {count:>8} {REACH.get(name, ''):>8}")
    print(f"parts: {', '.join(parts) or 'none'}")
    for kind in sorted({*single.values()}):
        print(f"of {kind} alone: {', '.join(word for word, its in single.items() if its == kind)}")


if __name__ == "__main__":
    main()
