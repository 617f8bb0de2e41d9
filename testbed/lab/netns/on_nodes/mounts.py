"""Changes of mounts in the calling process's namespace: read-only, hidden, brought back, copied on write."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from testbed.lab.netns.kernel_interface import kernel

TABLE = "/proc/self/mountinfo"
SCRATCH = "/tmp/.copies"


def mounted() -> list[Path]:
    """Paths of all mounts, in the order in which they were made."""
    fields = (line.split()[4] for line in Path(TABLE).read_bytes().splitlines())
    # \\040 is a blank
    return [Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), one))) for one in fields]


def remount(path: str, flags: int) -> None:
    """Change the options of a mount to exactly these. Raises OSError."""
    kernel.mount("none", path, "", kernel.MS_REMOUNT | kernel.MS_BIND | flags)


def bind(path: str | Path, flags: int) -> None:
    """Make a file or folder a mount of its own, with these options. Raises OSError."""
    kernel.mount(str(path), str(path), "", kernel.MS_BIND | kernel.MS_REC)
    remount(str(path), flags)


def tmpfs(path: str, mode: int) -> None:
    """Hide what is in a folder behind an empty one, in memory. Raises OSError."""
    kernel.mount("tmpfs", path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={mode:o}")


class Held:
    """Files and folders that stay where they are also after something is mounted above them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
        self.paths = tuple(self._held)

    def put_back(self) -> None:
        """Make the files and folders appear at their paths again. Raises OSError."""
        for path, fd in self._held.items():
            if Path(f"/proc/self/fd/{fd}").is_dir():
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            kernel.mount(f"/proc/self/fd/{fd}", str(path), "", kernel.MS_BIND | kernel.MS_REC)
            os.close(fd)


class Copy:
    """A folder that is to be copied on write: what is below is seen, and what is written stays in memory.

    What is mounted below it is seen as well, and keeps its options.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lower = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._inner = Held([path for path in mounted() if folder in path.parents])

    def mount(self) -> int:
        """Mount the copy above the folder; return a descriptor of the folder of what is written there. Raises
        OSError."""
        scratch = Path(SCRATCH)
        scratch.mkdir()
        tmpfs(SCRATCH, 0o700)
        layers = {"upperdir": scratch / "upper", "workdir": scratch / "work"}
        for layer in layers.values():
            layer.mkdir()
        above = ",".join(f"{name}={path}" for name, path in layers.items())
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            options = f"lowerdir=/proc/self/fd/{self._lower},{above}"
            kernel.mount("overlay", str(self._folder), "overlay", kernel.MS_NOSUID | kernel.MS_NODEV, options)
            written = os.open(layers["upperdir"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(self._lower)
            kernel.unmount(SCRATCH)  # and nobody else can write there: the copy has it still
            scratch.rmdir()
        self._inner.put_back()
        return written
