"""What the kernel has, read by a decoder that is not ours, pyroute2's, and held against what was asked for.

:mod:`readback` decodes with the modules that also encode. A mistake that both make alike, such as a rate in the wrong
unit, makes every number wrong and no reading differ. So the sandbox hands the kernel's messages over as they came, and
this module, in the caller's process, has pyroute2 take them apart, headers included. None of our layouts, constants and
units are used here: the expected values are those of the blueprint, in bit/s, bytes, seconds and dotted addresses.

pyroute2 takes about 45 us a message. Up to 128 hosts it reads all that they have; of larger networks, and of more
routes than :data:`MOST_MESSAGES` leaves room for, it reads those of some nodes, drawn by the seed. A mistake in an
encoder is made at every link alike, so some suffice; :mod:`readback` reads all in any case.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyroute2
from pyroute2.netlink import NLMSG_DONE
from pyroute2.netlink.rtnl import TC_H_ROOT, rt_proto
from pyroute2.netlink.rtnl.marshal import MarshalRtnl
from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

from testbed.errors import LabError
from testbed.lab.base import Impairment, LinkChange
from testbed.lab.netns.blueprint import Blueprint, NodePlan, Port
from testbed.lab.netns.readback import Said, Sample

MOST_MESSAGES = 4500
"""0.2 s. All of a fat-tree of k=8 (128 hosts, 768 ports) are 4,048 but for its routes."""
MESSAGES_A_PORT = 5
"""Three queueing disciplines, a class and an address."""
MAIN_TABLE = 254
"""``ip route``'s table main (rt_tables)."""
BURST_S, BURST_FRAMES, ETHERNET_BYTES = 0.001, 2, 14
"""How deep a bucket is to be: this time at the link's rate, and so many full frames at least."""
FIX = "take the lab down and up again; if it happens again, our encoder or pyroute2 misunderstands this kernel: tell us"


def sample(blueprint: Blueprint, most: int = MOST_MESSAGES) -> Sample:
    """As many nodes as give ``most`` messages, in an order drawn by the links' seed; at least one."""
    order = list(range(len(blueprint.nodes)))
    random.Random(blueprint.settings.seed).shuffle(order)
    nodes, room = _fitting(order, [MESSAGES_A_PORT * len(node.ports) for node in blueprint.nodes], most)
    routed, _ = _fitting(nodes, [len(node.routes) for node in blueprint.nodes], room)
    return Sample(tuple(nodes), tuple(routed))


def _fitting(order: Sequence[int], messages: Sequence[int], room: int) -> tuple[list[int], int]:
    """The first of some nodes, and those after it while there is room; what room is left."""
    found: list[int] = []
    for node in order:
        if found and messages[node] > room:
            break
        found.append(node)
        room -= messages[node]
    return found, max(0, room)


def check(
    blueprint: Blueprint, changes: Mapping[int, LinkChange], chosen: Sample, said: Mapping[int, Said]
) -> dict[str, Any]:
    """Compare; how much was read, for the lab's description. ``changes`` are those since the network was built.

    Raises:
        LabError: pyroute2 reads something else than was asked for.
    """
    reading = _Reading(blueprint, changes)
    for index in chosen.nodes:
        node = blueprint.nodes[index]
        reading.check_shapers(node, said[index])
        reading.check_addresses(node, said[index])
    for index in chosen.routed:
        reading.check_routes(blueprint.nodes[index], said[index])
    return {
        "decoder": f"pyroute2 {pyroute2.__version__}",
        "directed_links": sum(len(blueprint.nodes[index].ports) for index in chosen.nodes),
        "routes": sum(len(blueprint.nodes[index].routes) for index in chosen.routed),
    }


class _Reading:
    """Compares node after node."""

    def __init__(self, blueprint: Blueprint, changes: Mapping[int, LinkChange]) -> None:
        self.blueprint, self.changes = blueprint, changes
        self.marshal = MarshalRtnl()

    def messages(self, data: bytes) -> Iterator[Any]:
        """pyroute2's messages."""
        for message in self.marshal.parse(data):
            if message["header"]["error"] is not None:
                raise LabError(f"the kernel refused to be read: {message['header']['error']}", fix=FIX)
            if message["header"]["type"] != NLMSG_DONE:
                yield message

    def check_shapers(self, node: NodePlan, said: Said) -> None:
        qdiscs = {(one["index"], one["parent"]): one for one in self.messages(said.qdiscs)}
        classes: dict[int, list[Any]] = {}
        for one in self.messages(said.classes):
            classes.setdefault(one["index"], []).append(one)
        for port in node.ports:
            link = self.blueprint.label(port.directed_link)
            root = qdiscs.get((port.index, TC_H_ROOT))
            kind = root and root.get_attr("TCA_KIND")
            _compare(link, "shaper", "htb" if self.blueprint.settings.shaped else "noqueue", kind)
            if root is None or kind != "htb":
                continue
            default = root.get_nested("TCA_OPTIONS", "TCA_HTB_INIT")["defcls"]
            only = root["handle"] | default
            _compare(link, "classes", [only], [one["handle"] for one in classes.get(port.index, [])])
            self.check_class(port, link, classes[port.index][0].get_nested("TCA_OPTIONS", "TCA_HTB_PARMS"))
            self.check_queue(port, link, qdiscs.get((port.index, only)))

    def check_class(self, port: Port, link: str, found: Mapping[str, int]) -> None:
        """``found`` has bytes per second and ticks of the packet scheduler, of which pyroute2 knows the length."""
        rate_bps = self.change(port).rate_bps or port.rate_bps
        frame_bits = 8 * (self.blueprint.settings.mtu + ETHERNET_BYTES)
        depth_s = max(BURST_S, BURST_FRAMES * frame_bits / rate_bps)
        for what, rate, depth in (("rate", "rate", "buffer"), ("ceiling", "ceil", "cbuffer")):
            if not rate_bps - 8 < 8 * found[rate] <= rate_bps:
                _differs(link, f"{what} (bit/s)", rate_bps, 8 * found[rate])
            found_s = found[depth] / tick_in_usec / 1e6
            # A rate is cut to whole bytes per second, a depth to ticks of 64 ns.
            if abs(found_s - depth_s) > 1e-7 + depth_s * 8 / rate_bps:
                _differs(link, f"bucket of the {what} (ms)", 1e3 * depth_s, 1e3 * found_s)

    def check_queue(self, port: Port, link: str, found: Any) -> None:
        change, settings = self.change(port), self.blueprint.settings
        room = settings.queue_bytes if change.queue_bytes is None else change.queue_bytes
        asked = self.blueprint.impairments.get(port.directed_link) if self.blueprint.by_netem else None
        kind = found and found.get_attr("TCA_KIND")
        if kind == "netem":  # which stays, doing nothing, when an impairment ends
            options = found.get_attr("TCA_OPTIONS")
            packets = 0 if change.blocked else max(1, room // (settings.mtu + ETHERNET_BYTES))
            if not (options["limit"] == 0 if change.blocked else options["limit"] >= packets):
                _differs(link, "queue (packets)", f"{packets} or more", options["limit"])
            check_netem(link, asked or Impairment(), options)
            return
        _compare(link, "queue", "netem" if asked else "bfifo", kind)
        limit = int.from_bytes(bytes.fromhex(found.get_attr("TCA_OPTIONS").replace(":", "")), "little")
        _compare(link, "queue (bytes)", 1 if change.blocked else room, limit)

    def check_addresses(self, node: NodePlan, said: Said) -> None:
        found = {(one["index"], one.get_attr("IFA_LOCAL"), one["prefixlen"]) for one in self.messages(said.addresses)}
        for port in node.ports:
            if port.address is not None and (port.index, port.address, port.prefix) not in found:
                have = [f"{address}/{length}" for index, address, length in found if index == port.index]
                _differs(f"{node.name}:{port.name}", "address", f"{port.address}/{port.prefix}", have)

    def check_routes(self, node: NodePlan, said: Said) -> None:
        found = {}
        for one in self.messages(said.routes):
            if one["table"] == MAIN_TABLE and one["proto"] == rt_proto["static"]:
                several = one.get_attr("RTA_MULTIPATH")
                hops = [(hop["oif"], hop.get_attr("RTA_GATEWAY")) for hop in several or ()]
                to = f"{one.get_attr('RTA_DST')}/{one['dst_len']}"
                found[to] = hops or [(one.get_attr("RTA_OIF"), one.get_attr("RTA_GATEWAY"))]
        for route in node.routes:
            to = f"{route.destination}/32"
            _compare(f"{node.name}, route to {to}", "hops", list(route.hops), found.pop(to, None))
        _compare(node.name, "routes beyond its own", [], sorted(found))

    def change(self, port: Port) -> LinkChange:
        return self.changes.get(port.directed_link, LinkChange(port.directed_link))


def check_netem(link: str, asked: Impairment, found: Mapping[str, Any]) -> None:
    """
    Raises:
        LabError: this netem, as pyroute2 has decoded its options, does something else than was asked for.
    """
    for what, asked_s in (("delay", asked.delay_s), ("jitter", asked.jitter_s)):
        found_s = found[what] / tick_in_usec / 1e6
        if abs(found_s - asked_s) > 1e-6:
            _differs(link, f"{what} (ms)", 1e3 * asked_s, 1e3 * found_s)
    reorder = found.get_attr("TCA_NETEM_REORDER") if found["gap"] else None  # type: ignore[attr-defined]
    shares = (
        ("loss", asked.loss, found["loss"]),
        ("reorder", asked.reorder, reorder["prob_reorder"] if reorder else 0),
    )
    for what, share, of_all in shares:
        if abs(of_all / (2**32 - 1) - share) > 1e-8:
            _differs(link, what, share, of_all / (2**32 - 1))


def _compare(where: str, what: str, asked: object, found: object) -> None:
    if asked != found:
        _differs(where, what, asked, found)


def _differs(where: str, what: str, asked: object, found: object) -> None:
    raise LabError(f"{where}: {what}: asked for {asked}, the kernel has {found}, as pyroute2 reads it", fix=FIX)
