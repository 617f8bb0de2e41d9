"""Keys of a spec, a schema of them for editors, and specs to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testbed.spec import json_schema, lookup


def keys(asked: str = "") -> list[lookup.Shown]:
    """List what there is at a place of a spec, such as ``workload.compute``, and below it; empty for all.

    Raises:
        UsageError: there is no such key.
    """
    return lookup.shown(asked)


def schema() -> dict[str, Any]:
    """Make a JSON Schema that accepts every spec, and refuses most mistakes."""
    return json_schema.schema()


def begin(name: str, template: str, folder: Path) -> list[Path]:
    """Write a commented spec that runs, and what it needs; return the paths, that of the spec first.

    Raises:
        UsageError: there is no such template, or the name cannot be an experiment's.
        OutputError: a file is there already, or cannot be written.
    """
    return json_schema.write_new(folder, name, template)
