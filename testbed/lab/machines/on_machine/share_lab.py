"""Lab of the nodes that are on one machine, on that machine: the lab ``netns`` with a share of the blueprint."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from testbed.base.errors import LabError
from testbed.lab.base import LinkSettings
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.lab import NetnsLab
from testbed.lab.netns.network.blueprint import Blueprint
from testbed.lab.netns.network.build import MACHINE, OWN_NAMESPACE
from testbed.lab.netns.on_nodes.attached import Attached
from testbed.lab.netns.readings import readback
from testbed.lab.netns.readings.listening import Said
from testbed.lab.netns.sandbox import Sandbox
from testbed.lab.netns.sandbox_process import WORK_TIMEOUT_S
from testbed.lab.programs import Program
from testbed.machine.processes import first_child
from testbed.topologies.model import Topology

ENDED = "the lab has ended on this machine"


class ShareLab(NetnsLab):
    """A part of a network in private namespaces of this machine; its links to other machines are tunnels.

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
            plan: its blueprint, as :func:`testbed.lab.machines.shares.share` makes it.

        Raises:
            LabError: the kernel reports something else than what was asked for.
        """
        self._sandbox.ask(Sandbox.lend([MACHINE], [self._machine]))
        self._bring_up(topology, settings, [], plan)
        self._numbers = self._sandbox.ask(Sandbox.namespaces())

    def verify(self) -> None:
        """Read the share back again; :meth:`said` is for another decoder.

        Raises:
            LabError: something differs.
        """
        self._description = self._sandbox.ask(Sandbox.verify(), timeout_s=WORK_TIMEOUT_S)

    def said(self, chosen: readback.Sample) -> dict[int, Said]:
        """Ask the kernel about some nodes; its messages, not decoded. Raises LabError: it cannot be asked."""
        return self._sandbox.ask(Sandbox.said(chosen), timeout_s=WORK_TIMEOUT_S)

    def plan_share_patch(self, plan: Blueprint) -> None:
        """Work out how the share becomes this one, which has other circuits."""
        self._sandbox.ask(Sandbox.plan_patch(plan), timeout_s=WORK_TIMEOUT_S)
        self._next = plan

    def part(self) -> float:
        """Make the planned patch's circuits that go dark, as far as their panels are here; return when they were. This
        and the following steps are those of :mod:`testbed.lab.netns.network.patch`."""
        return self._sandbox.ask(Sandbox.part())

    def reroute(self) -> None:
        """Do what can be done while circuits are dark."""
        self._sandbox.ask(Sandbox.reroute())

    def join(self) -> None:
        """Let new circuits carry light, as far as their panels are here."""
        self._sandbox.ask(Sandbox.join())

    def change_routes(self) -> float:
        """End the patch; return when that was."""
        return self._sandbox.ask(Sandbox.change_routes())

    def read_back_moved(self) -> None:
        """Read back what the patch changed here. Raises LabError: something differs."""
        self._sandbox.ask(Sandbox.read_back_moved())
        assert self._next is not None
        self._wanted, self._next = replace(self._next, impairments=self._needed_plan().impairments), None

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
        made belong there.

        Raises:
            LabError: the lab has ended.
        """
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
        """PID of the process that holds a node's network namespace, and its open file of it.

        Raises:
            LabError: the lab has ended.
        """
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
