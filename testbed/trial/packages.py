"""Code of other installed packages that a trial uses: a digest of each, beside those of the files of its spec.

A package's kind of trial, controllers, workload, task, perturbations and lab are used where a trial names them. Its
checks look at every trial. Packages on the hosts of an inventory are not read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from importlib.machinery import ModuleSpec, all_suffixes
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.base.errors import MissingToolError
from testbed.base.groups import kind_of

if TYPE_CHECKING:
    from testbed.trial.model import Trial

DIGITS = 16
"""Hexadecimal digits of each digest: enough to tell code from what it was."""
USED: dict[str, Callable[[Trial], Collection[str]]] = {
    "kinds": lambda trial: {job.kind.name for job in trial.jobs},
    "workloads": lambda trial: {job.workload.kind for job in trial.jobs},
    "tasks": lambda trial: {job.training.kind for job in trial.synchronised},
    "perturbations": lambda trial: {kind_of(type(one)) for one in trial.network.perturbations},
    "controllers": lambda trial: {name for job in trial.jobs for name in job.kind.control.controllers},
    "labs": lambda trial: {trial.spec.lab},
}
"""Names that a trial uses, by group of entry points."""
CHECKS = "testbed.checks"


class Packages:
    """Packages that are installed beside testbed. The code of each is read once."""

    def __init__(self) -> None:
        found = entry_points()
        self._checks = list(found.select(group=CHECKS))
        self._named = {group: points for group in USED if (points := found.select(group=f"testbed.{group}"))}
        self._known: dict[EntryPoint, tuple[str, str]] = {}

    def of(self, trial: Trial) -> dict[str, str]:
        """Return, by package, its version and a digest of its code; empty for a trial that uses testbed's own code
        alone.

        Raises:
            MissingToolError: a module is not there or cannot be read.
        """
        return dict(sorted(self._digest(point) for point in self._points(trial)))

    def _points(self, trial: Trial) -> Iterator[EntryPoint]:
        yield from self._checks
        for group, points in self._named.items():
            names = USED[group](trial)
            yield from (point for point in points if point.name in names)

    def _digest(self, point: EntryPoint) -> tuple[str, str]:
        if point not in self._known:
            try:
                self._known[point] = _read(point)
            except (ImportError, OSError) as error:
                raise MissingToolError(
                    f"the entry point {point.name} of {point.group} is {point.value}, which cannot be read: {error}",
                    fix="install or repair the package that adds it, or uninstall that package",
                ) from error
        return self._known[point]


def _read(point: EntryPoint) -> tuple[str, str]:
    """Return a name for people, and version and digest."""
    assert point.dist is not None  # entry_points() gives each its distribution
    root = _root(point.module)
    digest = hashlib.sha256()
    for name, path in _files(root):
        digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return f"{root.name} of the package {point.dist.name}", f"{point.dist.version} {digest.hexdigest()[:DIGITS]}"


def _root(module: str) -> ModuleSpec:
    """Return the outermost package of a module, or the module where it is in none. Packages without a file of their own
    (namespaces) are passed by: several distributions share them.

    Raises:
        ImportError: there is no such module.
    """
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        found = find_spec(".".join(parts[:count]))
        if found is None:
            break
        if found.origin is not None:
            return found
    raise ImportError(f"there is no module {module}")


def _files(root: ModuleSpec) -> list[tuple[str, Path]]:
    """Return the code of a module or of a whole package, by names that do not depend on where it is installed."""
    if root.submodule_search_locations is None:
        return [(root.name, Path(root.origin))] if root.has_location and root.origin else []
    folders = map(Path, root.submodule_search_locations)
    found = [(path.relative_to(folder).as_posix(), path) for folder in folders for path in folder.rglob("*")]
    code = tuple(all_suffixes())
    return sorted((name, path) for name, path in found if name.endswith(code) and "__pycache__" not in path.parts)
