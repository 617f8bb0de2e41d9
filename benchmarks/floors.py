"""Folders of testbed that import each other in a circle, and imports that go up a floor, counted in the source.

    python benchmarks/floors.py [ROOT]

The floors are those of the contract `layers` in the pyproject.toml beside this file, whichever checkout ``ROOT`` is.
Imports for types alone and imports inside functions count like all others. The reference is what was counted before the
folders had an order: 13 folders in one circle, and 46 imports that went up.
"""

from __future__ import annotations

import argparse
import ast
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BEFORE = {"folders in a circle": 13, "imports that go up a floor": 46}
WHOLE = "__init__"
"""``testbed`` itself. It is above all folders, as its names are those of the Python interface."""
ALONE = frozenset({WHOLE, "__main__", "autoload", "errors", "pytest_plugin"})
"""Modules of ``testbed`` that are no folders: entry points, and names for users."""


class Import(NamedTuple):
    """A module of ours that another imports."""

    by: str
    of: str


def floors(root: Path = ROOT) -> list[list[str]]:
    """The folders of each floor, from top to bottom, as the contract has them."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [names for layer in layers if (names := [name for name in layer.split(" | ") if name not in ALONE])]


def modules(root: Path = ROOT) -> dict[str, Path]:
    """All modules of ``testbed`` by their dotted names; the links to folders at the top are followed."""
    found = {}
    for folder, _, names in os.walk(root / "testbed", followlinks=True):
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            parts = path.relative_to(root).with_suffix("").parts
            if "templates" not in parts:  # files for users to change
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(found: Mapping[str, Path]) -> Iterator[Import]:
    """Every import of a module of ours by another, once."""
    for name, path in sorted(found.items()):
        yield from sorted({Import(name, of) for of in imported(path.read_text(), found)})


def imported(text: str, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules among those that are ``known`` which a module's text imports, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            package = str(node.module)
            wholes = (f"{package}.{alias.name}" for alias in node.names)
            yield from (whole if whole in known else package for whole in wholes)


def folder(module: str) -> str:
    """The folder of ``testbed`` that a module is in, or the name of a module beside the folders."""
    return module.split(".")[1] if "." in module else WHOLE


def between(every: Sequence[Import]) -> Iterator[tuple[Import, str, str]]:
    """The imports of one folder by another, or of ``testbed`` itself by a folder, with both."""
    for one in every:
        by, of = folder(one.by), folder(one.of)
        if by != of and by not in ALONE and of not in ALONE - {WHOLE}:
            yield one, by, of


def upward(every: Sequence[Import], order: Sequence[Sequence[str]]) -> list[Import]:
    """The imports that go to a floor above, or to another folder on the same one.

    Raises:
        KeyError: a folder is on no floor.
    """
    height = {name: -number for number, names in enumerate(order) for name in names} | {WHOLE: 1}
    return [one for one, by, of in between(every) if height[of] >= height[by]]


def circles(every: Sequence[Import]) -> list[set[str]]:
    """Groups of folders of which each imports each other, by way of others or directly."""
    reached: dict[str, set[str]] = {}
    for _, by, of in between(every):
        reached.setdefault(by, set()).add(of)
        reached.setdefault(of, set())
    for middle in reached:
        for ends in reached.values():
            if middle in ends:
                ends |= reached[middle]
    found: list[set[str]] = []
    for name, ends in reached.items():
        if name in ends and not any(name in group for group in found):
            found.append({other for other in ends if name in reached[other]})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="a checkout (default: this one)")
    every = list(imports(modules(parser.parse_args().root)))
    ups = upward(every, floors())
    now = {"folders in a circle": sum(map(len, circles(every))), "imports that go up a floor": len(ups)}
    for what, count in now.items():
        print(f"{what}: {count} (before: {BEFORE[what]})")
    for one in ups:
        print(f"  {one.by} -> {one.of}")


if __name__ == "__main__":
    main()
