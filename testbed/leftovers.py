"""What killed runs have left on this machine, told by its mark of ownership, never by its name.

The labs ``netns`` and ``mininet`` leave nothing: the kernel frees what they have made. Containers belong to Docker,
which removes them when the run that has made them ends, unless they never began or stand still.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.errors import MissingToolError, PrivilegeError, UsageError
from testbed.lab.docker.daemon import Daemon


@dataclass(frozen=True)
class Leftover:
    """One thing that a run has made, and whose process is gone."""

    lab: str
    name: str
    state: str
    owner: str
    id: str


def find() -> tuple[list[Leftover], list[str]]:
    """What is left, and why a place could not be looked at.

    Raises:
        LabError: Docker answers with an error.
    """
    try:
        marked = Daemon().marked()
    except (MissingToolError, PrivilegeError, UsageError) as error:
        return [], [f"docker: {error.problem}"]
    return [
        Leftover("docker", one.name, one.state, f"process {one.owner.pid}", one.id)
        for one in marked
        if not one.owner.may_live()
    ], []


def remove(found: Iterable[Leftover]) -> None:
    """Remove what was found.

    Raises:
        LabError: Docker refuses.
    """
    for one in found:
        Daemon().remove(one.id)
