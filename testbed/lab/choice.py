"""Which labs there are, and how each is opened; none is imported before it is wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from testbed.base.errors import UsageError
from testbed.lab.docker.limits import Containers

if TYPE_CHECKING:
    from testbed.lab.netns import NetnsLab

LabName = Literal["netns", "mininet", "docker", "baremetal"]
"""What a spec's ``lab`` and ``--backend`` can say."""


def opener(name: LabName, containers: Containers | None = None) -> Callable[..., NetnsLab]:
    """What opens a lab of that name; ``containers`` are those of the lab docker.

    Raises:
        MissingToolError: what it needs is not installed; so does the opening itself.
        UsageError: it has no meaning without an inventory.
        PrivilegeError: when it is called, if the kernel does not let this user have such a lab.
    """
    if name == "mininet":
        from testbed.lab.mininet import MininetLab

        return MininetLab
    if name == "docker":
        from testbed.lab.docker.lab import DockerLab

        return partial(DockerLab, containers=containers)
    if name == "baremetal":
        raise UsageError("the lab baremetal needs to know its hosts", fix="name them: --inventory FILE")
    from testbed.lab.netns import NetnsLab

    return NetnsLab
