"""The archive that prepare.yml unpacks on a host: the packages that workers and the agent import, in a directory named
by its content; and a mark, by which reset.yml knows that the directory around it is ours."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from testbed.base.python import PACKAGE

MARK, SAID = ".testbed", b"made by testbed's playbooks/prepare.yml; playbooks/reset.yml removes it\n"
LEFT_OUT = "analysis"
"""The package of ``testbed`` that nothing on a host imports."""
SUFFIXES = (".py", ".so")
"""Endings of files to take. A host whose Python and processor are like ours uses the compiled ones; another one does
without."""
DIGITS = 12


def bundle(folder: Path) -> tuple[str, Path]:
    """Write the archive into ``folder``; return its code's digest, and its path. The same code gives the same bytes."""
    root = PACKAGE.parent
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(_sources(root / "testbed"))}
    digest = hashlib.sha256(b"".join(f"{name} {len(data)}\n".encode() + data for name, data in files.items()))
    named = digest.hexdigest()[:DIGITS]
    path = folder / f"testbed-{named}.tar"
    with tarfile.open(path, "w") as tar:
        for name, data in {MARK: SAID, **{f"code-{named}/{name}": data for name, data in files.items()}}.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return named, path


def _sources(package: Path) -> Iterator[Path]:
    """Yield the files to take. In a clone, some packages are links to folders beside ``testbed``; in the archive, none
    is."""
    for folder, folders, names in os.walk(package, followlinks=True):
        if Path(folder) == package:
            folders.remove(LEFT_OUT)
        yield from (Path(folder, name) for name in names if name.endswith(SUFFIXES))
