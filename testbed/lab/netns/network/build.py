"""Build a blueprint: namespaces, then links between them, then what each node holds.

Order matters for speed and for correctness:

1. a namespace per node, its sysctls (cheap while it has no interface), its loopback;
2. veth pairs, made straight in both namespaces, down;
3. per node: shapers while the interfaces are down (grafting onto a running one waits for every CPU), then up,
   addresses, neighbours, a switch's table, a panel's circuits;
4. routes last, when both ends of each link are up: a route through a link without carrier is held back.
"""

from __future__ import annotations

import errno
import os
import resource
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from testbed.base.errors import LabError
from testbed.lab.base import LARGE_PACKET_BYTES, Impairment, LinkChange
from testbed.lab.limits import HTB
from testbed.lab.netns.kernel_interface import kernel, rtnetlink, shaping, switching, sysctls
from testbed.lab.netns.kernel_interface.netem import Netem
from testbed.lab.netns.kernel_interface.netlink import NetlinkError, Request, RouteSocket
from testbed.lab.netns.network.blueprint import FIRST_INDEX, Blueprint, Neighbour, NodePlan, Port, StaticRoute

SPARE_FILES = 64
"""Number of open files that the sandbox needs besides one per namespace."""
LOOPBACK_INDEX = 1
OWN_NAMESPACE = "/proc/self/ns/net"
MACHINE = -1
"""Number, among lent namespaces, of the machine's own, out of which tunnels to other machines lead."""


class BuiltNetwork:
    """The namespaces of one blueprint, each held by an open file; ``close`` lets go of them all."""

    root_handle = shaping.ROOT_HANDLE

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.namespaces: dict[int, int] = {}
        """Open file of each node's namespace."""
        self.changes: dict[int, LinkChange] = {}
        """Changes of links since the network was built, by directed link."""
        self.netem: dict[int, Netem] = {}
        """Settings of netem, by directed link; others have a plain FIFO."""
        if blueprint.by_netem:
            self.netem = {link: Netem.of(one, blueprint.seed(link)) for link, one in blueprint.impairments.items()}
        self._home = os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)

    def build(self) -> None:
        """Build the whole network. Raises LabError: the kernel refused something; it is named."""
        allow_files(len(self.blueprint.own_nodes) + SPARE_FILES)
        try:
            self._make_namespaces()
            self._link()
            self.on_every_node(lambda node, netlink: netlink.send(list(self._furnish(node))))
            self.on_every_node(lambda node, netlink: netlink.send(self._routes(node)))
        except NetlinkError as error:
            raise LabError(f"the kernel refused to {error.strerror}") from error

    def on_every_node(self, action: Callable[[NodePlan, RouteSocket], None]) -> None:
        """Call ``action`` inside each node's namespace, then come back to the sandbox's own."""
        self.on_nodes(self.blueprint.own_nodes, action)

    def on_nodes(self, nodes: Iterable[NodePlan], action: Callable[[NodePlan, RouteSocket], None]) -> None:
        """Call ``action`` inside the namespace of each of some nodes, then come back to the sandbox's own."""
        for node in nodes:
            with self.inside(node.index), RouteSocket() as netlink:
                action(node, netlink)

    def send(self, requests: Mapping[int, Sequence[Request]]) -> None:
        """Carry out requests, by node. Raises LabError: the kernel refused one; it is named."""
        nodes = [self.blueprint.nodes[index] for index in requests]
        try:
            self.on_nodes(nodes, lambda node, netlink: netlink.send(requests[node.index]))
        except NetlinkError as error:
            raise LabError(f"the kernel refused to {error.strerror}") from error

    def inside(self, node: int) -> AbstractContextManager[None]:
        """Enter a node's network namespace meanwhile; programs that are started are there, too."""
        return kernel.inside(self.namespaces[node], self._home)

    def set_impairments(self, wanted: Mapping[int, Impairment]) -> None:
        """Note what is asked of links from now on."""
        asked = {link: one for link, one in {**self.blueprint.impairments, **wanted}.items() if one}
        self.blueprint = replace(self.blueprint, impairments=asked)

    def forward_by_address(self, switch: int, routes: tuple[StaticRoute, ...]) -> None:
        """Let a bridging switch forward what is addressed to its own ports, too; no frame is so addressed until
        :meth:`detour`."""
        plan = replace(self.blueprint.nodes[switch], forwards=True, routes=routes)
        nodes = (*self.blueprint.nodes[:switch], plan, *self.blueprint.nodes[switch + 1 :])
        self.blueprint = replace(self.blueprint, nodes=nodes)
        with self.inside(switch), RouteSocket() as netlink:
            sysctls.write(sysctls.FORWARDING)
            netlink.send([_tell(self.blueprint, plan, one) for one in self.blueprint.neighbours(plan)])
            netlink.send(self._routes(plan))

    def _routes(self, node: NodePlan) -> list[Request]:
        first = self.blueprint.first_segments
        return [rtnetlink.add_route(route.destination, route.hops, node.name, first) for route in node.routes]

    def detour(self, directed_link: int) -> None:
        """Send what leaves by this link to the switch at its end, which then forwards it by address."""
        self.blueprint = replace(self.blueprint, detours=self.blueprint.detours | {directed_link})
        host, _ = self.blueprint.ends[directed_link]
        plan, port = self.blueprint.nodes[host], self.blueprint.port(directed_link)
        changed = [one for one in self.blueprint.neighbours(plan) if one.index == port.index]
        with self.inside(host), RouteSocket() as netlink:
            netlink.send([_tell(self.blueprint, plan, one, anew=True) for one in changed])

    def shape(self, port: Port) -> shaping.Shape:
        """Shape that a port's egress should have now."""
        change = self.changes.get(port.directed_link, LinkChange(port.directed_link))
        settings = self.blueprint.settings
        if change.queue_bytes is not None:
            settings = replace(settings, queue_bytes=change.queue_bytes)
        delayed = self.netem.get(port.directed_link)
        found = shaping.shape(change.rate_bps or port.rate_bps, settings, delayed, self.root_handle)
        return shaping.blocked(found) if change.blocked else found

    def adjust(self, changes: Sequence[LinkChange]) -> None:
        """Change links while they are in use: one batch of requests for each node. On return the kernel has
        acknowledged all. Raises SpecError: a rate that cannot be emulated; LabError: links are not shaped, or the
        kernel refused; the link is named."""
        blueprint = self.blueprint
        if not blueprint.settings.shaped:
            raise LabError("links without shapers cannot be changed", fix="shape the links")
        for change in changes:
            if change.rate_bps is not None:
                HTB.check_rate(change.rate_bps)
        before = {change.directed_link: self.shape(blueprint.port(change.directed_link)) for change in changes}
        for change in changes:
            link = change.directed_link
            self.changes[link] = self.changes.get(link, LinkChange(link)).then(change)
        requests: defaultdict[int, list[Request]] = defaultdict(list)
        for link, shape in before.items():
            port = blueprint.port(link)
            requests[blueprint.ends[link][0]] += shaping.change(
                port.index, self.shape(port), blueprint.label(link), shape
            )
        try:
            self.on_nodes(
                [blueprint.nodes[index] for index in requests],
                lambda node, netlink: netlink.send(requests[node.index]),
            )
        except NetlinkError as error:
            raise LabError(f"the kernel refused to change the {error.strerror}") from error

    def command_line(self) -> int:
        """Run the builder's command line, if it has one; the exit status."""
        raise LabError("this lab has no command line of its own", fix="take testbed exec NODE -- COMMAND")

    @property
    def home(self) -> int:
        """The namespace around those of the nodes: the sandbox's own."""
        return self._home

    def close(self) -> None:
        """Let go of the namespaces; the kernel frees them and their interfaces when no process is left in them."""
        for fd in [*self.namespaces.values(), self._home]:
            os.close(fd)
        self.namespaces = {}

    def _make_namespaces(self) -> None:
        has_ipv6 = sysctls.has_ipv6()
        try:
            with sysctls.Roots() as roots:
                for node in self.blueprint.own_nodes:
                    self._make(node)
                    self.namespaces[node.index] = os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
                    sysctls.write(sysctls.wanted(node, has_ipv6, self.blueprint.settings), roots.next())
                    with RouteSocket() as netlink:
                        netlink.send([rtnetlink.set_up(LOOPBACK_INDEX, f"{node.name}:lo")])
        finally:
            kernel.setns(self._home, kernel.CLONE_NEWNET)

    def _make(self, node: NodePlan) -> None:
        """Enter a network namespace for this node, where nothing is yet."""
        assert node.index not in self.namespaces
        _unshare_network(len(self.namespaces), len(self.blueprint.own_nodes))

    def _link(self) -> None:
        """Make every link that has both its ends here."""
        blueprint, here = self.blueprint, self.namespaces
        requests = []
        for first in range(0, len(blueprint.ends), 2):
            if all(node in here for node, _ in blueprint.ends[first : first + 2]):
                a, b = (_end(blueprint, here, directed) for directed in (first, first + 1))
                requests.append(rtnetlink.create_veth(a, b, blueprint.settings.mtu, blueprint.label(first)))
        with RouteSocket() as netlink:
            netlink.send(requests)

    def _shaper(self, port: Port) -> list[Request]:
        """Requests that shape a port that has no shaper yet."""
        return shaping.install(port.index, self.shape(port), self.blueprint.label(port.directed_link))

    def _furnish(self, node: NodePlan) -> Iterator[Request]:
        """Yield requests that make shapers, interfaces up, addresses, neighbours: all that one node holds but
        routes."""
        blueprint = self.blueprint
        for port in node.ports:
            what = f"{node.name}:{port.name}"
            if blueprint.settings.shaped:
                yield from self._shaper(port)
            yield rtnetlink.set_up(port.index, what)
            if blueprint.packet_bytes != LARGE_PACKET_BYTES[0]:
                yield rtnetlink.set_packet_bytes(port.index, blueprint.packet_bytes, what)
            if port.address is not None:
                yield rtnetlink.add_address(port.index, port.address, port.prefix, what)
        yield from (_tell(blueprint, node, neighbour) for neighbour in blueprint.neighbours(node))
        table = blueprint.switch_table(node)
        yield from (switching.receive(port.index, f"{node.name}:{port.name}") for _, port in table)
        yield from (switching.forward(mac, port.index, node.name) for mac, port in table)
        if node.mode == "panel":
            yield from (switching.make_panel_port(port.index, f"{node.name}:{port.name}") for port in node.ports)
            yield from (switching.join(index, to, node.name) for index, to in blueprint.joined(node).items())


class LentNetwork(BuiltNetwork):
    """A network some of whose nodes are in network namespaces that somebody else has made, as containers' are; or some
    of whose links are tunnels to other machines, out of this machine's own namespace."""

    def __init__(self, blueprint: Blueprint, lent: Mapping[int, int]) -> None:
        """Prepare the network. ``lent`` are open files of namespaces, by node, with the machine's own as
        :data:`MACHINE`; they are closed with the network."""
        super().__init__(blueprint)
        self._lent = dict(lent)

    def close(self) -> None:
        super().close()
        for fd in self._lent.values():
            os.close(fd)
        self._lent = {}

    def _make(self, node: NodePlan) -> None:
        if node.index in self._lent:
            kernel.setns(self._lent[node.index], kernel.CLONE_NEWNET)
        else:
            super()._make(node)

    def _link(self) -> None:
        super()._link()
        blueprint, mtu = self.blueprint, self.blueprint.settings.mtu
        if not blueprint.tunnels:
            return
        ends = {directed: _end(blueprint, self.namespaces, directed) for directed in blueprint.tunnels}
        with kernel.inside(self._lent[MACHINE], self._home), RouteSocket() as netlink:
            netlink.send(
                [
                    rtnetlink.create_tunnel(ends[directed], tunnel, mtu, blueprint.label(directed))
                    for directed, tunnel in blueprint.tunnels.items()
                ]
            )


def _unshare_network(made: int, needed: int) -> None:
    try:
        kernel.unshare(kernel.CLONE_NEWNET)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise LabError(
            f"the kernel allows no more network namespaces: {made} of {needed} made",
            fix=f"sysctl -w user.max_net_namespaces={2 * needed}",
        ) from error


def allow_files(needed: int) -> None:
    """Raise the soft limit of open files as far as needed. Raises LabError: the hard limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return
    if hard < needed:
        raise LabError(
            f"this network needs {needed} open files, the limit is {hard}",
            fix=f"raise the hard limit: ulimit -Hn {needed} (as root), or nofile in /etc/security/limits.conf",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _end(blueprint: Blueprint, namespaces: Mapping[int, int], directed: int) -> rtnetlink.LinkEnd:
    """Make the end of a link that a directed link leaves from."""
    (node, _), port = blueprint.ends[directed], blueprint.port(directed)
    return rtnetlink.LinkEnd(namespaces[node], port.index, port.name, port.mac)


def _tell(blueprint: Blueprint, node: NodePlan, neighbour: Neighbour, *, anew: bool = False) -> Request:
    what = f"{node.name}:{blueprint.port(neighbour.index - FIRST_INDEX).name}"
    return rtnetlink.set_neighbour(neighbour.index, neighbour.address, neighbour.mac, what, anew=anew)
