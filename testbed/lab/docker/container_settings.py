"""Docker's settings of a host's container: what it runs, what it may use, and what of this machine it sees."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.lab.base import SHARED
from testbed.lab.docker import image
from testbed.lab.docker.agent import CONTROL
from testbed.lab.docker.daemon import NO_HEALTHCHECK, labels
from testbed.lab.docker.place import Containers
from testbed.lab.netns.kernel_interface.kernel import NO_CORE_BYTES
from testbed.lab.netns.on_nodes.mounts import mounted
from testbed.lab.netns.sandbox_process import HUGE_PAGES

if TYPE_CHECKING:
    from docker.types import Mount

MOST_PROCESSES = 4096
"""The most processes on one host, threads included: more than any training script has, and few enough that a mistake
ends there."""
MOST_SAID = "64k"
"""Size of the log that Docker keeps on the disk of what a container's first process prints; older output is dropped."""
DROPPED = ("AUDIT_WRITE", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETPCAP", "SYS_CHROOT")
"""Capabilities that Docker gives every container, and no host needs."""


@dataclass(frozen=True)
class ContainerSettings:
    """Settings of a lab's containers, as Docker's API takes them.

    Attributes:
        lab_id: what marks the lab's containers.
        asked: what each of them may use.
        work: the folder of the trial, which they may read.
        reads: other folders that they may read.
    """

    lab_id: str
    asked: Containers
    work: Path | None
    reads: tuple[Path, ...]

    @property
    def command(self) -> list[str]:
        """Words that start a container's first process, without its arguments."""
        return [image.python() if self.asked.image is None else "python3", "-P", "-m", image.INSIDE]

    def own(self, name: str) -> dict[str, Any]:
        """Settings that differ from container to container, as in Docker's API."""
        own = image.environment() if self.asked.image is None else {}
        return {
            "entrypoint": [*self.command, CONTROL, name],
            "command": [],
            "hostname": name,
            "environment": {**HUGE_PAGES, **own},
            "labels": labels(self.lab_id, name),
            "healthcheck": NO_HEALTHCHECK,
            "stop_signal": "SIGKILL",  # the kernel keeps others from a container's first process
            "working_dir": str(Path.cwd()),  # so that relative paths mean the same
        }

    def of_machine(self, name: str, socket: str, hosts_file: str) -> dict[str, Any]:
        """Settings of a container towards this machine: no network, no privileges, limits, and what it sees."""
        return {
            **confinement(self.asked),
            "auto_remove": True,
            "extra_hosts": names(hosts_file),
            "mounts": self._mounts(name, socket),
        }

    def _mounts(self, name: str, socket: str) -> list[Mount]:
        """Mounts of a container: it sees files under the paths that they have here, and can write to its own folder of
        the trial, and to the one that all share, only. Docker mounts a folder that is within another after that.

        Docker before 25 makes a folder read-only, but not what is mounted below it. So each such mount is named, too.
        """
        from docker.types import Mount

        system = image.read_only() if self.asked.image is None else []
        work = [self.work] if self.work else []
        reads = {*image.outermost([*system, *self.reads]), *work}
        reads |= {inner for folder in reads for inner in mounted_below(folder)}
        own = [folder / inner for folder in work for inner in (name, SHARED) if (folder / inner).is_dir()]
        return [
            Mount(CONTROL, socket, type="bind", read_only=True),
            *(Mount(str(one), str(one), type="bind", read_only=True) for one in sorted(reads)),
            *(Mount(str(one), str(one), type="bind") for one in own),
        ]


def confinement(asked: Containers) -> dict[str, Any]:
    """Limits of a container, whatever its image: no network, no privileges, no dumps of memory, which a program of the
    machine's may take (see :func:`testbed.lab.netns.kernel_interface.kernel.leave_no_core`), and little output that is
    kept."""
    from docker.types import LogConfig, Ulimit

    return {
        "network_mode": "none",
        "cap_drop": list(DROPPED),
        "security_opt": ["no-new-privileges"],
        "nano_cpus": round(asked.cpus * 1e9),
        "mem_limit": asked.memory_bytes,
        "memswap_limit": asked.memory_bytes,  # no swap beside it
        "pids_limit": MOST_PROCESSES,
        "ulimits": [Ulimit(name="core", soft=NO_CORE_BYTES, hard=NO_CORE_BYTES)],
        "log_config": LogConfig(type=LogConfig.types.JSON, config={"max-size": MOST_SAID, "max-file": "1"}),
    }


def mounted_below(folder: Path) -> list[Path]:
    """Files and folders below ``folder`` that are mounts of their own, and that this user can reach; their paths begin
    with ``folder``, also where that is a link."""
    place = folder.resolve()
    return [folder / one.relative_to(place) for one in mounted() if place in one.parents and os.access(one, os.F_OK)]


def names(hosts_file: str) -> dict[str, str]:
    """Address of each name in a hosts file, but for those of the loopback."""
    lines: Iterable[list[str]] = (line.split() for line in hosts_file.splitlines())
    return {name: address for address, *names in lines for name in names if not address.startswith("127.")}
