"""The caller's side of the ``docker`` lab.

Each host is a container without any network of Docker's. Its first process (:mod:`testbed.lab.docker.inside`) lends us
the container's network namespace, and the sandbox of the ``netns`` lab puts links into it, shapes, routes, reads back,
counts and impairs them as it does in namespaces of its own, which switches still are. Programs on hosts run in the
containers, programs on switches in the sandbox.

When this process ends, however it ends, so do the containers' first processes and the sandbox; Docker removes a
container whose first process has ended, and the kernel the rest. What is left is a container that was made and not yet
started, or whose first process somebody had stopped: ``testbed clean`` finds it by its labels.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from testbed.base.errors import LabError, PrivilegeError
from testbed.base.python import module_command
from testbed.files import foreign
from testbed.files.foreign import Listing
from testbed.lab.base import LinkSettings, piece_of
from testbed.lab.docker import copies, image
from testbed.lab.docker.container import Container, ContainerSettings, check_limits, confinement
from testbed.lab.docker.daemon import Daemon, container_name, labels
from testbed.lab.docker.listener import Listener
from testbed.lab.docker.place import Containers
from testbed.lab.docker.wire import MOST_FILES
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.kernel_interface.kernel import CAP_SYS_ADMIN, has_capability
from testbed.lab.netns.network.blueprint import Blueprint
from testbed.lab.netns.on_nodes.attached import Attached
from testbed.lab.netns.on_nodes.processes import ONE_THREAD, Files, logged
from testbed.lab.netns.sandbox import Sandbox
from testbed.lab.programs import Exit, Launch, Program, Running, check_launches
from testbed.machine.monitor import Monitor
from testbed.topologies.model import Topology

AT_ONCE = 8
"""Number of containers that are started or removed at a time; Docker takes turns where it must."""
ARRIVAL_TIMEOUT_S = 30.0
"""Seconds in which Python is to start, in all containers together."""
REMOVAL_TIMEOUT_S = 30.0
LOOK_S = 0.02
_T = TypeVar("_T")
TRIAL = "trial"
"""Name of a container that is no host, and is gone before there are others."""
AGENT = "testbed.lab.docker.agent"
WORKER = "testbed.workloads.worker"


@dataclass
class _Worker:
    node: int
    pid: int
    attached: Attached
    started_s: float


class DockerLab(NetnsLab):
    """A container per host (see :class:`testbed.lab.base.Lab`).

    Raises:
        MissingToolError: Docker's Python package or its daemon is not there.
        PrivilegeError: this user may not put interfaces into containers, or not talk to the daemon.
        UsageError: the daemon is not on this machine.
    """

    def __init__(self, *, every_address: bool = False, containers: Containers | None = None) -> None:
        self._daemon = _connect()
        self._asked_for = containers or Containers()
        self._id = uuid.uuid4().hex[:12]
        self._image: str | None = None
        self._work: Path | None = None
        self._reads: tuple[Path, ...] = ()
        self._listener: Listener | None = None
        self._hosts: dict[int, Container] = {}
        self._copies: dict[int, tuple[int, ...]] = {}
        """By host, open folders of what is written into the copies of what it reads."""
        self._workers: dict[str, _Worker] = {}
        super().__init__(every_address=every_address)

    def share(self, work: Path, reads: Sequence[Path] = ()) -> None:
        super().share(work, reads)
        self._work, self._reads = work.absolute(), tuple(one.absolute() for one in reads)

    def require(self, topology: Topology, settings: LinkSettings) -> None:
        """Raises MissingToolError: the image has not been made, or cannot be a host."""
        super().require(topology, settings)
        self._prepare_image()

    def _prepare_image(self) -> str:
        if self._image is None:
            wanted = self._asked_for.image
            if wanted is None:
                self._image = image.require_local(self._daemon)
            else:
                image.require_own(self._daemon, wanted, confinement(self._asked_for), labels(self._id, TRIAL))
                self._image = wanted
        return self._image

    def _build(self, plan: Blueprint) -> dict[str, Any]:
        if self._hosts:
            self.down()
        hosts = [node for node in plan.nodes if node.mode == "host"]
        try:
            arrived = self._start_containers([node.name for node in hosts], plan.hosts_file)
            self._hosts = {node.index: arrived[node.name] for node in hosts}
            for first in range(0, len(hosts), MOST_FILES):
                some = [node.index for node in hosts[first : first + MOST_FILES]]
                self._sandbox.ask(Sandbox.lend(some, [self._hosts[index].namespace for index in some]))
            if self._reads:
                self._copies = dict(zip(self._hosts, copies.mounted([*self._hosts.values()], self._reads), strict=True))
            return super()._build(plan)
        except BaseException:
            self._remove()
            raise

    def written(self, node: int, folder: Path) -> Listing:
        return foreign.listed(self._layer(node, folder))

    def read_written(self, node: int, folder: Path, name: str, offset: int) -> bytes:
        return piece_of(self._layer(node, folder), name, offset)

    def _layer(self, node: int, folder: Path) -> Path:
        return Path(f"/proc/self/fd/{self._copies[node][self._reads.index(folder.absolute())]}")

    def _start_containers(self, names: Sequence[str], hosts_file: str) -> dict[str, Container]:
        """Raises LabError: Docker refuses, or what runs in a container is not what was asked for."""
        kind = self._prepare_image()
        self._listener = listener = Listener(names, self._call)

        settings = ContainerSettings(self._id, self._asked_for, self._work, self._reads)

        def host(name: str) -> dict[str, Any]:
            return settings.of_machine(name, listener.path(name), hosts_file)

        def start(name: str) -> str:
            return self._daemon.start(container_name(self._id, name), kind, settings.own(name), host(name))

        for_all(start, names)
        arrived = listener.arrivals(names, ARRIVAL_TIMEOUT_S)
        missing = [name for name in names if name not in arrived]
        said = self._what_it_says(kind, settings.command, host(missing[0])) if missing else ""
        listener.hide()
        if missing:
            raise LabError(
                f"the container of {missing[0]} did not start within {ARRIVAL_TIMEOUT_S:g} s"
                + (f", nor those of {len(missing) - 1} others" if len(missing) > 1 else ""),
                fix=f"see what it says: {said}",
            )
        for container in arrived.values():
            check_limits(container, self._asked_for)
        return arrived

    def _what_it_says(self, kind: str, command: Sequence[str], host: dict[str, Any]) -> str:
        seen = {key: value for key, value in host.items() if key != "auto_remove"}
        with suppress(LabError):
            said = self._daemon.output(kind, list(command), seen, labels(self._id, TRIAL))
            return said.rpartition("\n")[2]
        return "docker events"

    def launch(self, workers: Sequence[Launch]) -> None:
        check_launches(workers, self._net.topology)
        self._started |= {worker.process for worker in workers}
        switches = [worker for worker in workers if worker.node not in self._hosts]
        if switches:
            super().launch(switches)
        for worker in workers:
            if worker.node in self._hosts:
                started_s = time.monotonic()
                pid, attached = self._start_logged(worker.node, self._program(worker), worker.log)
                self._workers[worker.process] = _Worker(worker.node, pid, attached, started_s)

    def _program(self, worker: Launch) -> Program:
        if worker.program:
            return worker.program
        words = tuple(module_command(WORKER, str(Path(worker.job).absolute())))
        return Program(words, dict.fromkeys(ONE_THREAD, "1"), str(Path.cwd()))

    def start(self, node: int, program: Program, log: str) -> Running:
        if node not in self._hosts:
            return super().start(node, program, log)
        return self._start_logged(node, program, log)[1]

    def _start_logged(self, node: int, program: Program, log: str) -> tuple[int, Attached]:
        with logged(log) as files:
            return self._run(node, program, files)

    def _run(self, node: int, program: Program, files: Files) -> tuple[int, Attached]:
        """Start a program in a container, where Python and PATH are the container's."""
        container = self._hosts[node]
        words = program.words
        if words[0] == sys.executable:
            words = (container.python, *words[1:])
        environment = {name: value for name, value in program.environment.items() if name != "PATH"}
        return container.run(replace(program, words=words, environment=environment), files)

    def attach(self, node: int, command: Sequence[str], files: tuple[int, int, int]) -> Attached:
        if node not in self._hosts:
            return super().attach(node, command, files)
        return self._run(node, Program(tuple(command), {}, "/"), files)[1]

    def _call(self, name: str, command: list[str], files: Files) -> Attached:
        """Start a command for a program on another host, which knows this one by its name."""
        node = next((index for index, one in self._hosts.items() if one.node == name), None)
        if node is None:
            raise LabError(f"there is no host {name!r} in this lab")
        return self.attach(node, command, files)

    def agent(self) -> list[str]:
        assert self._listener is not None
        self._listener.answer_calls()
        return [self._hosts[0].python, "-P", "-m", AGENT]

    def _pids(self) -> dict[str, int]:
        """PIDs of each host's processes: all that run in its container, whatever that says."""
        workers = list(self._workers.items())
        on_hosts = {name: pid for name, one in workers if (pid := self._hosts[one.node].pid)}
        return super()._pids() | on_hosts

    def exits(self) -> list[Exit]:
        found = super().exits()
        poll, waiting = select.poll(), {}
        for process, worker in self._workers.items():
            poll.register(worker.attached.fileno(), select.POLLIN)
            waiting[worker.attached.fileno()] = process
        for fd, _ in poll.poll(0):
            worker = self._workers.pop(waiting[fd])
            try:
                status = worker.attached.wait()
            except LabError:
                raise self._hosts[worker.node].ended() from None
            found.append(Exit(waiting[fd], worker.node, status, worker.started_s, worker.attached.ended_s))
        return found

    def stopped(self) -> list[str]:
        on_hosts = [name for name, one in self._workers.items() if self._hosts[one.node].stopped([one.pid])]
        return [*on_hosts, *super().stopped()]

    def kill(self) -> None:
        for worker in self._workers.values():
            worker.attached.signal(signal.SIGKILL)
        for worker in self._workers.values():
            worker.attached.wait()
        self._workers.clear()
        super().kill()

    def signal(self, target: str, number: int) -> None:
        node = self._net.topology.index.get(target)
        if node in self._hosts:
            self._hosts[node].signal_all(number)
        elif target in self._workers:
            self._workers[target].attached.signal(number)
        else:
            super().signal(target, number)

    def monitor(self) -> Monitor:
        return Monitor(self._pids, [container.pid for container in self._hosts.values()])

    def describe(self) -> dict[str, Any]:
        if not self._hosts:
            return super().describe()
        one = next(iter(self._hosts.values()))
        read = {"image": self._image, "cpus": one.cpus, "memory_bytes": one.memory_bytes}
        return {**super().describe(), "lab": "docker", "containers": read}

    def down(self) -> None:
        try:
            super().down()
        finally:
            self._remove()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._remove()

    def _remove(self) -> None:
        """End the containers, and wait until Docker has removed them. Raises LabError: it has not."""
        if self._listener is None:
            return
        listener, hosts = self._listener, list(self._hosts.values())
        for fd in [fd for written in self._copies.values() for fd in written]:
            os.close(fd)
        self._copies = {}
        self._listener, self._hosts, self._workers = None, {}, {}
        for_all(Container.close, hosts)
        listener.close()
        for_all(self._daemon.remove, [one.id for one in self._daemon.marked(self._id)])
        deadline = time.monotonic() + REMOVAL_TIMEOUT_S
        while left := self._daemon.marked(self._id):
            if time.monotonic() > deadline:
                raise LabError(
                    f"Docker has not removed {left[0].name} within {REMOVAL_TIMEOUT_S:g} s", fix="testbed clean"
                )
            time.sleep(LOOK_S)


def check_ready() -> None:
    """Look whether the lab can be had, with an image made from this machine. Raises MissingToolError, PrivilegeError,
    UsageError: it cannot."""
    image.require_local(_connect())


def _connect() -> Daemon:
    if not has_capability(CAP_SYS_ADMIN):
        raise PrivilegeError(
            "the lab docker puts links into containers' network namespaces, which needs root",
            fix="run as root: sudo testbed ..., or take --backend netns",
        )
    return Daemon()


def for_all(action: Callable[[_T], object], things: Iterable[_T]) -> None:
    """Call ``action`` with each thing, several at a time. Raises what the first that fails raises, once all are
    done."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        calls = [pool.submit(action, one) for one in things]
    for call in calls:
        call.result()
