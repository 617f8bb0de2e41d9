"""Compare what the kernel holds with what was asked for; count what it has counted.

A link that is silently unshaped, or shaped otherwise, makes every number measured on it worthless. So nothing that was
requested is believed until the kernel has said it back.
"""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any, NoReturn

from testbed.base.errors import LabError
from testbed.lab.base import LARGE_PACKET_BYTES
from testbed.lab.measurements import Counters, Reading
from testbed.lab.netns.kernel_interface import rtnetlink, shaping, switching, sysctls
from testbed.lab.netns.kernel_interface.capabilities import congestion_controls
from testbed.lab.netns.kernel_interface.netlink import NetlinkError, RouteSocket, attributes
from testbed.lab.netns.network.blueprint import FIRST_INDEX, Blueprint, NodePlan, Port
from testbed.lab.netns.network.build import BuiltNetwork
from testbed.lab.netns.network.impairing import Impairing
from testbed.lab.netns.readings.listening import Said, listen

CARRIER_TIMEOUT_S = 5.0
CARRIER_POLL_S = 0.002
FIX = "take the lab down and up again; if it happens again, the kernel lacks what the link needs (testbed doctor)"
SPOT_CHECK_S, SPOT_CHECK_PORTS = 0.004, 32
"""CPU time (s) after which a reading in mid-run begins with no other node, and how many ports of one it reads. 36
directed links take 1 to 3 ms; of many more a part is read, drawn anew each time. With a reading a second, the mean for
large networks, this is 0.4 to 0.5 % of a core."""
QUEUE_UNIT = {"bfifo": "bytes", "netem": "packets", "red": "bytes"}


@dataclass(frozen=True)
class Sample:
    """The nodes of which pyroute2 reads shapers and addresses, and those of which it reads the routes, too."""

    nodes: tuple[int, ...]
    routed: tuple[int, ...]


def verify(network: BuiltNetwork, way: Impairing) -> dict[str, Any]:
    """Read everything back and return it summarised, for the run's ``env.json``. Raises LabError: something differs;
    the link or node, what was asked and what was found are named."""
    summary = verify_nodes(network, way, network.blueprint.own_nodes)
    way.check()
    return summary.result()


def verify_nodes(network: BuiltNetwork, way: Impairing, nodes: Iterable[NodePlan]) -> _Summary:
    """Read some nodes back. Raises LabError: something differs."""
    summary = _Summary(network, way)
    with summary.roots, _readable():
        network.on_nodes(nodes, summary.check)
    return summary


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        raise LabError(f"cannot read back: {error.strerror}", fix=FIX) from error


def spot_check(network: BuiltNetwork, way: Impairing) -> Reading:
    """Read the shapers of nodes in random order, until that has taken :data:`SPOT_CHECK_S`."""
    began_s = time.thread_time()
    draw = random.SystemRandom()
    nodes = [node for node in network.blueprint.own_nodes if node.ports]
    draw.shuffle(nodes)
    summary = _Summary(network, way)
    links = 0
    differs: list[str] = []

    def check(node: NodePlan, netlink: RouteSocket) -> None:
        nonlocal links
        ports = tuple(draw.sample(node.ports, min(SPOT_CHECK_PORTS, len(node.ports))))
        try:
            summary.check_shapers(replace(node, ports=ports), netlink)
        except LabError as error:
            differs.append(error.problem)
        except NetlinkError as error:
            differs.append(f"{node.name}: cannot {error.strerror}")
        links += len(ports)

    network.on_nodes(takewhile(lambda _: time.thread_time() - began_s < SPOT_CHECK_S, nodes), check)
    return Reading(links, time.thread_time() - began_s, tuple(differs))


def said(network: BuiltNetwork, chosen: Sample) -> dict[int, Said]:
    """Ask the kernel about some nodes; its messages, not decoded. Raises LabError: it cannot be asked."""
    found: dict[int, Said] = {}
    routed = set(chosen.routed)

    def ask(node: NodePlan, netlink: RouteSocket) -> None:
        shaped = [port.index for port in node.ports] if network.blueprint.settings.shaped else []
        tunnels = any(port.directed_link in network.blueprint.tunnels for port in node.ports)
        found[node.index] = listen(netlink, shaped, network.root_handle, routes=node.index in routed, links=tunnels)
        if not shaped:  # then what is at the root has no name to ask for it by
            found[node.index] = replace(found[node.index], qdiscs=netlink.dump_raw(shaping.list_qdiscs()))

    with _readable():
        network.on_nodes([network.blueprint.nodes[index] for index in chosen.nodes], ask)
    return found


class _Summary:
    """Summary of what was read back: checks node after node and keeps what was seen."""

    def __init__(self, network: BuiltNetwork, way: Impairing) -> None:
        self.network, self.way = network, way
        self.blueprint = network.blueprint
        self.settings = network.blueprint.settings
        self.shapes: Counter[shaping.Shape] = Counter()
        self.routes = 0
        self.neighbours = 0
        self.circuits = 0
        self.packet_bytes = LARGE_PACKET_BYTES[0]
        self.roots = sysctls.Roots()
        self.sysctls: dict[str, Counter[str]] = {}
        self.inherited: dict[str, str] = {}
        self.has_ipv6 = sysctls.has_ipv6()

    def check(self, node: NodePlan, netlink: RouteSocket) -> None:
        self._check_interfaces(node, netlink)
        self.check_shapers(node, netlink)
        self._check_addresses(node, netlink)
        self._check_routes(node, netlink)
        self._check_neighbours(node, netlink)
        self._check_switch_table(node, netlink)
        self._check_circuits(node, netlink)
        self._check_sysctls(node)

    def _check_interfaces(self, node: NodePlan, netlink: RouteSocket) -> None:
        deadline = time.monotonic() + CARRIER_TIMEOUT_S
        while True:  # carrier is announced by a kernel thread, a moment after both ends are up
            found = {i.index: i for i in map(rtnetlink.read_link, netlink.dump(rtnetlink.list_links()))}
            missing = [p for p in node.ports if p.index not in found or not found[p.index].is_up]
            if not missing:
                break
            if time.monotonic() > deadline:
                _differs(self.blueprint.label(missing[0].directed_link), "state", "up", "down or gone")
            time.sleep(CARRIER_POLL_S)
        for port in node.ports:
            link = self.blueprint.label(port.directed_link)
            _compare(link, "mtu", self.settings.mtu, found[port.index].mtu)
            tunnel = self.blueprint.tunnels.get(port.directed_link)
            _compare(link, "tunnel", tunnel, found[port.index].tunnel)
            most = self.blueprint.packet_bytes if found[port.index].may_grow else LARGE_PACKET_BYTES[0]
            self.packet_bytes = found[port.index].packet_bytes
            _compare(link, "large packets (bytes)", min(most, self.blueprint.packet_bytes), self.packet_bytes)

    def check_shapers(self, node: NodePlan, netlink: RouteSocket) -> None:
        """Raises LabError: a port's shaper or queue is not what was asked for."""
        listed = [shaping.read_qdisc(body) for body in netlink.dump(shaping.list_qdiscs())]
        kinds = {(q.index, q.parent): q for q in listed}
        if not self.settings.shaped:
            for port in node.ports:
                root = kinds.get((port.index, shaping.TC_H_ROOT))
                _compare(self.blueprint.label(port.directed_link), "shaper", "noqueue", root and root.kind)
            return
        wanted = [(port, self.network.shape(port), self.blueprint.label(port.directed_link)) for port in node.ports]
        for port, shape, link in wanted:
            _check_kinds(link, port, shape, kinds)
        answers = netlink.ask([shaping.ask_class(port.index, shape.class_handle, link) for port, shape, link in wanted])
        for (port, shape, link), body in zip(wanted, answers, strict=True):
            found = shaping.read_shape(body, kinds[port.index, shape.class_handle])
            if found != shape:
                _tell_shapes_apart(link, shape, found)
            self.shapes[found] += 1

    def _check_addresses(self, node: NodePlan, netlink: RouteSocket) -> None:
        found = {rtnetlink.read_address(body) for body in netlink.dump(rtnetlink.list_addresses())}
        for port in node.ports:
            if port.address is not None and (port.index, port.address, port.prefix) not in found:
                have = [f"{a}/{p}" for index, a, p in found if index == port.index]
                _differs(f"{node.name}:{port.name}", "address", f"{port.address}/{port.prefix}", have)

    def _check_routes(self, node: NodePlan, netlink: RouteSocket) -> None:
        listed = [rtnetlink.read_route(body) for body in netlink.dump(rtnetlink.list_routes())]
        found = dict(route for route in listed if route is not None)
        first = (self.blueprint.first_segments,) * 2
        for route in node.routes:
            where, way = f"{node.name}, route to {route.destination}", found.pop(route.destination, None)
            _compare(where, "hops", route.hops, way and way.hops)
            _compare(where, "segments with which a connection begins", first, way and way.first_segments)
        if found:
            _differs(node.name, "routes", "none but its own", sorted(found))
        self.routes += len(node.routes)

    def _check_neighbours(self, node: NodePlan, netlink: RouteSocket) -> None:
        """Check neighbours one by one: listing one namespace's walks through those of the whole machine."""
        wanted = list(self.blueprint.neighbours(node))
        asked = [rtnetlink.ask_neighbour(n.index, n.address, node.name) for n in wanted]
        for neighbour, answer in zip(wanted, netlink.ask(asked), strict=True):
            _, state, mac, _ = rtnetlink.read_neighbour(answer)
            if (mac, state) != (neighbour.mac, rtnetlink.NUD_PERMANENT):
                name = self.blueprint.port(neighbour.index - FIRST_INDEX).name
                what = f"neighbour {neighbour.address}"
                _differs(f"{node.name}:{name}", what, f"{neighbour.mac.hex(':')} for good", mac.hex(":"))
        self.neighbours += len(wanted)

    def _check_switch_table(self, node: NodePlan, netlink: RouteSocket) -> None:
        if node.mode == "learn":
            masters = {rtnetlink.read_master(body) for body in netlink.dump(rtnetlink.list_links())}
            for port in node.ports:
                bridged = any(index == port.index and master for index, master in masters)
                _compare(f"{node.name}:{port.name}", "port of a bridge", True, bridged)
        table = self.blueprint.switch_table(node)
        if not table:
            return
        blocks = dict(filter(None, map(switching.read_block, netlink.dump(shaping.list_qdiscs()))))
        listed = map(switching.read_entry, netlink.dump(switching.list_table()))
        found = dict(entry for entry in listed if entry is not None)
        for mac, port in table:
            _compare(f"{node.name}:{port.name}", "switch's table", switching.BLOCK, blocks.get(port.index))
            _compare(node.name, f"port of {mac.hex(':')}", port.index, found.get(mac[2:]))

    def _check_circuits(self, node: NodePlan, netlink: RouteSocket) -> None:
        joined = self.blueprint.joined(node)
        for port in node.ports if node.mode == "panel" else ():
            where = f"{node.name}:{port.name}"
            try:
                found = switching.read_joined(netlink.dump(switching.list_joined(port.index)))
            except (NetlinkError, ValueError) as error:
                _differs(where, "circuit", "one that takes everything, or none", error)
            names = [
                "none" if to is None else self.blueprint.port(to - FIRST_INDEX).name
                for to in (joined.get(port.index), found)
            ]
            _compare(where, "circuit to", *names)
        self.circuits += len(joined) // 2

    def _check_sysctls(self, node: NodePlan) -> None:
        root = self.roots.next()
        for name, value in sysctls.wanted(node, self.has_ipv6, self.settings).items():
            found = sysctls.read(name, root)
            _compare(node.name, f"sysctl {name}", value, found)
            self.sysctls.setdefault(name, Counter())[found] += 1
        if not self.inherited:  # what is not set is inherited by all alike
            self.inherited = {name: sysctls.read(name) for name in sysctls.REPORTED}

    def result(self) -> dict[str, Any]:
        """The summary: every distinct value with the number of links or nodes that have it."""
        nodes = self.blueprint.own_nodes
        shapes = [
            {
                "directed_links": count,
                "rate_bps": 8 * shape.rate_bytes_per_s,
                "burst_bytes": round(shape.burst_bytes),
                f"queue_{QUEUE_UNIT[shape.leaf]}": shape.queue_limit,
                **({} if shape.mark_at_bytes is None else {"mark_at_bytes": shape.mark_at_bytes}),
                "qdisc": f"htb, one class, {shape.leaf} leaf",
            }
            for shape, count in sorted(self.shapes.items(), key=lambda item: item[0].rate_bytes_per_s)
        ]
        return {
            "lab": self.blueprint.builder,
            "nodes": dict(Counter(node.mode for node in nodes)),
            "forwarding_hosts": sum(node.forwards and node.mode == "host" for node in nodes),
            "directed_links": sum(len(node.ports) for node in nodes),
            "mtu": self.settings.mtu,
            "large_packet_bytes": self.packet_bytes,
            "shaped": self.settings.shaped,
            "shapes": shapes,
            "impairments": impairments(self.blueprint),
            "impaired_by": self.way.report() if self.blueprint.impairments else None,
            "routes": self.routes,
            "static_neighbours": self.neighbours,
            "circuits": self.circuits,
            "sysctls": {name: dict(values) for name, values in self.sysctls.items()},
            "inherited_sysctls": self.inherited,
            "congestion_controls": congestion_controls(),
        }


def _check_kinds(link: str, port: Port, wanted: shaping.Shape, found: Mapping[tuple[int, int], shaping.Qdisc]) -> None:
    for parent, kind in ((shaping.TC_H_ROOT, "htb"), (wanted.class_handle, wanted.leaf)):
        qdisc = found.get((port.index, parent))
        _compare(link, "shaper" if kind == "htb" else "queue", kind, qdisc and qdisc.kind)
    default = shaping.read_default_class(found[port.index, shaping.TC_H_ROOT])
    _compare(link, "class of all traffic", shaping.ONLY_CLASS, default)


def _tell_shapes_apart(link: str, wanted: shaping.Shape, found: shaping.Shape) -> NoReturn:
    _compare(link, "rate (bit/s)", 8 * wanted.rate_bytes_per_s, 8 * found.rate_bytes_per_s)
    _compare(link, "ceiling (bit/s)", 8 * wanted.ceil_bytes_per_s, 8 * found.ceil_bytes_per_s)
    _compare(link, "burst (bytes)", round(wanted.burst_bytes), round(found.burst_bytes))
    _compare(link, "netem", wanted.netem, found.netem)
    _compare(link, f"queue ({QUEUE_UNIT[found.leaf]})", wanted.queue_limit, found.queue_limit)
    _compare(link, "marks at (bytes)", wanted.mark_at_bytes, found.mark_at_bytes)
    _differs(link, "shape", wanted, found)


def _compare(where: str, what: str, asked: object, found: object) -> None:
    if asked != found:
        _differs(where, what, asked, found)


def _differs(where: str, what: str, asked: object, found: object) -> NoReturn:
    raise LabError(f"{where}: {what}: asked for {asked}, the kernel has {found}", fix=FIX)


def impairments(blueprint: Blueprint) -> list[dict[str, Any]]:
    """List every distinct impairment with the number of directed links that have it."""
    counted = Counter(blueprint.impairments.values())
    return [{"directed_links": count, **asdict(one)} for one, count in counted.items()]


def counters(network: BuiltNetwork, way: Impairing) -> list[Counters]:
    """Counters of each directed link, of what left through it, in order.

    Bytes include Ethernet headers; packets are those on the wire, after segmentation. Drops are those of the queue
    plus those of the veth pair, whose far end refused a packet, and of the delay line; packets that a link is to lose
    are none.
    """
    found: list[Counters] = []
    shaped = network.blueprint.settings.shaped

    def count(node: NodePlan, netlink: RouteSocket) -> None:
        links = dict(map(_link_counters, netlink.dump(rtnetlink.list_link_counters())))
        roots = {}
        if shaped:
            listed = map(shaping.read_qdisc, netlink.dump(shaping.list_qdiscs()))
            roots = {q.index: q for q in listed if q.parent == shaping.TC_H_ROOT}
        for port in node.ports:
            packets, sent, refused = links[port.index]
            drops = refused
            if shaped:
                root = roots[port.index]
                packets, sent, drops = root.packets, root.bytes, refused + root.drops
            found.append(Counters(port.directed_link, sent, packets, drops, refused))

    network.on_every_node(count)
    return way.unasked(sorted(found, key=lambda one: one.directed_link))


def _link_counters(body: bytes) -> tuple[int, tuple[int, int, int]]:
    """Index of an interface; packets and bytes sent, and packets the far end refused."""
    index = int(rtnetlink.IFINFOMSG.unpack_from(body)[2])
    stats = attributes(body, rtnetlink.IFINFOMSG.size)[rtnetlink.IFLA_STATS64]
    numbers = struct.unpack_from("=8Q", stats)
    return index, (numbers[1], numbers[3], numbers[rtnetlink.LINK_STATS64_TX_DROPPED])
