"""What runs on a host, as one archive named by its content: the packages that workers and the agent import."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import testbed

PACKAGES = ("testbed", "topologies", "workloads")
DIGITS = 12


def bundle(folder: Path) -> tuple[str, Path]:
    """Write the archive into ``folder``; its digest, and its path. The same code gives the same digest and bytes."""
    root = Path(testbed.__file__).parents[1]
    files = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    archive, digest = io.BytesIO(), hashlib.sha256()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in files:
            content, name = path.read_bytes(), path.relative_to(root).as_posix()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
            digest.update(f"{name} {len(content)}\n".encode() + content)
    named = digest.hexdigest()[:DIGITS]
    path = folder / f"testbed-{named}.tar"
    path.write_bytes(archive.getvalue())
    return named, path
