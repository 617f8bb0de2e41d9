"""Containers and folders of runs that were killed, told by their mark of ownership, never by their name alone.

Docker removes a container when the run that has made it ends, unless it never began or stands still.
"""

from __future__ import annotations

import shutil

from testbed.base.errors import MissingToolError, PrivilegeError, UsageError
from testbed.lab.docker.daemon import Daemon
from testbed.lab.docker.listener import Listener
from testbed.lab.place import Leftover


def find(lab: str) -> tuple[list[Leftover], list[str]]:
    """List what is left, and reasons why something could not be looked at.

    Raises:
        LabError: Docker answers with an error.
    """
    folders = [
        Leftover(lab, str(folder), "folder", owner.pid, None)
        for folder, owner in Listener.folders()
        if not owner.may_live()
    ]
    try:
        marked = Daemon().marked()
    except (MissingToolError, PrivilegeError, UsageError) as error:
        return folders, [f"{lab}: {error.problem}"]
    containers = [
        Leftover(lab, one.name, one.state, one.owner.pid, one.id) for one in marked if not one.owner.may_live()
    ]
    return [*containers, *folders], []


def remove(one: Leftover) -> None:
    """Remove a container, or a folder, which has no ``id``.

    Raises:
        LabError: Docker refuses.
    """
    if one.id is None:
        shutil.rmtree(one.name, ignore_errors=True)  # whoever may not, sees it again
    else:
        Daemon().remove(one.id)
