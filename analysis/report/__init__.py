"""A run, or several side by side, as a page (HTML), as Markdown or as a LaTeX table. The same runs, the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report.beside import beside
from testbed.analysis.report.points import apart
from testbed.base.endings import check_ending
from testbed.base.errors import UsageError
from testbed.files.writing import write_bytes
from testbed.topologies.load import no_code

FORMATS = {"html": "report.html", "md": "report.md", "latex": "report.tex"}
"""Formats that a report can be written in, and what the file in the run directory is then called."""
_MODULES = {"html": "page", "md": "markdown", "latex": "latex"}


def text(run_dirs: Sequence[Path], form: str = "html") -> str:
    """The report of one run, or of several side by side.

    Raises:
        UsageError: there is no such format.
        OutputError: one is not a run directory, or a file of it is damaged.
    """
    if form not in FORMATS:
        raise UsageError(f"--format {form}: no such format", fix=f"give one of {', '.join(FORMATS)}")
    render: Callable[[Run], str] = import_module(f"testbed.analysis.report.{_MODULES[form]}").render
    with no_code("a report", "testbed topo and testbed forest draw what files make"):
        runs = [load(path) for path in run_dirs]
        return render(apart(runs[0] if len(runs) == 1 else beside(runs)))


def write(run_dirs: Path | Sequence[Path], out: Path | None = None, form: str = "html") -> Path:
    """Write a report atomically, into the run's directory where ``out`` does not say another file; return its path.

    Raises:
        UsageError, OutputError: as :func:`text`, or the report cannot be written.
        DiskFullError: no room is left.
    """
    paths = [run_dirs] if isinstance(run_dirs, Path) else list(run_dirs)
    content = text(paths, form).encode()
    if out:
        check_ending(out, form, FORMATS)
    path = out or paths[0] / FORMATS[form]
    write_bytes(path, content)
    return path
