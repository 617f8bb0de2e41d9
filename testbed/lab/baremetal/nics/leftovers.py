"""Leftovers of runs that were cut off on a host, found by their marks; runs on the host.

A run's mark is its token: the last word of the owner of a shaping, the name of a working directory, and a word on the
command line of its agent. While that agent lives, nothing of the run is left over; but where its connection was lost
and it has not noticed, the agent itself is, for the one that comes after it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.base.errors import HostError
from testbed.lab.baremetal.nics import shaper, undoing

AGENTS = ("testbed.lab.baremetal.on_hosts.agent", "testbed.lab.machines.on_machine.agent")
END_S = 3.0
"""Seconds that an agent may take to end what it has started, and to undo."""


def find(home: str) -> list[dict[str, Any]]:
    """List leftovers: ``what`` it is, whose (``owner``), its ``token``, and since when (wall clock)."""
    living, found = {_token(owner) for owner in _agents().values()}, []  # tokens of agents that run
    state = undoing.state()
    if state is not None and (token := _token(state.wanted["owner"])) not in living:
        owner = state.wanted["owner"]
        nics = ", ".join(nic["name"] for nic in state.wanted["nics"])
        found.append({"what": f"shaping of {nics}", "owner": owner, "token": token, "since": _when(state.since)})
    work = Path(home, "work")
    for folder in sorted(work.iterdir()) if work.is_dir() else ():
        if folder.name not in living:
            since = _when(folder.lstat().st_mtime)
            found.append({"what": f"directory {folder}", "owner": "", "token": folder.name, "since": since})
    return found


def remove(home: str) -> None:
    """Undo and delete what :func:`find` finds. Raises HostError: it cannot be deleted."""
    for one in find(home):
        if one["owner"]:
            shaper.undo(one["owner"])
        else:
            # Workers may have made anything there: rm follows no link, and goes down as deep as they have gone.
            folder = Path(home, "work", one["token"])
            done = subprocess.run(["rm", "-rf", "--one-file-system", "--", str(folder)], capture_output=True, text=True)
            if done.returncode:
                raise HostError(f"{folder} cannot be deleted: {done.stderr.strip()[:500]}", fix=f"see: ls -la {folder}")
    with suppress(OSError):  # a living run has its directory there, or there is none
        Path(home, "work").rmdir()


def end_former(owner: str) -> None:
    """End the agents of the same run on this host but ourselves, so that none of their workers runs beside ours, and
    none undoes at its end what we have done. SSH may take many minutes to notice a connection that was lost."""
    here = Path("/proc/self/ns/net")
    for pid, whose in _agents().items():
        with suppress(OSError):  # it has ended meanwhile, or is not ours
            if whose == owner and pid != os.getpid() and here.samefile(f"/proc/{pid}/ns/net"):
                _end(os.pidfd_open(pid))


def _end(process: int) -> None:
    """End an agent. At the second signal, it leaves even in the middle of telling something that nobody takes."""
    try:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(process, number)
            if select.select([process], [], [], END_S)[0]:
                return
    finally:
        os.close(process)


def _token(owner: str) -> str:
    return owner.rpartition(" ")[2]


def _agents() -> dict[int, str]:
    """Owners of agents that run, by PID."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            words = undoing.arguments(int(path.name))
            if words[1:3] == ["-P", "-m"] and len(words) == 6 and words[3] in AGENTS:  # and not sudo, which began it
                found[int(path.name)] = words[-1]
    return found


def _when(wall_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))
