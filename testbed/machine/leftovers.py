"""What killed runs have left on this machine, told by its mark of ownership, never by its name.

The labs ``netns`` and ``mininet`` leave nothing: the kernel frees what they have made. Containers belong to Docker,
which removes them when the run that has made them ends, unless they never began or stand still.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from testbed.base.errors import MissingToolError, PrivilegeError, UsageError
from testbed.lab.docker.daemon import Daemon
from testbed.lab.docker.listener import Listener


@dataclass(frozen=True)
class Leftover:
    """One thing that a run has made, and whose process is gone. ``id`` is a container's, None for a folder."""

    lab: str
    name: str
    state: str
    owner_pid: int
    id: str | None


def find() -> tuple[list[Leftover], list[str]]:
    """What is left, and why a place could not be looked at.

    Raises:
        LabError: Docker answers with an error.
    """
    folders = [
        Leftover("docker", str(folder), "folder", owner.pid, None)
        for folder, owner in Listener.folders()
        if not owner.may_live()
    ]
    try:
        marked = Daemon().marked()
    except (MissingToolError, PrivilegeError, UsageError) as error:
        return folders, [f"docker: {error.problem}"]
    containers = [
        Leftover("docker", one.name, one.state, one.owner.pid, one.id) for one in marked if not one.owner.may_live()
    ]
    return [*containers, *folders], []


def remove(found: Iterable[Leftover]) -> None:
    """Remove what was found.

    Raises:
        LabError: Docker refuses.
    """
    for one in found:
        if one.id is None:
            shutil.rmtree(one.name, ignore_errors=True)  # whoever may not, sees it again
        else:
            Daemon().remove(one.id)
