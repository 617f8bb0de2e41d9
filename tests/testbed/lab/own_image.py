"""An image of somebody's own, made without a registry: this Python, its standard library, and testbed or not."""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Sequence
from pathlib import Path

from testbed.lab.docker import image
from testbed.lab.docker.daemon import Daemon

CODE = "opt/code"
LEFT_OUT = {"test", "idlelib", "ensurepip", "site-packages", "dist-packages", "__pycache__", "lib2to3", "tkinter"}


def make(name: str, *, with_testbed: bool, instead: str = "", changes: Sequence[str] = ()) -> None:
    """Make it under this name, with the tag ``latest``. ``instead`` is what a module is like that it has for testbed,
    and ``changes`` are lines of a Dockerfile."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        python, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
        for path in {python, *_needed(python, library)}:
            tar.add(path.resolve(), str(path).lstrip("/"))
        tar.add(library, str(library).lstrip("/"), filter=_slim)
        link = tarfile.TarInfo("usr/local/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, str(python)
        tar.addfile(link)
        if instead:
            module = tarfile.TarInfo(f"{CODE}/testbed.py")
            module.size = len(instead)
            tar.addfile(module, io.BytesIO(instead.encode()))
        for package in ("testbed", "topologies", "workloads") if with_testbed else ():
            tar.add(image.code() / package, f"{CODE}/{package}", filter=_slim)
    Daemon().api.import_image_from_data(
        stream.getvalue(), repository=name, changes=[f"ENV PYTHONPATH=/{CODE}", *changes]
    )


def _slim(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    last = Path(info.name).name
    return None if last in LEFT_OUT or last.startswith("config-") else info


def _needed(python: Path, library: Path) -> set[Path]:
    """The shared libraries of Python and its extensions, under the paths at which they are looked for."""
    extensions = [str(one) for one in (library / "lib-dynload").glob("*.so")]
    said = subprocess.run(["ldd", str(python), *extensions], capture_output=True, text=True, check=False).stdout
    words = [word for line in said.splitlines() if "=>" in line or "ld-linux" in line for word in line.split()]
    return {Path(word) for word in words if word.startswith("/")}
