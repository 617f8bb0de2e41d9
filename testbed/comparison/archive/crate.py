"""The archive's page for programs: RO-Crate 1.1, JSON-LD in ``ro-crate-metadata.json``.

https://www.researchobject.org/ro-crate/specification/1.1. ``docs/decisions/archives.md`` says why no library writes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from testbed.base.printable import printable
from testbed.comparison.archive.facts import Facts
from testbed.comparison.archive.packing import Entry

NAME = "ro-crate-metadata.json"
VERSION = "https://w3id.org/ro/crate/1.1"
FORMATS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".py": "text/x-python",
    ".txt": "text/plain",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
}
"""Media type of a file, by the end of its name."""
MADE_BY = "#testbed"


def text(facts: Facts, entries: Sequence[Entry]) -> str:
    """JSON of an archive with these entries.

    Raises:
        OutputError: an entry cannot be read.
    """
    about = {"@id": NAME, "@type": "CreativeWork", "conformsTo": {"@id": VERSION}, "about": {"@id": "./"}}
    graph = [about, _dataset(facts, entries), _software(facts), *map(_file, _sorted(entries))]
    crate = {"@context": f"{VERSION}/context", "@graph": graph}
    return f"{json.dumps(crate, indent=2, ensure_ascii=False)}\n"


def _sorted(entries: Sequence[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.name)


def _dataset(facts: Facts, entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{facts.name}: a run of testbed",
        "description": f"How fast gradient-synchronisation schemes train on networks. {facts.trials_text}.",
        "datePublished": facts.ended.isoformat(),
        "mainEntity": {"@id": facts.spec_name},
        "hasPart": [{"@id": _address(entry.name)} for entry in _sorted(entries)],
        "mentions": {"@id": MADE_BY},
    }


def _software(facts: Facts) -> dict[str, Any]:
    environment = facts.run.environment
    version = (environment.get("packages") or {}).get("testbed")
    commit = (environment.get("git") or {}).get("commit")
    known = {"version": version and printable(str(version)), "identifier": commit and printable(str(commit))}
    return {"@id": MADE_BY, "@type": "SoftwareApplication", "name": "testbed"} | {k: v for k, v in known.items() if v}


def _file(entry: Entry) -> dict[str, Any]:
    kind = FORMATS.get(PurePosixPath(entry.name).suffix, "application/octet-stream")
    told = {"name": entry.name, "encodingFormat": kind, "contentSize": str(entry.size_bytes)}
    return {"@id": _address(entry.name), "@type": "File"} | told


def _address(name: str) -> str:
    """A file's name as the path of an URL."""
    return quote(name)
