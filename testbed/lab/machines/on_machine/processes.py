"""Lab of the nodes that are on one machine, on that machine, and processes of these nodes and beside them; what is told
of them.

Workers, and programs on nodes, are processes of the share's lab, which tells how they end. The files that they write
are read here, and told as on a host of its own; so is what they say at the controller's socket. Bursts are forked from
the agent.
"""

from __future__ import annotations

import os
import select
import selectors
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from testbed.base.errors import LabError
from testbed.lab.baremetal.on_hosts.processes import Child, Processes
from testbed.lab.base import LinkSettings
from testbed.lab.machines.on_machine.relay import Relay
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.lab import NetnsLab
from testbed.lab.netns.network.blueprint import Blueprint
from testbed.lab.netns.network.build import MACHINE, OWN_NAMESPACE
from testbed.lab.netns.on_nodes.attached import Attached
from testbed.lab.netns.sandbox import Sandbox
from testbed.lab.netns.sandbox_process import WORK_TIMEOUT_S
from testbed.lab.programs import Launch, Program
from testbed.machine.processes import first_child
from testbed.topologies.model import Topology

ENDED = "the lab has ended on this machine"


class ShareLab(NetnsLab):
    """Lab ``netns`` with a share of the blueprint, in private namespaces of this machine; its links to other machines
    are tunnels.

    Args:
        machine: an open file of the network namespace that tunnels lead out of, which is closed with the lab.

    Raises:
        PrivilegeError: the kernel does not let this user make namespaces.
    """

    def __init__(self, machine: int) -> None:
        super().__init__()
        self._machine, self._pid = machine, os.getpid()
        self._next: Blueprint | None = None
        self._numbers: Mapping[int, int] = {}
        """Open files of nodes' namespaces, in the sandbox's process."""

    def up_share(self, topology: Topology, settings: LinkSettings, plan: Blueprint) -> None:
        """Build the share of this machine, and read it back.

        Args:
            topology: the whole network.
            plan: its blueprint, as :func:`testbed.lab.machines.cut.share` makes it.

        Raises:
            LabError: the kernel reports something else than what was asked for.
        """
        self._sandbox.ask(Sandbox.lend([MACHINE], [self._machine]))
        self._bring_up(topology, settings, [], plan)
        self._numbers = self._sandbox.ask(Sandbox.namespaces())

    def plan_share_patch(self, plan: Blueprint) -> None:
        """Work out how the share becomes this one, which has other circuits."""
        self._sandbox.ask(Sandbox.plan_patch(plan), timeout_s=WORK_TIMEOUT_S)
        self._next = plan

    def patch_step(self, step: int) -> float:
        """Take a step of the planned patch, as far as this machine has a share in it; return when it was done."""
        return self._sandbox.ask(Sandbox.patch_step(step))

    def read_back_moved(self) -> None:
        """Read back what the patch changed here. Raises LabError: something differs."""
        self._sandbox.ask(Sandbox.read_back_moved())
        assert self._next is not None
        plan = replace(self._next, impairments=self._net.plan.impairments)
        self._network, self._next = replace(self._net, plan=plan), None

    def start(self, node: int, program: Program, log: str) -> Attached:
        found = super().start(node, program, log)
        assert isinstance(found, Attached)
        return found

    def pids(self) -> dict[str, int]:
        """PIDs on this machine of processes that were launched, by name, as far as they are found."""
        return self._pids()

    @contextmanager
    def inside(self, node: int) -> Iterator[None]:
        """Be in a node's network namespace meanwhile, or with a number below 0 in the machine's own: sockets that are
        made belong there. Raises LabError: the lab has ended."""
        home = os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            there = self._opened(node)
            kernel.setns(there, kernel.CLONE_NEWNET)
            os.close(there)
            yield
        finally:
            kernel.setns(home, kernel.CLONE_NEWNET)
            os.close(home)

    def holder(self, node: int) -> tuple[int, int]:
        """PID of the process that holds a node's network namespace, and its open file of it. Raises LabError: the lab
        has ended."""
        first = first_child(self.launcher_pid)
        if first is None:
            raise LabError(ENDED, fix="start it again")
        return first, self._numbers[node]

    def _opened(self, node: int) -> int:
        """Open a namespace. Also a child that has closed its files can do so: it asks those who hold it."""
        pid, number = (self._pid, self._machine) if node < 0 else self.holder(node)
        try:
            return os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            raise LabError(ENDED, fix="start it again") from None

    def close(self) -> None:
        super().close()
        if self._machine >= 0:
            os.close(self._machine)
        self._machine = -1


class ShareProcesses(Processes):
    """Processes below a working directory.

    Attributes:
        lab: the lab of the share, once there is one.
        relay: connections of processes to a socket of the controller.
    """

    def __init__(self, work: Path, selector: selectors.BaseSelector) -> None:
        super().__init__(work)
        self.lab: ShareLab | None = None
        self.relay = Relay(selector)
        self._programs: dict[int, Attached] = {}
        self._last = 0

    def launch(self, workers: Mapping[str, tuple[Launch, Sequence[str], Sequence[str]]]) -> None:
        """Start workers on nodes, by name: each with the names of files that it writes and that are told as they grow,
        and of those that are told at its end."""
        assert self.lab is not None
        for _, followed, _ in workers.values():
            for name in followed:
                self.room_for(name).unlink(missing_ok=True)
        self.lab.launch([launch for launch, _, _ in workers.values()])
        for name, (_, followed, outputs) in workers.items():
            self._children[self._number()] = Child(
                0.0, worker=name, followed=self._growths(followed), outputs=tuple(outputs)
            )

    def start(self, node: int, wanted: Program, log: str) -> int:
        """Start a program on a node; return a number for it, which no process has."""
        assert self.lab is not None
        number, path = self._number(), self.room_for(log)
        self._programs[number] = self.lab.start(node, wanted, str(path))
        self._children[number] = Child(0.0, run=number, followed=self._growths([log]))
        return number

    def _number(self) -> int:
        self._last -= 1
        return self._last

    def workers(self) -> dict[str, int]:
        return {} if self.lab is None else self.lab.pids()

    def signal(self, number: int, pid: int | None) -> None:
        self.reap()
        if pid in self._programs:
            self._programs[pid].signal(number)

    def signal_worker(self, number: int, name: str) -> None:
        assert self.lab is not None
        self.lab.signal(name, number)

    def stopped(self) -> list[str]:
        return [] if self.lab is None else self.lab.stopped()

    def cpu_s(self) -> dict[str, float]:
        return {} if self.lab is None else self.lab.cpu_s()

    def kill_workers(self) -> None:
        self.reap()
        if self.lab is not None:
            self.lab.kill()
        self._children = {number: child for number, child in self._children.items() if child.worker is None}
        self._ended = [child for child in self._ended if child.worker is None]

    def kill_all(self) -> None:
        """End everything, with the network; the lab stays, for the next one."""
        if self.lab is not None:
            self.lab.down()
        self.relay.close()
        self._programs.clear()
        for pid in [pid for pid in self._children if pid > 0]:
            self._end(pid)
        self._children.clear()
        self._ended.clear()

    def reap(self) -> None:
        """Collect what has ended, and tell of it. Raises LabError: the lab has ended, and all in it."""
        if self.lab is not None:
            numbers = {child.worker: number for number, child in self._children.items()}
            exits = self.lab.exits()
            if exits:
                self.relay.hear()  # what a process said before it ended is told before its end
            for ended in exits:
                child = self._children.pop(numbers[ended.process])
                child.status, child.started_s, child.ended_s = ended.status, ended.started_s, ended.ended_s
                self._ended.append(child)
        for number, program in list(self._programs.items()):
            if select.select([program], [], [], 0)[0]:
                del self._programs[number]
                child = self._children.pop(number)
                child.status = program.wait()
                self._ended.append(child)
        super().reap()

    def tell_growth(self) -> None:
        self.reap()  # nobody wakes us when a process of the lab ends
        super().tell_growth()
