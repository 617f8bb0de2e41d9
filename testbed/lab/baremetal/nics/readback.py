"""Wanted state of a host's training NICs, as plain data, and what its kernel has of them: shapers, addresses, routes
and counters. It is read on the host."""

from __future__ import annotations

import ipaddress
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.base.errors import HostError
from testbed.lab.base import LinkSettings
from testbed.lab.netns.kernel_interface import rtnetlink, shaping, switching
from testbed.lab.netns.kernel_interface.netlink import NetlinkError, RouteSocket
from testbed.lab.netns.readings.streams import Streams

ROOT_HANDLE = 0x7E570000
"""Handle that marks our shapers (``7e57:``), by which they are told from those of others."""
IFB = "tb-ifb"
"""Prefix of our ifbs' names, followed by the NIC's index."""


@dataclass(frozen=True)
class Nic:
    """Wanted state of a training NIC: rates out of it and into it, in bit/s; 0 leaves it as fast as it is. ``address``
    is None where the inventory gives it, and the NIC has it; ``peers`` are (address, MAC) of those that it is to reach
    by our route."""

    name: str
    out_bps: int
    in_bps: int
    queue_bytes: int
    mtu: int
    address: str | None = None
    peers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Wanted:
    """Wanted state of one host. ``owner`` says whose it is; ``undo_s`` is how long it stays without a word."""

    owner: str
    nics: tuple[Nic, ...]
    undo_s: float

    def plain(self) -> dict[str, Any]:
        """Convert to plain data for JSON, which :meth:`read` reads."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Wanted:
        """Read what :meth:`plain` makes."""
        nics = (Nic(**one | {"peers": tuple(map(tuple, one["peers"]))}) for one in raw["nics"])
        return cls(raw["owner"], tuple(nics), float(raw["undo_s"]))


def shape(nic: Nic, rate_bps: int, queue_bytes: int | None = None) -> shaping.Shape:
    """Shaper of one direction."""
    settings = LinkSettings(mtu=nic.mtu, queue_bytes=nic.queue_bytes if queue_bytes is None else queue_bytes)
    return shaping.shape(rate_bps, settings, None, ROOT_HANDLE)


def changed_shape(nic: Nic, rate_bps: int, queue_bytes: int | None, blocked: bool) -> shaping.Shape:
    """Shaper of one direction after a change."""
    new = shape(nic, rate_bps, queue_bytes)
    return shaping.blocked(new) if blocked else new


def counters(names: Sequence[str]) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Read (bytes, packets, drops) of each NIC, out of it and into it, since it was shaped."""
    with RouteSocket() as netlink:
        by_index = indices(netlink)
        listed = [shaping.read_qdisc(body) for body in netlink.dump(shaping.list_qdiscs())]
        found = []
        for name in names:
            places = by_index[name], by_index[ifb_of(netlink, name)]
            found.append((_counted(listed, places[0]), _counted(listed, places[1])))
        return found


def differs(
    netlink: RouteSocket, wanted: Wanted, changed: Mapping[tuple[str, bool], shaping.Shape] | None = None
) -> str | None:
    """Describe the first thing that the kernel has otherwise than wanted, or None; ``changed`` are shapes by (NIC,
    outwards) where they have been changed since."""
    links = list(map(rtnetlink.read_link, netlink.dump(rtnetlink.list_links())))
    by_index, mtus = {one.name: one.index for one in links}, {one.name: one.mtu for one in links}
    listed = [shaping.read_qdisc(body) for body in netlink.dump(shaping.list_qdiscs())]
    addresses = {
        (index, address) for index, address, _ in map(rtnetlink.read_address, netlink.dump(rtnetlink.list_addresses()))
    }
    routes = dict(filter(None, map(rtnetlink.read_route, netlink.dump(rtnetlink.list_routes()))))
    for nic in wanted.nics:
        ifb = f"{IFB}{by_index.get(nic.name, 0)}"
        if nic.name not in by_index:
            return f"{nic.name} is gone"
        if mtus[nic.name] != nic.mtu:
            return f"{nic.name}: the MTU is {mtus[nic.name]}, asked was {nic.mtu}"
        for name, out in ((nic.name, True), (ifb, False)) if nic.out_bps else ():
            if name not in by_index:
                return f"{name} is gone"
            asked = (changed or {}).get((nic.name, out)) or shape(nic, nic.out_bps if out else nic.in_bps)
            found = _read_shape(netlink, listed, by_index[name], nic.name)
            if found != asked:
                return f"{nic.name}, {'out' if out else 'in'}: the shaper is {found}, asked was {asked}"
        if nic.out_bps and _leads_to(netlink, by_index[nic.name]) != by_index[ifb]:
            return f"{nic.name}: what arrives is not led to {ifb}"
        if nic.address and (by_index[nic.name], nic.address) not in addresses:
            return f"{nic.name}: the address {nic.address} is gone"
        for address, _ in nic.peers:
            if routes.get(address) != rtnetlink.Way(((by_index[nic.name], None),)):
                return f"{nic.name}: the route to {address} is gone"
    return None


def _leads_to(netlink: RouteSocket, index: int) -> int | None:
    """Index of the interface to which everything goes that a NIC receives."""
    try:
        return switching.read_joined(netlink.dump(switching.list_joined(index)))
    except (ValueError, NetlinkError):  # others' filters, or none
        return None


def shapes(wanted: Wanted) -> list[list[dict[str, int]]]:
    """Read the kernel's shape of each NIC, out of it and into it."""
    found = []
    with RouteSocket() as netlink:
        by_index = indices(netlink)
        listed = [shaping.read_qdisc(body) for body in netlink.dump(shaping.list_qdiscs())]
        for nic in wanted.nics:
            places = by_index[nic.name], by_index[f"{IFB}{by_index[nic.name]}"]
            found.append([_numbers(_read_shape(netlink, listed, index, nic.name)) for index in places])
    return found


def _numbers(shape: shaping.Shape | None) -> dict[str, int]:
    assert shape is not None  # differs() would have said so
    return {
        "rate_bps": 8 * shape.rate_bytes_per_s,
        "burst_bytes": round(shape.burst_bytes),
        "queue_bytes": shape.queue_limit,
    }


def indices(netlink: RouteSocket) -> dict[str, int]:
    """Read the index of each interface, by name."""
    return {one.name: one.index for one in map(rtnetlink.read_link, netlink.dump(rtnetlink.list_links()))}


def ifb_of(netlink: RouteSocket, name: str) -> str:
    """Index of the ifb through which what arrives at a NIC goes."""
    return f"{IFB}{indices(netlink)[name]}"


def ssh_interfaces(addresses: Mapping[str, str]) -> set[str]:
    """Interfaces that the SSH connection of this process's session uses, those below a bridge or a VLAN included; none
    if there is no such connection. ``addresses`` are interfaces by IPv4 address. Raises HostError: no interface has the
    connection's address."""
    address = _ssh_address()
    if address is None:
        return set()
    name = {**addresses, **_of_ipv6()}.get(address)
    if name is None:
        raise HostError(
            f"none of its NICs has the address of the SSH connection, {address}, so that it may be any of them",
            fix="reach the host at an address of its own, and name the training NICs in the inventory",
        )
    return {name, *_below(name)}


def _of_ipv6() -> dict[str, str]:
    """Interfaces by IPv6 address (proc(5))."""
    path = Path("/proc/net/if_inet6")  # not there where IPv6 is not
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return {str(ipaddress.ip_address(bytes.fromhex(address))): name for address, *_, name in lines}


def _below(name: str) -> Iterator[str]:
    """Yield the interfaces below an interface, through which its packets go."""
    for path in Path("/sys/class/net", name).glob("lower_*"):
        lower = path.name.removeprefix("lower_")
        yield lower
        yield from _below(lower)


def _ssh_address() -> str | None:
    """Find our address of the SSH connection: sudo drops the variable that says so, but the session's processes above
    it have it."""
    pid = os.getpid()
    while pid > 1:
        with suppress(OSError):
            for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                words = variable.removeprefix(b"SSH_CONNECTION=").split()
                if variable.startswith(b"SSH_CONNECTION=") and len(words) == 4:
                    return words[2].decode(errors="replace").partition("%")[0]
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def _read_shape(netlink: RouteSocket, listed: Sequence[shaping.Qdisc], index: int, what: str) -> shaping.Shape | None:
    handle = ROOT_HANDLE | shaping.ONLY_CLASS
    leaf = next((one for one in listed if one.index == index and one.parent == handle), None)
    if leaf is None:
        return None
    return shaping.read_shape(netlink.ask([shaping.ask_class(index, handle, what)])[0], leaf)


def _counted(listed: Sequence[shaping.Qdisc], index: int) -> tuple[int, int, int]:
    root = next(one for one in listed if one.index == index and one.handle == ROOT_HANDLE)
    return root.bytes, root.packets, root.drops


class HostMeter:
    """Meter of the bytes that NICs carry, which are shaped, and of those of connections with these ports; read ten
    times a second.

    A NIC's shaper counts what has left it and what waits, an ifb's what has arrived. Both are read at one moment with
    the ends that connections have here, so nothing is compared with what another host has counted by another clock.

    Attributes:
        ports: of the connections.
    """

    def __init__(self, names: Sequence[str], ports: range) -> None:
        self.ports = ports
        self._netlink, self._streams = RouteSocket(), Streams(ports)
        by_name = indices(self._netlink)
        places = [by_name[place] for name in names for place in (name, ifb_of(self._netlink, name))]
        self._asked = [shaping.ask_root(index) for index in places]

    def close(self) -> None:
        """Close the meter's sockets."""
        self._netlink.close()
        self._streams.close()

    def read(self) -> dict[str, Any]:
        """Read the counts, as :class:`testbed.lab.baremetal.controller.answers.Metered`. Raises MissingToolError: the
        kernel tells nothing of connections."""
        begun_s = time.monotonic()
        streams = self._streams.read()
        roots = [shaping.read_qdisc(body) for body in self._netlink.ask(self._asked)]
        took_s = time.monotonic() - begun_s
        counted = [(one.bytes, one.waiting_bytes) for one in roots]
        return {
            "at_s": begun_s + took_s / 2,
            "took_s": took_s,
            "nics": list(zip(counted[::2], counted[1::2], strict=True)),
            "streams": streams,
        }
