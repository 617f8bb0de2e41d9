"""The lab ``docker``, as the rest of testbed knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testbed.lab.docker.limits import Containers
from testbed.lab.place import DeclaredPlace, Leftover, Opening

if TYPE_CHECKING:
    from testbed.lab.base import Lab


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
        from testbed.lab.docker.leftovers import find

        return find(self.name)

    def remove(self, leftover: Leftover) -> None:
        from testbed.lab.docker.leftovers import remove

        remove(leftover)


PLACE = DockerPlace("docker", options=Containers, has_programs=False)
