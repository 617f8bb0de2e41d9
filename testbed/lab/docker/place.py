"""The lab ``docker``, as the rest of testbed knows it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from testbed.base.errors import MissingToolError, PrivilegeError, SpecError, UsageError
from testbed.base.units import size_text
from testbed.lab.place import DeclaredPlace, Leftover, Opening

if TYPE_CHECKING:
    from testbed.lab.base import Lab

LEAST_CPUS = 0.01
"""The least number of cores: Docker takes no less."""
LEAST_MEMORY_BYTES = 64 * 2**20
"""The least memory of a container: Python alone needs a third of it."""


@dataclass(frozen=True)
class Containers:
    """Limits of each host's container.

    Raises:
        SpecError: limits that no container can have.
    """

    image: str | None = field(default=None, metadata={"example": "testbed-worker"})
    """An image with ``python3`` and testbed. The default is the one that ``testbed image`` makes here."""
    cpus: float = 1.0
    """The number of processor cores that each container may use. It can be a fraction."""
    memory_bytes: int = 2**30
    """The memory of all processes of a container, and of the cache of files that they read. There is no swap."""

    def __post_init__(self) -> None:
        if self.cpus < LEAST_CPUS:
            raise SpecError(f"{self.cpus:g} CPUs; a container can have {LEAST_CPUS:g} or more", fix="give it more")
        if self.memory_bytes < LEAST_MEMORY_BYTES:
            raise SpecError(
                f"{size_text(self.memory_bytes)} of memory; a host needs {size_text(LEAST_MEMORY_BYTES)} at least",
                fix="give it more",
            )


class DockerPlace(DeclaredPlace):
    """Hosts are containers of this machine's Docker daemon."""

    def open(self, opening: Opening) -> Lab:
        from testbed.lab.docker.lab import DockerLab

        return DockerLab(every_address=opening.every_address, containers=opening.options)

    def check(self) -> None:
        from testbed.lab.docker.lab import check_ready

        check_ready()

    def lacks(self, module: str, python: str, options: Any) -> str:
        """The local image has the Python of this machine."""
        if options is None or options.image is None:
            return super().lacks(module, python, options)
        add = f"add RUN pip install {module} to its Dockerfile"
        return f"python3 of the image {options.image} has no module {module}: {add}, and build it again"

    def leftovers(self) -> tuple[list[Leftover], list[str]]:
        """Find containers and folders of runs that were killed, told by their mark of ownership, never by their name
        alone. Docker removes a container when the run that has made it ends, unless it never began or stands still."""
        from testbed.lab.docker.daemon import Daemon
        from testbed.lab.docker.listener import Listener

        folders = [
            Leftover(self.name, str(folder), "folder", owner.pid, None)
            for folder, owner in Listener.folders()
            if not owner.may_live()
        ]
        try:
            marked = Daemon().marked()
        except (MissingToolError, PrivilegeError, UsageError) as error:
            return folders, [f"{self.name}: {error.problem}"]
        containers = [
            Leftover(self.name, one.name, one.state, one.owner.pid, one.id)
            for one in marked
            if not one.owner.may_live()
        ]
        return [*containers, *folders], []

    def remove(self, leftover: Leftover) -> None:
        from testbed.lab.docker.daemon import Daemon

        if leftover.id is None:  # a folder
            shutil.rmtree(leftover.name, ignore_errors=True)  # whoever may not, sees it again
        else:
            Daemon().remove(leftover.id)


PLACE = DockerPlace("docker", options=Containers, has_programs=False)
