"""Processes of the nodes that are on this machine, and beside them; what is told of them.

Workers, and programs on nodes, are processes of the share's lab, which tells how they end. The files that they write
are read here, and told as on a host of its own; so is what they say at the controller's socket. Bursts are forked from
the agent.
"""

from __future__ import annotations

import select
import selectors
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.lab.baremetal.on_hosts.processes import Child, Processes
from testbed.lab.machines.on_machine.relay import Relay
from testbed.lab.machines.on_machine.share_lab import ShareLab
from testbed.lab.netns.on_nodes.attached import Attached
from testbed.lab.programs import Launch, Program


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
