"""Route-netlink verbs: interfaces, addresses, routes, neighbours. Each returns a request, or parses an answer.

Numbers and layouts are those of ``linux/rtnetlink.h``, ``linux/if_link.h`` and ``linux/neighbour.h``.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from testbed.lab.base import LARGE_PACKET_BYTES
from testbed.lab.netns.kernel_interface.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    Request,
    attribute,
    attributes,
    text,
    u32,
)

RTM_NEWLINK, RTM_GETLINK = 16, 18
RTM_NEWADDR, RTM_GETADDR = 20, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30

AF_INET = socket.AF_INET
IFF_UP = 0x1
NESTED = 0x8000

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_MASTER, IFLA_OPERSTATE = 1, 3, 4, 10, 16
IFLA_LINKINFO, IFLA_STATS64, IFLA_NET_NS_FD, IFLA_EXT_MASK = 18, 23, 28, 29
IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES, IFLA_GSO_MAX_SEGS = 31, 32, 40
IFLA_GSO_MAX_SIZE, IFLA_GSO_IPV4_MAX_SIZE = 41, 63
IFLA_INFO_KIND, IFLA_INFO_DATA = 1, 2
VETH_INFO_PEER = 1
IFLA_VXLAN_ID, IFLA_VXLAN_GROUP, IFLA_VXLAN_LOCAL, IFLA_VXLAN_LEARNING = 1, 2, 4, 7
IFLA_VXLAN_PORT, IFLA_VXLAN_UDP_CSUM, IFLA_VXLAN_DF = 15, 18, 29
VXLAN_PORT = 14789
"""UDP port of tunnels between machines: 4789, which is VXLAN's own, belongs to other networks, and is often blocked."""
RTEXT_FILTER_SKIP_STATS = 8
IF_OPER_UNKNOWN, IF_OPER_UP = 0, 6

IFA_ADDRESS, IFA_LOCAL = 1, 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_METRICS, RTA_MULTIPATH = 1, 4, 5, 8, 9
RTAX_INITCWND, RTAX_INITRWND = 11, 14
RT_TABLE_MAIN, RTPROT_STATIC, RTN_UNICAST = 254, 4, 1
RTNH_F_ONLINK = 4
RT_SCOPE_UNIVERSE, RT_SCOPE_LINK, RT_SCOPE_NOWHERE = 0, 253, 255  # to remove, nowhere stands for any
NDA_DST, NDA_LLADDR = 1, 2
NUD_PERMANENT = 0x80

IFINFOMSG = struct.Struct("=BxHiII")  # family, type, index, flags, change
IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
RTMSG = struct.Struct("=BBBBBBBBI")  # family, dst_len, src_len, tos, table, protocol, scope, type, flags
RTNEXTHOP = struct.Struct("=HBBi")  # length, flags, weight - 1, index
NDMSG = struct.Struct("=BxxxiHBB")  # family, index, state, flags, type
LINK_STATS64_TX_DROPPED = 7
"""Position of ``tx_dropped`` in struct rtnl_link_stats64, which is all 64-bit numbers."""
RX_BYTES, TX_BYTES = 2, 3
LOST = (4, 5, LINK_STATS64_TX_DROPPED, 15)
"""Positions of packets that a NIC has lost: errors in either direction, dropped on the way out, missed on the way
in."""

Hops = tuple[tuple[int, str | None], ...]


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of a link: the namespace (open file) it is made in, and its index, name and MAC address there."""

    namespace: int
    index: int
    name: str
    mac: bytes


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Tunnel of a link to another machine (VXLAN, RFC 7348): its number, which no other link between these machines has
    (24 bits), and the machines' addresses. It has one peer and learns no other; its packets are not cut into
    fragments."""

    number: int
    local: str
    remote: str
    port: int = VXLAN_PORT
    learns: bool = False
    fragments: bool = False


def create_veth(a: LinkEnd, b: LinkEnd, mtu: int, link: str) -> Request:
    """Make a pair, down, straight in both namespaces."""
    peer = attribute(VETH_INFO_PEER | NESTED, _end(b, mtu))
    body = _end(a, mtu)
    body += attribute(IFLA_LINKINFO | NESTED, text(IFLA_INFO_KIND, "veth") + attribute(IFLA_INFO_DATA | NESTED, peer))
    return Request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"make link {link}")


def create_tunnel(end: LinkEnd, tunnel: Tunnel, mtu: int, link: str) -> Request:
    """Make an end of a link to another machine, down, straight in its namespace. Its packets go out of the namespace in
    which the request is sent, the machine's own. What they carry has checksums, so the outer ones have none."""
    data = u32(IFLA_VXLAN_ID, tunnel.number)
    data += attribute(IFLA_VXLAN_LOCAL, socket.inet_aton(tunnel.local))
    data += attribute(IFLA_VXLAN_GROUP, socket.inet_aton(tunnel.remote))
    data += attribute(IFLA_VXLAN_PORT, tunnel.port.to_bytes(2, "big"))
    data += attribute(IFLA_VXLAN_LEARNING, bytes([tunnel.learns]))
    data += attribute(IFLA_VXLAN_UDP_CSUM, bytes(1)) + attribute(IFLA_VXLAN_DF, bytes([not tunnel.fragments]))
    kind = text(IFLA_INFO_KIND, "vxlan") + attribute(IFLA_INFO_DATA | NESTED, data)
    body = _end(end, mtu) + attribute(IFLA_LINKINFO | NESTED, kind)
    return Request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"make the tunnel of {link}")


def _end(end: LinkEnd, mtu: int) -> bytes:
    return (
        IFINFOMSG.pack(0, 0, end.index, 0, 0)
        + text(IFLA_IFNAME, end.name)
        + attribute(IFLA_ADDRESS, end.mac)
        + u32(IFLA_MTU, mtu)
        + u32(IFLA_NUM_TX_QUEUES, 1)
        + u32(IFLA_NUM_RX_QUEUES, 1)
        + u32(IFLA_NET_NS_FD, end.namespace)
    )


def read_master(body: bytes) -> tuple[int, int]:
    """Index of an interface, and of the bridge that it is a port of, 0 if of none."""
    found = attributes(body, IFINFOMSG.size)
    return int(IFINFOMSG.unpack_from(body)[2]), int.from_bytes(found.get(IFLA_MASTER, b""), "little")


def set_up(index: int, what: str) -> Request:
    """Bring an interface up."""
    return Request(RTM_NEWLINK, 0, IFINFOMSG.pack(0, 0, index, IFF_UP, IFF_UP), f"bring up {what}")


def limit_segments(index: int, segments: int, what: str) -> Request:
    """Limit the number of packets that TCP may leave to be cut later, for new connections."""
    body = IFINFOMSG.pack(0, 0, index, 0, 0) + u32(IFLA_GSO_MAX_SEGS, segments)
    return Request(RTM_NEWLINK, 0, body, f"limit large packets at {what}")


def set_packet_bytes(index: int, size: int, what: str) -> Request:
    """Set the number of bytes that TCP may leave to be cut later, for new connections. Kernels before 6.3 do not know
    sizes above ``LARGE_PACKET_BYTES[0]``, and say nothing."""
    key = IFLA_GSO_IPV4_MAX_SIZE if size > LARGE_PACKET_BYTES[0] else IFLA_GSO_MAX_SIZE
    body = IFINFOMSG.pack(0, 0, index, 0, 0) + u32(key, size)
    return Request(RTM_NEWLINK, 0, body, f"set the size of large packets at {what}")


def add_address(index: int, address: str, prefix: int, what: str) -> Request:
    """Give an interface an IPv4 address."""
    packed = socket.inet_aton(address)
    body = IFADDRMSG.pack(AF_INET, prefix, 0, RT_SCOPE_UNIVERSE, index)
    body += attribute(IFA_LOCAL, packed) + attribute(IFA_ADDRESS, packed)
    return Request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body, f"give {what} the address {address}/{prefix}")


def add_route(destination: str, hops: Hops, what: str, first_segments: int = 0) -> Request:
    """Add a route to one address, through one hop (interface index, gateway or None) or balanced over several.
    Connections begin with so many segments; 0 for as many as the kernel chooses."""
    scope = RT_SCOPE_UNIVERSE if any(gateway for _, gateway in hops) else RT_SCOPE_LINK
    body = RTMSG.pack(AF_INET, 32, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, scope, RTN_UNICAST, 0)
    body += attribute(RTA_DST, socket.inet_aton(destination))
    if len(hops) == 1:
        index, gateway = hops[0]
        body += u32(RTA_OIF, index) + _gateway(gateway)
    else:
        body += attribute(RTA_MULTIPATH, b"".join(_next_hop(index, gateway) for index, gateway in hops))
    body += _first(first_segments)
    return Request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body, f"route at {what} to {destination}")


def set_route(destination: str, hops: Hops, what: str, first_segments: int = 0) -> Request:
    """Set the route to one address, through one hop, whatever the route was before, and even if the gateway still has a
    route of its own."""
    (index, gateway), *_ = hops
    flags = 0 if gateway is None else RTNH_F_ONLINK
    scope = RT_SCOPE_LINK if gateway is None else RT_SCOPE_UNIVERSE
    body = RTMSG.pack(AF_INET, 32, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, scope, RTN_UNICAST, flags)
    body += attribute(RTA_DST, socket.inet_aton(destination)) + u32(RTA_OIF, index) + _gateway(gateway)
    body += _first(first_segments)
    return Request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body, f"change the route at {what} to {destination}")


def remove_route(destination: str, what: str) -> Request:
    """Remove the route to one address."""
    body = RTMSG.pack(AF_INET, 32, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_NOWHERE, RTN_UNICAST, 0)
    body += attribute(RTA_DST, socket.inet_aton(destination))
    return Request(RTM_DELROUTE, 0, body, f"forget the route at {what} to {destination}")


def _gateway(gateway: str | None) -> bytes:
    return b"" if gateway is None else attribute(RTA_GATEWAY, socket.inet_aton(gateway))


def _first(segments: int) -> bytes:
    """Pack the number of segments with which a connection begins to send, and to receive."""
    both = u32(RTAX_INITCWND, segments) + u32(RTAX_INITRWND, segments)
    return attribute(RTA_METRICS, both) if segments else b""


def _next_hop(index: int, gateway: str | None) -> bytes:
    rest = _gateway(gateway)
    return RTNEXTHOP.pack(RTNEXTHOP.size + len(rest), 0, 0, index) + rest


def set_neighbour(index: int, address: str, mac: bytes, what: str, *, anew: bool = False) -> Request:
    """State for good which MAC address an IPv4 address has; with ``anew``, from now on, in place of another."""
    body = NDMSG.pack(AF_INET, index, NUD_PERMANENT, 0, 0)
    body += attribute(NDA_DST, socket.inet_aton(address)) + attribute(NDA_LLADDR, mac)
    return Request(
        RTM_NEWNEIGH, NLM_F_CREATE | (NLM_F_REPLACE if anew else NLM_F_EXCL), body, f"tell {what} where {address} is"
    )


def remove_neighbour(index: int, address: str, what: str) -> Request:
    """Remove the MAC address of an IPv4 address."""
    body = NDMSG.pack(AF_INET, index, 0, 0, 0) + attribute(NDA_DST, socket.inet_aton(address))
    return Request(RTM_DELNEIGH, 0, body, f"forget at {what} where {address} is")


def list_links() -> Request:
    """Ask for every interface, without statistics."""
    return Request(RTM_GETLINK, 0, IFINFOMSG.pack(0, 0, 0, 0, 0) + u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS), "list")


def list_link_counters() -> Request:
    """Ask for every interface, with statistics."""
    return Request(RTM_GETLINK, 0, IFINFOMSG.pack(0, 0, 0, 0, 0), "list counters")


def list_addresses() -> Request:
    """Ask for every IPv4 address."""
    return Request(RTM_GETADDR, 0, IFADDRMSG.pack(AF_INET, 0, 0, 0, 0), "list addresses")


def list_routes() -> Request:
    """Ask for every IPv4 route."""
    return Request(RTM_GETROUTE, 0, RTMSG.pack(AF_INET, 0, 0, 0, 0, 0, 0, 0, 0), "list routes")


def list_static_routes() -> Request:
    """Ask for the main table's IPv4 routes that a program has stated; the kernel's own are left out if it filters."""
    body = RTMSG.pack(AF_INET, 0, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, 0, 0, 0)
    return Request(RTM_GETROUTE, 0, body, "list stated routes")


def ask_neighbour(index: int, address: str, what: str) -> Request:
    """Ask which MAC address an IPv4 address has."""
    body = NDMSG.pack(AF_INET, index, 0, 0, 0) + attribute(NDA_DST, socket.inet_aton(address))
    return Request(RTM_GETNEIGH, 0, body, f"ask {what} where {address} is")


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface as listed."""

    index: int
    name: str
    mtu: int
    is_up: bool
    packet_bytes: int
    """Bytes of the largest packets that are cut later."""
    may_grow: bool
    """Whether the kernel knows packets larger than ``LARGE_PACKET_BYTES[0]``."""
    tunnel: Tunnel | None
    """Tunnel that the interface is the end of."""


def read_link(body: bytes) -> Interface:
    """Parse one item of :func:`list_links`."""
    _, _, index, flags, _ = IFINFOMSG.unpack_from(body)
    found = attributes(body, IFINFOMSG.size)
    tunnel = _read_tunnel(found.get(IFLA_LINKINFO, b""))
    states = [IF_OPER_UP] if tunnel is None else [IF_OPER_UP, IF_OPER_UNKNOWN]  # a tunnel has no carrier to wait for
    is_up = bool(flags & IFF_UP) and found[IFLA_OPERSTATE][0] in states
    name = found[IFLA_IFNAME].rstrip(b"\0").decode()
    may_grow = IFLA_GSO_IPV4_MAX_SIZE in found
    packet_bytes = _number(found, IFLA_GSO_IPV4_MAX_SIZE if may_grow else IFLA_GSO_MAX_SIZE)
    return Interface(index, name, _number(found, IFLA_MTU), is_up, packet_bytes, may_grow, tunnel)


def _read_tunnel(link_info: bytes) -> Tunnel | None:
    """Parse what the kernel says of a kind of interface; None for others than tunnels."""
    found = attributes(link_info, 0)
    if found.get(IFLA_INFO_KIND) != b"vxlan\0":
        return None
    data = attributes(found[IFLA_INFO_DATA], 0)
    local, remote = (socket.inet_ntoa(data.get(kind, bytes(4))) for kind in (IFLA_VXLAN_LOCAL, IFLA_VXLAN_GROUP))
    port, learns = int.from_bytes(data[IFLA_VXLAN_PORT], "big"), bool(_number(data, IFLA_VXLAN_LEARNING))
    return Tunnel(_number(data, IFLA_VXLAN_ID), local, remote, port, learns, not _number(data, IFLA_VXLAN_DF))


def read_address(body: bytes) -> tuple[int, str, int]:
    """Interface index, address and prefix length of one item of :func:`list_addresses`."""
    _, prefix, _, _, index = IFADDRMSG.unpack_from(body)
    return index, socket.inet_ntoa(attributes(body, IFADDRMSG.size)[IFA_LOCAL]), prefix


class Way(NamedTuple):
    """A route's hops, and with how many segments its connections begin to send, and to receive; 0 for the kernel's."""

    hops: Hops
    first_segments: tuple[int, int] = (0, 0)


def read_route(body: bytes) -> tuple[str, Way] | None:
    """Destination and way of one item of :func:`list_routes`; None for routes that are not ours."""
    _, length, _, _, table, protocol, _, _, _ = RTMSG.unpack_from(body)
    if length != 32 or table != RT_TABLE_MAIN or protocol != RTPROT_STATIC:
        return None
    found = attributes(body, RTMSG.size)
    destination = socket.inet_ntoa(found[RTA_DST])
    metrics = attributes(found.get(RTA_METRICS, b""), 0)
    send, receive = (_number(metrics, kind) if kind in metrics else 0 for kind in (RTAX_INITCWND, RTAX_INITRWND))
    if RTA_MULTIPATH in found:
        return destination, Way(tuple(_read_next_hops(found[RTA_MULTIPATH])), (send, receive))
    return destination, Way(((_number(found, RTA_OIF), _read_gateway(found)),), (send, receive))


def _read_next_hops(data: bytes) -> Sequence[tuple[int, str | None]]:
    hops = []
    start = 0
    while start < len(data):
        length, _, _, index = RTNEXTHOP.unpack_from(data, start)
        hops.append((index, _read_gateway(attributes(data[start : start + length], RTNEXTHOP.size))))
        start += (length + 3) & ~3
    return hops


def _read_gateway(found: dict[int, bytes]) -> str | None:
    return socket.inet_ntoa(found[RTA_GATEWAY]) if RTA_GATEWAY in found else None


def read_neighbour(body: bytes) -> tuple[int, int, bytes, str]:
    """Interface index, state, MAC and IPv4 address of the answer to :func:`ask_neighbour`."""
    _, index, state, _, _ = NDMSG.unpack_from(body)
    found = attributes(body, NDMSG.size)
    return index, state, found.get(NDA_LLADDR, b""), socket.inet_ntoa(found[NDA_DST])


def read_counters(body: bytes) -> tuple[int, int, int]:
    """Bytes that an interface has sent and received, and the packets that it has lost, of one item of
    :func:`list_link_counters`."""
    numbers = struct.unpack_from("=16Q", attributes(body, IFINFOMSG.size)[IFLA_STATS64])
    return numbers[TX_BYTES], numbers[RX_BYTES], sum(numbers[position] for position in LOST)


def _number(found: dict[int, bytes], kind: int) -> int:
    return int.from_bytes(found.get(kind, b""), "little")
