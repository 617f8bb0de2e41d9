"""What runs that were cut off have left on a host, by their marks; runs on the host.

A run's mark is its token: the last word of the owner of a shaping, the name of a working directory, and a word on the
command line of its agent. While that agent lives, nothing of the run is left over.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.lab.baremetal import shaper, undoing

AGENT = b"testbed.lab.baremetal.agent"


def find(home: str) -> list[dict[str, Any]]:
    """``what`` it is, whose (``owner``), its ``token``, and since when (wall clock)."""
    living, found = _living(), []
    state = undoing.state()
    if state is not None and (token := _token(state.wanted["owner"])) not in living:
        owner = state.wanted["owner"]
        nics = ", ".join(nic["name"] for nic in state.wanted["nics"])
        found.append({"what": f"shaping of {nics}", "owner": owner, "token": token, "since": _when(state.since)})
    work = Path(home, "work")
    for folder in sorted(work.iterdir()) if work.is_dir() else ():
        if folder.name not in living:
            since = _when(folder.stat().st_mtime)
            found.append({"what": f"directory {folder}", "owner": "", "token": folder.name, "since": since})
    return found


def remove(home: str) -> None:
    """Undo and delete what :func:`find` finds."""
    for one in find(home):
        if one["owner"]:
            shaper.undo(one["owner"])
        else:
            shutil.rmtree(Path(home, "work", one["token"]))
    with suppress(OSError):  # a living run has its directory there, or there is none
        Path(home, "work").rmdir()


def _token(owner: str) -> str:
    return owner.split()[-1]


def _living() -> set[str]:
    """Tokens of agents that run."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            words = path.read_bytes().rstrip(b"\0").split(b"\0")
            if AGENT in words:
                found.add(_token(words[-1].decode()))
    return found


def _when(wall_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))
