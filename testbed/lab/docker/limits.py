"""Limits of a host's container, and its image, as asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.base.errors import SpecError
from testbed.base.units import size_text

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
