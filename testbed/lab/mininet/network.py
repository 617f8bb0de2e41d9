"""Build a blueprint with Mininet's own Python API; only the sandbox imports this.

Mininet makes the nodes, the bridges, the links and, with ``TCLink``, their shapers. What it was asked for is then read
back from the kernel: a limit that it cannot set it drops, says so in its log, and leaves the link as fast as the
machine. After that every link gets the queue and the bucket that the other labs have, so that results can be compared:
Mininet's queue counts packets, and its bucket has 15 KiB whatever the rate. Addresses, neighbours and routes are ours,
for Mininet's network has one subnet and no more than one path.

Nothing of the machine's is changed: Mininet's usual preparations raise limits for the whole machine (``fixLimits``) and
are left out, and all of it happens in private namespaces that end with the sandbox.
"""

from __future__ import annotations

import os
from typing import Any

from mininet.cli import CLI
from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host, Node
from mininet.nodelib import LinuxBridge

from testbed.base.errors import LabError
from testbed.lab.netns.kernel_interface import kernel, shaping
from testbed.lab.netns.kernel_interface.netlink import NetlinkError, Request, RouteSocket
from testbed.lab.netns.network.blueprint import FIRST_INDEX, Blueprint, NodePlan, Port
from testbed.lab.netns.network.build import BuiltNetwork

MININETS_ROOT = 0x00050000  # 5: (mininet.link.TCIntf.bwCmds)


class Pair(TCLink):  # type: ignore[misc]  # mininet has no types
    """A link whose ends have the blueprint's indices, MAC addresses and packet size; Mininet lets the kernel choose."""

    mtu = 1500

    @classmethod
    def makeIntfPair(  # noqa: N802  # Mininet's name
        cls,
        intfname1: str,
        intfname2: str,
        addr1: str,
        addr2: str,
        node1: Any,
        node2: Any,
        deleteIntfs: bool = False,  # noqa: ARG003, N803
    ) -> None:
        ends = []
        for name, address in ((intfname1, addr1), (intfname2, addr2)):
            index = FIRST_INDEX + int(address.replace(":", "")[4:], 16)
            ends.append(f"name {name} index {index} address {address} mtu {cls.mtu} numtxqueues 1 numrxqueues 1")
        said = node1.cmd(f"ip link add {ends[0]} type veth peer {ends[1]} netns {node2.pid}").strip()
        if said:
            raise LabError(f"Mininet cannot make the link {node1}:{intfname1} - {node2}:{intfname2}: {said}")


class Bridge(LinuxBridge):  # type: ignore[misc]
    """Mininet's bridge, made with ``ip``: its own takes only ports that are called after it, and needs ``brctl``."""

    isSetup = True  # noqa: N815  # Mininet's name: no need to look for brctl

    def start(self, _controllers: object) -> None:
        """Raises LabError: the kernel refused it."""
        lines = [f"ip link add {self.name} type bridge stp_state 0", f"ip link set {self.name} up"]
        lines += [f"ip link set {port.name} master {self.name}" for port in self.intfList()]
        for line in lines:
            if said := self.cmd(line).strip():
                raise LabError(f"Mininet's {self.name}: {line}: {said}")


class MininetNetwork(BuiltNetwork):
    """The namespaces of one blueprint, made by Mininet."""

    root_handle = MININETS_ROOT

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        setLogLevel("critical")  # HTB's quantum is warned about for each link; what matters is read back
        Mininet.inited = True  # the preparations that are left out
        Pair.mtu = blueprint.settings.mtu
        self._net = Mininet(controller=None, link=Pair, build=False)

    def command_line(self) -> int:
        """Run Mininet's command line, on this process's terminal, until the user leaves it."""
        setLogLevel("output")  # what its commands say
        CLI(self._net)
        return 0

    def close(self) -> None:
        """Let go of the nodes. Their shells have ended with the lab's other processes; Mininet still holds their
        terminals."""
        for node in (*self._net.hosts, *self._net.switches):
            node.stdin.close()
            os.close(node.slave)
        Node.inToNode.clear()
        Node.outToNode.clear()
        super().close()

    def _make(self, node: NodePlan) -> None:
        kernel.setns(self._home, kernel.CLONE_NEWNET)
        if node.mode == "learn":
            made = self._net.addSwitch(node.name, cls=Bridge, dpid=f"{node.index:x}", inNamespace=True)
        else:
            made = self._net.addHost(node.name, cls=Host, ip=None)
        own = os.open(f"/proc/{made.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        kernel.setns(own, kernel.CLONE_NEWNET)
        os.close(own)

    def _link(self) -> None:
        blueprint = self.blueprint
        for first in range(0, len(blueprint.ends), 2):
            ports = [blueprint.port(directed) for directed in (first, first + 1)]
            names = [blueprint.nodes[blueprint.ends[directed][0]].name for directed in (first, first + 1)]
            limit = {"bw": ports[0].rate_bps / 1e6} if blueprint.settings.shaped else {}
            self._net.addLink(
                *names,
                intfName1=ports[0].name,
                intfName2=ports[1].name,
                addr1=ports[0].mac.hex(":"),
                addr2=ports[1].mac.hex(":"),
                **limit,
            )
        for switch in self._net.switches:
            switch.start([])
        if blueprint.settings.shaped:
            self.on_every_node(self._check_limits)

    def _check_limits(self, node: NodePlan, netlink: RouteSocket) -> None:
        """Raises LabError: a link has not the rate that Mininet was asked for."""
        for port in node.ports:
            link, handle = self.blueprint.label(port.directed_link), self.shape(port).class_handle
            try:
                (body,) = netlink.ask([shaping.ask_class(port.index, handle, link)])
                found = f"{8 * shaping.read_rate(body)} bit/s"
                right = shaping.read_rate(body) == port.rate_bps // 8
            except NetlinkError:
                found, right = "no limit", False
            if not right:
                raise LabError(
                    f"{link}: Mininet was asked for {port.rate_bps} bit/s, the kernel has {found}",
                    fix="give links a rate that Mininet can limit: up to 1 Gbit/s, in whole kbit/s; or --backend netns",
                )

    def _shaper(self, port: Port) -> list[Request]:
        return shaping.adopt(port.index, self.shape(port), self.blueprint.label(port.directed_link))
