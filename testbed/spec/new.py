"""Writing a spec to begin with: a commented template, the files that it names, and a schema for editors beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from testbed.base.errors import OutputError, UsageError
from testbed.base.nearest import nearest
from testbed.files import foreign
from testbed.files.writing import named_errors, write_bytes
from testbed.spec import check_name
from testbed.spec.json_schema import TITLE, schema

TEMPLATES = Path(__file__).with_name("templates")
NAMES = ("quickstart", "sweep", "profile", "script", "gate")
BESIDE = {"script": ("train.py",)}
"""Files that a template needs beside it, by template."""
SCHEMA = "testbed.schema.json"
"""Name of the schema's file. Offline, an editor's schema has to be a file: a spec names it by its way from there."""
HEAD = f"# yaml-language-server: $schema=./{SCHEMA}\n"


def write(folder: Path, name: str, template: str) -> list[Path]:
    """Write ``NAME.yaml`` and what it needs into a folder; return the paths of all files, that of the spec first.

    Raises:
        UsageError: there is no such template, or the name cannot be an experiment's.
        OutputError: one of the files is there already, or cannot be written.
    """
    if template not in NAMES:
        raise UsageError(f"--from {template}: there is no such template", fix=nearest(template, NAMES))
    name = name.removesuffix(".yaml")
    check_name(name)
    text = (TEMPLATES / f"{template}.yaml").read_text().replace(f"{template}.yaml", f"{name}.yaml")
    spec = folder / f"{name}.yaml"
    files = {spec: HEAD + text.replace(f"runs/{template}-", f"runs/{name}-")}
    files |= {folder / one: (TEMPLATES / one).read_text() for one in BESIDE.get(template, ())}
    for path in files:
        if os.path.lexists(path):
            other = "give another name, " if path == spec else ""
            raise OutputError(f"{path}: is there already", fix=f"{other}change to an empty directory, or move it")
    _write_schema(folder / SCHEMA)
    for path, content in files.items():
        write_bytes(path, content.encode())
    return [*files, folder / SCHEMA]


def _write_schema(path: Path) -> None:
    """Write the schema; one that an earlier version wrote is replaced.

    Raises:
        OutputError: there is another file of that name.
    """
    if os.path.lexists(path) and not _is_schema(path):
        raise OutputError(f"{path}: is there already, and is no schema of testbed", fix="move it, or change directory")
    with named_errors(path):
        write_bytes(path, (json.dumps(schema(), indent=1) + "\n").encode())


def _is_schema(path: Path) -> bool:
    try:
        return foreign.read_object(path).get("title") == TITLE
    except (OSError, foreign.UnfitError):
        return False
