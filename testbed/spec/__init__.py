"""The experiment as a person writes it: YAML in, a checked :class:`Spec` out.

``yaml`` reads text strictly, ``override`` applies ``--set``, ``axes`` finds what is swept (``ranges``), ``grid`` makes
every point of it that conditions leave (``where``), ``model`` is the schema of each, ``explain`` words its errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.spec.grid import Grid, grid
from testbed.spec.model import Arm, Spec
from testbed.spec.override import apply
from testbed.spec.yaml import parse, read_text

__all__ = ["Arm", "Source", "Spec", "load", "read"]


@dataclass(frozen=True)
class Source:
    """A spec and where it came from.

    ``text`` is the file's content, ``overrides`` what ``--set`` changed, ``folder`` the directory that relative paths
    in the spec start from.
    """

    name: str
    text: str
    folder: Path
    overrides: tuple[str, ...]
    grid: Grid

    @property
    def spec(self) -> Spec:
        """The spec; where fields are swept, at the first point."""
        return self.grid.spec


def load(path: Path, overrides: Sequence[str] = ()) -> Source:
    """Read and check a spec's file.

    Raises:
        OutputError: the file cannot be read.
        SpecError: it makes no sense; every mistake is listed.
        UsageError: an override is not ``key=value``.
    """
    return read(read_text(path), path.name, path.parent, overrides)


def read(text: str, name: str, folder: Path, overrides: Sequence[str] = ()) -> Source:
    """Check a spec's text; errors call it ``name``.

    Raises:
        SpecError: it makes no sense; every mistake is listed.
        UsageError: an override is not ``key=value``.
    """
    settings = parse(text, name)
    overridden = apply(settings, overrides)
    return Source(name, text, folder, tuple(overrides), grid(settings, name, overridden, folder))
