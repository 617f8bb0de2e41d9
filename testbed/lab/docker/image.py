"""Images of containers: one of this machine's own programs, or a user's.

``testbed image`` makes an image without a registry, from nothing: it has only what a mount cannot give, which is the
links of the file system's root (``/bin`` to ``usr/bin``) and a user of the name root. Programs, libraries, Python and
testbed are this machine's, mounted read-only. So it takes a moment to make, is a few kilobytes large, and what runs in
a container is what runs outside.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Any

from testbed.base.bounded_json import parse_json
from testbed.base.errors import LabError, MissingToolError
from testbed.base.python import PACKAGE, installed, search_path
from testbed.lab.docker import inside
from testbed.lab.docker.daemon import Daemon

REPOSITORY = "testbed-local"
SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders of the root that hold programs and libraries; some are links on most systems."""
SETTINGS = ("etc/alternatives", "etc/ld.so.cache", "etc/openmpi")
"""Files and folders that programs need to be found and to run."""
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
FOLDERS = ("etc", "proc", "sys", "dev", "run", "root", "tmp")
LONGEST_LINE = 300
"""The most characters of what an image says of why it cannot be a host."""
INSIDE = "testbed.lab.docker.inside"


def archive(root: Path = Path("/")) -> bytes:
    """Make the local image's file system, as a tar that is the same whenever the machine is."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in (*FOLDERS, *SYSTEM):
            if (root / name).is_symlink():
                _add(tar, name, tarfile.SYMTYPE, link=str((root / name).readlink()))
            elif name in FOLDERS or (root / name).is_dir():
                _add(tar, name, tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        for name, text in FILES.items():
            _add(tar, name, tarfile.REGTYPE, mode=0o644, data=text.encode())
    return stream.getvalue()


def _add(tar: tarfile.TarFile, name: str, kind: bytes, *, mode: int = 0o777, link: str = "", data: bytes = b"") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname, info.size = kind, mode, link, len(data)
    tar.addfile(info, io.BytesIO(data))


def local_name() -> str:
    """Name of the local image; it is another one on another machine, or after the root has changed."""
    return f"{REPOSITORY}:{hashlib.sha256(archive()).hexdigest()[:12]}"


def make(daemon: Daemon) -> str:
    """Make the local image, and return its name. Making it again changes nothing."""
    repository, tag = local_name().split(":")
    daemon.load(archive(), repository, tag)
    return f"{repository}:{tag}"


def read_only() -> list[Path]:
    """Folders and files of this machine that a container of the local image has: programs, libraries, Python with its
    packages, and testbed."""
    root = Path("/")
    system = [root / name for name in (*SYSTEM, *SETTINGS) if (root / name).exists() and not (root / name).is_symlink()]
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    python = [Path(sys.base_prefix), Path(sys.base_exec_prefix), Path(sys.prefix), *map(Path, given)]
    found = [*system, *(one.resolve() for one in (code(), *python) if one.exists())]
    return outermost(one for one in found if one != root)


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Leave out paths that are within another."""
    found: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return found


def code() -> Path:
    """The folder that testbed is imported from."""
    return PACKAGE.parent.resolve()


def environment() -> dict[str, str]:
    """Environment in which Python in a container of the local image finds what this one has."""
    paths = [str(Path(one).resolve()) for one in search_path()]
    there = installed()
    if there and there != there.resolve():  # by links that a container may lack
        paths.insert(0, str(code()))
    return {"PYTHONPATH": os.pathsep.join(paths), "PATH": os.environ.get("PATH", os.defpath)}


def python() -> str:
    """Path of this Python that leads to it in a container as well, where links on the way to it may be missing."""
    here, prefix = Path(sys.executable), Path(sys.prefix)
    return str(prefix.resolve() / here.relative_to(prefix) if here.is_relative_to(prefix) else here)


def require_local(daemon: Daemon) -> str:
    """Return the local image's name. Raises MissingToolError: it has not been made."""
    name = local_name()
    if daemon.image(name) is None:
        raise MissingToolError("the image for containers of this machine has not been made", fix="testbed image")
    return name


def require_own(daemon: Daemon, name: str, host: dict[str, Any], labels: dict[str, str]) -> None:
    """Look whether a user's image can be a host, in a container that may do what ``host`` says, as in Docker's API.
    Raises MissingToolError: there is no such image, or it lacks Python or testbed; or has another testbed than this."""
    if daemon.image(name) is None:
        raise MissingToolError(
            f"docker.image: there is no image {name!r} on this machine",
            fix=f"docker pull {quote(name)}, or docker build --tag {quote(name)} . (testbed's Dockerfile), "
            "or name another",
        )
    fix = "build it on testbed's Dockerfile, or leave docker.image out and take this machine's own (testbed image)"
    try:
        said = daemon.output(name, ["python3", "-P", "-m", INSIDE], host, labels)
    except LabError as error:
        if "not found" not in error.problem and "no such file" not in error.problem:
            raise
        raise MissingToolError(f"docker.image: {name!r} has no python3 on its PATH", fix=fix) from None
    try:
        found = parse_json(said.encode())
    except ValueError:
        last = said.rpartition("\n")[2][-LONGEST_LINE:] or "it says nothing"
        raise MissingToolError(f"docker.image: {name!r} cannot run testbed: {last}", fix=fix) from None
    ours = inside.about()
    if not isinstance(found, dict) or any(found.get(key) != ours[key] for key in ("wire", "job")):
        raise MissingToolError(f"docker.image: {name!r} has another version of testbed than this one", fix=fix)
