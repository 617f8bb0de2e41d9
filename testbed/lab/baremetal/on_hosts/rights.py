"""Rights of the agent: those of the session's user, and root's only while it works on the host's network.

Workers may write, and plant links, wherever that user may. So whatever is done to files that they can reach is done
with the user's rights, and the kernel refuses what the user may not do.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def session_user() -> dict[str, Any]:
    """Arguments of :mod:`subprocess` for the user of the session, where sudo has made root of it."""
    if "SUDO_UID" not in os.environ or os.getuid():
        return {}
    return {"user": int(os.environ["SUDO_UID"]), "group": int(os.environ["SUDO_GID"]), "extra_groups": []}


def act_as_user() -> None:
    """Take the rights of the session's user from now on, and root's only within :func:`as_root`."""
    user = session_user()
    if user:
        os.setgroups([])
        os.setegid(user["group"])
        os.seteuid(user["user"])


def become_user() -> None:
    """Become the session's user for good, in a process of its own."""
    user = session_user()
    if user:
        os.seteuid(0)
        os.setgroups([])
        os.setgid(user["group"])
        os.setuid(user["user"])


@contextmanager
def as_root() -> Iterator[None]:
    """Have root's rights meanwhile, if this process was started with them."""
    user, group = os.geteuid(), os.getegid()
    if user == 0 or os.getuid():
        yield
        return
    os.seteuid(0)
    os.setegid(0)
    try:
        yield
    finally:
        os.setegid(group)
        os.seteuid(user)


def run_as_user(words: Sequence[str], limit_s: float | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end as the session's user. Raises subprocess.TimeoutExpired: it did not end in time.
    FileNotFoundError: there is no such program."""
    with as_root():  # only root may become another user
        return subprocess.run(
            list(words), stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, **session_user()
        )
