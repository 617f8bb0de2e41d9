"""Comparison of the kernel with what was asked for, read by a decoder that is not ours, pyroute2's.

:mod:`readback` decodes with the modules that also encode. A mistake that both make alike, such as a rate in the wrong
unit, makes every number wrong and no reading differ. So the sandbox hands the kernel's messages over as they came, and
this module, in the caller's process, has pyroute2 take them apart, headers included. None of our layouts, constants and
units are used here: the expected values are those of the blueprint, in bit/s, bytes, seconds and dotted addresses.

pyroute2 takes about 45 us a message. Up to 128 hosts it reads all that they have; of larger networks, and of more
routes than :data:`MOST_MESSAGES` leaves room for, it reads those of some nodes, drawn by the seed. A mistake in an
encoder is made at every link alike, so some suffice; :mod:`readback` reads all in any case.
"""

from __future__ import annotations

import gc
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyroute2
from pyroute2.netlink import NLMSG_DONE
from pyroute2.netlink.rtnl import TC_H_ROOT, rt_proto
from pyroute2.netlink.rtnl.marshal import MarshalRtnl
from pyroute2.netlink.rtnl.tcmsg import sched_choke
from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

from testbed.base.errors import LabError
from testbed.lab.base import Impairment, LinkChange
from testbed.lab.netns.kernel_interface.rtnetlink import Tunnel
from testbed.lab.netns.network.blueprint import Blueprint, Port
from testbed.lab.netns.readings.listening import Said
from testbed.lab.netns.readings.readback import Sample

MOST_MESSAGES = 3750
"""The most messages that pyroute2 reads, in 0.2 s. A fat-tree of k=8 (128 hosts, 768 ports, routes for a ring) has
3,728."""
MESSAGES_A_PORT = 4
"""Messages about each port: two queueing disciplines, a class and an address."""
DECODER = f"pyroute2 {pyroute2.__version__}"
MAIN_TABLE = 254
"""Number of the table main of ``ip route`` (rt_tables)."""
BURST_S, BURST_FRAMES, ETHERNET_BYTES = 0.001, 2, 14
"""Depth that a bucket is to have: this time at the link's rate, and so many full frames at least."""
FIX = "take the lab down and up again; if it happens again, our encoder or pyroute2 misunderstands this kernel: tell us"


def sample(blueprint: Blueprint, most: int = MOST_MESSAGES) -> Sample:
    """Choose as many nodes as give ``most`` messages, in an order drawn by the links' seed; at least one."""
    order = [node.index for node in blueprint.own_nodes]
    random.Random(blueprint.settings.seed).shuffle(order)
    nodes, room = _fitting(order, [MESSAGES_A_PORT * len(node.ports) for node in blueprint.nodes], most)
    routed, _ = _fitting(nodes, [len(node.routes) for node in blueprint.nodes], room)
    return Sample(tuple(nodes), tuple(routed))


def _fitting(order: Sequence[int], messages: Sequence[int], room: int) -> tuple[list[int], int]:
    """Choose the first of some nodes, and those after it while there is room; return the room that is left, too."""
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
    """Compare the kernel with the blueprint; return how much was read, for the lab's description. ``changes`` are those
    since the network was built. Raises LabError: pyroute2 reads something else than was asked for."""
    with _uncollected():
        _compare_all(blueprint, changes, chosen, said)
    return {
        "decoder": DECODER,
        "directed_links": sum(len(blueprint.nodes[index].ports) for index in chosen.nodes),
        "routes": sum(len(blueprint.nodes[index].routes) for index in chosen.routed),
    }


@contextmanager
def _uncollected() -> Iterator[None]:
    """Put garbage collection off meanwhile: pyroute2's messages and their attributes refer to each other, and to look
    for such cycles all along takes a sixth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _compare_all(
    blueprint: Blueprint, changes: Mapping[int, LinkChange], chosen: Sample, said: Mapping[int, Said]
) -> None:
    routed = set(chosen.routed)
    for index in chosen.nodes:
        node, kernel = blueprint.nodes[index], Kernel(said[index])
        for port in node.ports:
            kernel.check_egress(port.index, _egress(blueprint, port, changes))
            if port.directed_link in blueprint.tunnels:
                tunnel = blueprint.tunnels[port.directed_link]
                kernel.check_tunnel(blueprint.label(port.directed_link), port.index, tunnel, blueprint.settings.mtu)
            if port.address is not None:
                kernel.check_address(f"{node.name}:{port.name}", port.index, port.address, port.prefix)
        if index in routed:
            found = kernel.routes()
            first, asked = kernel.first_segments(), (blueprint.first_segments,) * 2
            for route in node.routes:
                to = f"{route.destination}/32"
                where = f"{node.name}, route to {to}"
                compare(where, "hops", list(route.hops), found.pop(to, None))
                compare(where, "segments with which a connection begins", asked, first.get(to))
            compare(node.name, "routes beyond its own", [], sorted(found))


@dataclass(frozen=True)
class Egress:
    """Egress of an interface as it should be; ``netem`` is None where the lab has no part for it."""

    where: str
    rate_bps: int | None
    """Rate of the link; None leaves it unshaped."""
    mtu: int
    queue_bytes: int
    blocked: bool
    netem: Impairment | None = None
    mark_at_bytes: int | None = None


def _egress(blueprint: Blueprint, port: Port, changes: Mapping[int, LinkChange]) -> Egress:
    """Egress that was asked of a port, changes included."""
    link, settings = port.directed_link, blueprint.settings
    change = changes.get(link, LinkChange(link))
    return Egress(
        blueprint.label(link),
        (change.rate_bps or port.rate_bps) if settings.shaped else None,
        settings.mtu,
        settings.queue_bytes if change.queue_bytes is None else change.queue_bytes,
        bool(change.blocked),
        blueprint.impairments.get(link, Impairment()) if blueprint.by_netem else None,
        settings.mark_at_bytes,
    )


class Kernel:
    """One node's kernel, as pyroute2 decodes what it says. Every method raises LabError for what differs."""

    def __init__(self, said: Said) -> None:
        self._said = said
        self._qdiscs = {(one["index"], one["parent"]): one for one in _messages(said.qdiscs)}
        self._classes = {one["index"]: one for one in _messages(said.classes)}
        self._addresses = {
            (one["index"], one.get_attr("IFA_LOCAL"), one["prefixlen"]) for one in _messages(said.addresses)
        }

    def check_egress(self, index: int, asked: Egress) -> None:
        """Check an HTB with a class for everything and a queue below it, or nothing where it is not shaped."""
        root = self._qdiscs.get((index, TC_H_ROOT))
        kind = root and root.get_attr("TCA_KIND")
        compare(asked.where, "shaper", "noqueue" if asked.rate_bps is None else "htb", kind)
        if root is None or asked.rate_bps is None:
            return
        default = root["handle"] | root.get_nested("TCA_OPTIONS", "TCA_HTB_INIT")["defcls"]
        only = self._classes.get(index)
        compare(asked.where, "class of all traffic", default, only and only["handle"])
        assert only is not None
        _check_class(asked, asked.rate_bps, only.get_nested("TCA_OPTIONS", "TCA_HTB_PARMS"))
        _check_queue(asked, self._qdiscs.get((index, default)))

    def check_tunnel(self, where: str, index: int, asked: Tunnel, mtu: int) -> None:
        """Check that an interface is a VXLAN to one peer on another machine, whose packets are not cut."""
        found = next((one for one in _messages(self._said.links) if one["index"] == index), None)
        kind = found and found.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND")
        compare(where, "kind", "vxlan", kind)
        assert found is not None
        data = found.get_nested("IFLA_LINKINFO", "IFLA_INFO_DATA")
        wanted = {
            "ID": asked.number,
            "LOCAL": asked.local,
            "GROUP": asked.remote,
            "PORT": asked.port,
            "LEARNING": int(asked.learns),
            "DF": int(not asked.fragments),
            "UDP_CSUM": 0,
        }
        for name, value in wanted.items():
            compare(where, f"tunnel's {name}", value, data.get_attr(f"IFLA_VXLAN_{name}"))
        compare(where, "mtu", mtu, found.get_attr("IFLA_MTU"))

    def check_address(self, where: str, index: int, address: str, prefix: int | None) -> None:
        """Check that an interface has an address, with a prefix of this length, or of any (None)."""
        have = {(one, length) for other, one, length in self._addresses if other == index}
        if not any(one == address and prefix in (None, length) for one, length in have):
            asked = address if prefix is None else f"{address}/{prefix}"
            _differs(where, "address", asked, [f"{one}/{length}" for one, length in have])

    def routes(self) -> dict[str, list[tuple[int, str | None]]]:
        """Hops (interface, gateway) of each route that a program has stated, by destination."""
        found = {}
        for to, one in self._stated():
            several = one.get_attr("RTA_MULTIPATH")
            hops = [(hop["oif"], hop.get_attr("RTA_GATEWAY")) for hop in several or ()]
            found[to] = hops or [(one.get_attr("RTA_OIF"), one.get_attr("RTA_GATEWAY"))]
        return found

    def first_segments(self) -> dict[str, tuple[int, int]]:
        """Segments with which connections of each stated route begin to send, and to receive, by destination; 0 for the
        kernel's own."""
        found = {}
        for to, one in self._stated():
            metrics = one.get_attr("RTA_METRICS")
            send, receive = (metrics and metrics.get_attr(f"RTAX_INIT{way}WND") for way in "CR")
            found[to] = send or 0, receive or 0
        return found

    def _stated(self) -> Iterator[tuple[str, Any]]:
        for one in _messages(self._said.routes):
            if one["table"] == MAIN_TABLE and one["proto"] == rt_proto["static"]:
                yield f"{one.get_attr('RTA_DST')}/{one['dst_len']}", one


def _messages(data: bytes) -> Iterator[Any]:
    """Yield messages, decoded by pyroute2."""
    for message in MarshalRtnl().parse(data):
        if message["header"]["error"] is not None:
            raise LabError(f"the kernel refused to be read: {message['header']['error']}", fix=FIX)
        if message["header"]["type"] != NLMSG_DONE:
            yield message


def _check_class(asked: Egress, rate_bps: int, found: Mapping[str, int]) -> None:
    """Check a class. ``found`` has bytes per second and ticks of the packet scheduler, of which pyroute2 knows the
    length."""
    depth_s = max(BURST_S, BURST_FRAMES * 8 * (asked.mtu + ETHERNET_BYTES) / rate_bps)
    for what, rate, depth in (("rate", "rate", "buffer"), ("ceiling", "ceil", "cbuffer")):
        if not rate_bps - 8 < 8 * found[rate] <= rate_bps:
            _differs(asked.where, f"{what} (bit/s)", rate_bps, 8 * found[rate])
        found_s = found[depth] / tick_in_usec / 1e6
        # A rate is cut to whole bytes per second, a depth to ticks of 64 ns.
        if abs(found_s - depth_s) > 1e-7 + depth_s * 8 / rate_bps:
            _differs(asked.where, f"bucket of the {what} (ms)", 1e3 * depth_s, 1e3 * found_s)


def _check_queue(asked: Egress, found: Any) -> None:
    kind = found and found.get_attr("TCA_KIND")
    if kind == "netem" and asked.netem is not None:  # also one that does nothing, once an impairment has ended
        options = found.get_attr("TCA_OPTIONS")
        least = max(1, asked.queue_bytes // (asked.mtu + ETHERNET_BYTES))
        if asked.blocked:
            compare(asked.where, "queue (packets)", 0, options["limit"])
        elif options["limit"] < least:
            _differs(asked.where, "queue (packets)", f"{least} or more", options["limit"])
        check_netem(asked.where, asked.netem, options)
        return
    plain = "bfifo" if asked.mark_at_bytes is None else "red"
    compare(asked.where, "queue", "netem" if asked.netem else plain, kind)
    if kind == "red":
        check_red(asked, found.get_attr("TCA_OPTIONS"))
        return
    limit = int.from_bytes(bytes.fromhex(found.get_attr("TCA_OPTIONS").replace(":", "")), "little")
    compare(asked.where, "queue (bytes)", 1 if asked.blocked else asked.queue_bytes, limit)


def check_red(asked: Egress, found: str) -> None:
    """
    Args:
        found: the options of a RED, in hexadecimal: pyroute2 has no decoder for them. It has one for CHOKe's, which are
            the same structure (``struct tc_red_qopt`` and ``tc_choke_qopt`` in the kernel's uapi/linux/pkt_sched.h).

    Raises:
        LabError: this RED does something else than was asked for.
    """
    packed = bytes.fromhex(found.replace(":", ""))
    header = struct.pack("=HH", 4 + len(packed), 2)  # of the attribute that the options came in, with its length
    options = sched_choke.options(data=header + packed)
    options.decode()
    parameters = options.get_attr("TCA_CHOKE_PARMS")
    compare(asked.where, "queue (bytes)", 1 if asked.blocked else asked.queue_bytes, parameters["limit"])
    # As soon as the queue itself, and not its mean over time (Wlog), is that long, every packet.
    compare(asked.where, "marks at (bytes)", asked.mark_at_bytes, parameters["qth_min"])
    compare(asked.where, "marks all at (bytes)", asked.mark_at_bytes, parameters["qth_max"])
    compare(asked.where, "weight of the past", 0, parameters["Wlog"])
    compare(asked.where, "ECN", 1, parameters["flags"] & 1)


def check_netem(link: str, asked: Impairment, found: Mapping[str, Any]) -> None:
    """Raises LabError: this netem, as pyroute2 has decoded its options, does something else than was asked for."""
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


def compare(where: str, what: str, asked: object, found: object) -> None:
    """Raises LabError: what pyroute2 has found is not what was asked for."""
    if asked != found:
        _differs(where, what, asked, found)


def _differs(where: str, what: str, asked: object, found: object) -> None:
    raise LabError(f"{where}: {what}: asked for {asked}, the kernel has {found}, as pyroute2 reads it", fix=FIX)
