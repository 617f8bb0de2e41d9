"""A host's container: Docker's settings of it, which say what it runs, what it may use and what of this machine it
sees; and the container seen from the harness, which starts programs in it, signals them, and waits for them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.base.errors import LabError
from testbed.lab.base import SHARED
from testbed.lab.docker import image
from testbed.lab.docker.agent import CONTROL
from testbed.lab.docker.daemon import NO_HEALTHCHECK, labels
from testbed.lab.docker.inside import Inside
from testbed.lab.docker.place import Containers
from testbed.lab.docker.wire import Wire, WireClosedError
from testbed.lab.netns.kernel_interface.kernel import NO_CORE_BYTES
from testbed.lab.netns.on_nodes.attached import Attached
from testbed.lab.netns.on_nodes.mounts import mounted
from testbed.lab.netns.on_nodes.processes import Files
from testbed.lab.netns.sandbox_process import HUGE_PAGES
from testbed.lab.programs import Program
from testbed.lab.requests import Call

if TYPE_CHECKING:
    from docker.types import Mount

MOST_PROCESSES = 4096
"""The most processes on one host, threads included: more than any training script has, and few enough that a mistake
ends there."""
MOST_SAID = "64k"
"""Size of the log that Docker keeps on the disk of what a container's first process prints; older output is dropped."""
DROPPED = ("AUDIT_WRITE", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETPCAP", "SYS_CHROOT")
"""Capabilities that Docker gives every container, and no host needs."""
ANSWER_TIMEOUT_S = 30.0
"""Seconds that an answer may take which should take milliseconds."""
END_TIMEOUT_S = 5.0
"""Seconds that an answer may take when the container is ended anyway."""
PAGE_BYTES = 4096


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


class Container:
    """A container whose first process has said that it is there; methods may be called from several threads.

    Attributes:
        namespace: an open file of its network namespace.
        pid: of its first process, on this machine; 0 if it cannot be seen from here.
        python: what starts Python in it.
    """

    def __init__(self, node: str, line: Wire, namespace: int, said: dict[str, Any]) -> None:
        self.node = node
        self.namespace = namespace
        self.pid = line.peer_pid
        self.python = str(said["python"])
        self.cpus: float | None = said["cpus"]
        self.memory_bytes: int | None = said["memory_bytes"]
        self._line = line
        self._lock = threading.Lock()

    def run(self, program: Program, files: Files) -> tuple[int, Attached]:
        """Start a program with the given standard input, output and error (the caller keeps them); return its PID in
        the container, and what tells of its end."""
        status, theirs = socket.socketpair()
        with theirs:
            words, environment = list(program.words), dict(program.environment)
            pid = self._number(self._ask(Inside.run(words, environment, program.folder, (*files, theirs.fileno()))))
        return pid, Attached(status, lambda number: self._ask(Inside.signal(pid, number)))

    def signal_all(self, number: int) -> None:
        """Send a signal to everything that was started here."""
        self._ask(Inside.signal_all(number))

    def stopped(self, pids: Sequence[int]) -> list[int]:
        """PIDs of those of some programs that a signal has stopped."""
        found = self._ask(Inside.stopped(list(pids)))
        return [self._number(pid) for pid in (found if isinstance(found, list) else [found])]

    def namespaces(self, *kinds: str) -> list[int]:
        """Open namespaces of the container, such as ``mnt``; the caller closes them. Raises LabError: its first process
        is not to be seen from here, or has ended."""
        try:
            process = os.open(f"/proc/{self.pid}/ns", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            raise self.ended() from None
        with ExitStack() as undo:
            undo.callback(os.close, process)
            found = [os.open(kind, os.O_RDONLY | os.O_CLOEXEC, dir_fd=process) for kind in ("net", *kinds)]
            network = found.pop(0)
            undo.callback(os.close, network)
            if not os.path.sameopenfile(network, self.namespace):  # another process has the number now
                for fd in found:
                    os.close(fd)
                raise self.ended()
        return found

    def ended(self) -> LabError:
        """Error to raise when the container has ended."""
        return LabError(
            f"the container of {self.node} has ended, and what ran in it",
            fix="see who ended it (docker events), and whether the machine's memory ran out (dmesg)",
        )

    def close(self) -> None:
        """End everything in the container, then it ends itself; what cannot, because it stands still, is for Docker to
        kill."""
        if self.namespace < 0:
            return
        with suppress(LabError):
            self._ask(Inside.end_all(), timeout_s=END_TIMEOUT_S)
        self._line.close()
        os.close(self.namespace)
        self.namespace = -1

    def _ask(self, call: Call[object], timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Send a request and return its result, which is not trusted: whatever runs in a container may say anything."""
        with self._lock:
            try:
                self._line.send([call.name, *call.arguments.values()], call.files, timeout_s)
                answer, _ = self._line.receive(timeout_s)
            except WireClosedError:
                raise self.ended() from None
            except TimeoutError:
                self._line.close()  # an answer that comes later must not be taken for another's
                raise LabError(
                    f"the container of {self.node} did not answer for {timeout_s:g} s",
                    fix="see whether somebody paused it: docker ps",
                ) from None
        if isinstance(answer, dict) and isinstance(answer.get("error"), str):
            raise LabError(f"{self.node}: {answer['error']:.1000}")
        if not isinstance(answer, dict) or "result" not in answer:
            raise self._odd(answer)
        return answer["result"]

    def _number(self, answer: Any) -> int:
        if type(answer) is not int:
            raise self._odd(answer)
        return answer

    def _odd(self, answer: Any) -> LabError:
        return LabError(f"the container of {self.node} answered {answer!r:.100}", fix="see what its image starts")


def check_limits(container: Container, asked: Containers) -> None:
    """Raises LabError: the kernel limits a container otherwise than it was asked to."""
    fix = "use a kernel with the cgroup controllers cpu and memory (docker info names what is missing)"
    if container.cpus is None or abs(container.cpus - asked.cpus) > 0.01 * asked.cpus:
        raise LabError(f"{container.node}: asked for {asked.cpus:g} CPUs, the kernel has {container.cpus}", fix=fix)
    if container.memory_bytes is None or abs(container.memory_bytes - asked.memory_bytes) >= PAGE_BYTES:
        raise LabError(
            f"{container.node}: asked for {asked.memory_bytes} B of memory, the kernel has {container.memory_bytes}",
            fix=fix,
        )
