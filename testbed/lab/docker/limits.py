"""What a host's container is made from and may use: as asked for, and as the kernel says it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from testbed.base.errors import SpecError
from testbed.base.units import size_text

LEAST_CPUS = 0.01
"""Docker takes no less."""
LEAST_MEMORY_BYTES = 64 * 2**20
"""Python alone needs a third of it."""
CGROUPS = Path("/sys/fs/cgroup")
QUOTA_V1, PERIOD_V1, MEMORY_V1 = "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us", "memory/memory.limit_in_bytes"
QUOTA_V2, MEMORY_V2 = "cpu.max", "memory.max"


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


def cpus(root: Path = CGROUPS) -> float | None:
    """How many CPUs the kernel lets this container use; None where it sets no limit."""
    if (root / QUOTA_V2).exists():
        quota, period = (root / QUOTA_V2).read_text().split()
    elif (root / QUOTA_V1).exists():
        quota, period = ((root / name).read_text().strip() for name in (QUOTA_V1, PERIOD_V1))
    else:
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def memory_bytes(root: Path = CGROUPS) -> int | None:
    """How much memory the kernel lets this container use; None where it sets no limit."""
    for name in (MEMORY_V2, MEMORY_V1):
        if (root / name).exists():
            text = (root / name).read_text().strip()
            return None if text == "max" else int(text)
    return None
