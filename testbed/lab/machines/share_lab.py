"""Lab of the nodes that are on one machine, on that machine: the lab ``netns`` with a share of the blueprint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from testbed.lab.base import LinkSettings
from testbed.lab.netns.lab import NetnsLab
from testbed.lab.netns.network.blueprint import Blueprint
from testbed.lab.netns.network.build import MACHINE
from testbed.lab.netns.sandbox import Sandbox
from testbed.topologies.model import Topology


class ShareLab(NetnsLab):
    """A part of a network in private namespaces of this machine; its links to other machines are tunnels.

    Args:
        machine: an open file of the network namespace that tunnels lead out of, which is closed with the lab.
        part: makes the machine's share of a blueprint.

    Raises:
        PrivilegeError: the kernel does not let this user make namespaces.
    """

    def __init__(self, machine: int, part: Callable[[Blueprint], Blueprint]) -> None:
        super().__init__()
        self._machine, self._part = machine, part

    def close(self) -> None:
        super().close()
        if self._machine >= 0:
            os.close(self._machine)
        self._machine = -1

    def _build(self, plan: Blueprint) -> dict[str, Any]:
        self._sandbox.ask(Sandbox.lend([MACHINE], [self._machine]))
        return super()._build(plan)

    def _blueprint(self, topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]]) -> Blueprint:
        return self._part(super()._blueprint(topology, settings, pairs))
