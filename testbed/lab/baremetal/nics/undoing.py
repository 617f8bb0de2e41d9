"""Record of what has been done to a host, so that it is undone: by us, or, where nobody comes, in time.

It is in ``/run``, which forgets at a reboot as the kernel does, in a folder that only root may enter: another user
could lock what is open to all, and nothing would be undone. One at a time may change it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from testbed.base.python import module_command
from testbed.files import private

STATE = Path("/run/testbed")
SYSTEMD = Path("/run/systemd/system")
WAITER = "testbed.lab.baremetal.nics.shaper"
"""The module that, called with ``wait`` and :attr:`State.since`, undoes everything once the deadline has passed."""


@dataclass
class State:
    """The record: what was asked for, and how to undo it, the last step first."""

    wanted: dict[str, Any]
    undo: list[list[Any]] = field(default_factory=list)
    since: float = 0.0
    """Wall-clock time of the shaping."""


def state() -> State | None:
    """Read what has been done to this host and not been undone."""
    try:
        return State(**json.loads((STATE / "shape.json").read_text()))
    except FileNotFoundError:
        return None


def write(found: State) -> None:
    """Write down what is about to be done, within :func:`lock`; it can stay for its whole time from now on."""
    _write(STATE / "shape.json", json.dumps(asdict(found)))
    extend()


def forget() -> None:
    """Delete the record: all of it is undone."""
    for name in ("shape.json", "deadline", "waiter"):
        (STATE / name).unlink(missing_ok=True)


def extend() -> None:
    """Put the deadline off, once more for the whole time."""
    found = state()
    if found:
        _write(STATE / "deadline", str(time.monotonic() + found.wanted["undo_s"]))


def expired() -> bool:
    """Whether the deadline has passed."""
    try:
        return time.monotonic() > float((STATE / "deadline").read_text())
    except (FileNotFoundError, ValueError):
        return True


@contextmanager
def lock() -> Iterator[None]:
    """Lock this host's record: one process at a time may change it. Raises PrivilegeError: the folder is another
    user's, or we are not root."""
    with private.locked(STATE, wait=True):
        yield


def _write(path: Path, content: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(content)
    temporary.replace(path)


def arm() -> None:
    """Start the process that undoes in time, as a unit of systemd where that runs: a session's end does not end it
    there."""
    found = state()
    assert found is not None  # written down before anything was changed
    words = module_command(WAITER, "wait", repr(found.since))
    path = f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}"
    if SYSTEMD.exists():
        words = ["systemd-run", "--quiet", "--collect", f"--setenv={path}", *words]
    process = subprocess.Popen(
        ["env", path, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    if not SYSTEMD.exists():
        _write(STATE / "waiter", str(process.pid))


def disarm() -> None:
    """End the process that undoes in time, if the process of that number is one still; systemd's sees by itself that
    all is undone."""
    with suppress(OSError, ValueError):
        pid = int((STATE / "waiter").read_text())
        if WAITER in arguments(pid):
            os.kill(pid, signal.SIGKILL)


def arguments(pid: int) -> list[str]:
    """Read the words of a process of ours or of root's; none of another's, which could pretend to be an agent, and
    whose memory, in which its words are, might keep us waiting. Raises OSError: it has ended."""
    status = Path(f"/proc/{pid}/status").read_bytes()
    user = int(status.partition(b"\nUid:")[2].split()[0])
    if user not in (0, os.getuid()):
        return []
    return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0")).split("\0")
