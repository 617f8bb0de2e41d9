"""The pages of ``docs/`` that are made from the code each time the documentation is built. Git does not have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generate import (
    benchmarks,
    catalogue,
    command_line,
    dictionary,
    exit_codes,
    notebook,
    public_scripts,
    run_directory,
    spec_keys,
)
from testbed.fidelity import page as checks

DOCS = Path(__file__).parents[1]
PAGES: Mapping[str, Callable[[], str]] = {
    "start/first.md": notebook.page,
    "reference/spec.md": spec_keys.page,
    "reference/command-line.md": command_line.page,
    "reference/schemes.md": catalogue.schemes_page,
    "reference/topologies.md": catalogue.topologies_page,
    "reference/models.md": catalogue.models_page,
    "reference/run-directory.md": run_directory.page,
    "reference/dictionary.md": dictionary.page,
    "reference/exit-codes.md": exit_codes.page,
    "reference/checks.md": checks.page,
    "reference/public-scripts.md": public_scripts.page,
    "benchmarks.md": benchmarks.page,
}
"""By path in ``docs/``, what makes the page."""


def write(folder: Path = DOCS) -> None:
    """Write all of them. A page that is there and would be the same is left alone, so Sphinx does not read it again."""
    for name, make in PAGES.items():
        path, text = folder / name, make()
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
