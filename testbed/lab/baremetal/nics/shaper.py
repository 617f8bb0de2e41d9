"""Shaping of a host's training NICs, and how it is undone; runs on the host, as root.

What is to be undone is written down before anything is changed, in ``/run``, which forgets at a reboot as the kernel
does. A process beside it undoes everything once a deadline has passed that nobody has put off, so that a controller
that is lost, whatever became of it, leaves no host shaped.

Egress is shaped on the NIC; what arrives goes through an ifb, whose egress is shaped, as a switch's port would be.
Addresses that come from the topology's plan are added beside those that the NIC has, with a route and a neighbour for
each peer: with two NICs in one network, ARP would answer for either.

Usage: ``python -P -m testbed.lab.baremetal.nics.shaper wait SINCE``
"""

from __future__ import annotations

import errno
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from testbed.base.errors import HostError
from testbed.lab.baremetal.nics import readback, undoing
from testbed.lab.baremetal.nics.readback import IFB, ROOT_HANDLE, Nic, Wanted, changed_shape, shape
from testbed.lab.baremetal.nics.undoing import State
from testbed.lab.netns.kernel_interface import rtnetlink, shaping, switching
from testbed.lab.netns.kernel_interface.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NetlinkError,
    Request,
    RouteSocket,
    attribute,
    text,
    u32,
)
from testbed.lab.netns.kernel_interface.switching import INGRESS_HANDLE, TC_H_INGRESS

POLL_S = 1.0
GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.EADDRNOTAVAIL, errno.EINVAL})
"""Errors of an undoing step that say that the thing is not there (any more)."""
_RTM_DELLINK, _RTM_DELADDR, _RTM_DELQDISC = 17, 21, 37


def apply(wanted: Wanted, *, check: bool = False, arm: bool = True) -> bool:
    """Make the NICs as wanted; whether anything was (with ``check``: would be) changed. A process that stays to undo it
    need not ``arm`` the one that does so in time. Raises HostError: it cannot be done; then nothing has changed;
    PrivilegeError: we are not root."""
    with undoing.lock(), RouteSocket() as netlink:
        before = undoing.state()
        if before and before.wanted["owner"] != wanted.owner and not undoing.expired():
            raise HostError(
                f"the NICs are shaped by another run, {before.wanted['owner']}",
                fix="wait for its end; if it does not run any more, testbed clean --inventory FILE --yes",
            )
        _check(wanted, netlink, {name for _, name, *_ in before.undo} if before else set())
        if before and before.wanted == wanted.plain() and readback.differs(netlink, wanted) is None:
            if not check:
                undoing.extend()
            return False
        if check:
            return True
        if before:
            undoing.disarm()
            _undo(before, netlink)
        _carry_out(wanted, netlink)
        if arm:
            undoing.arm()
        return True


def undo(owner: str | None = None, *, check: bool = False) -> bool:
    """Undo everything that :func:`apply` did (for ``owner`` only, if one is given); return whether there was
    anything."""
    if undoing.state() is None:
        return False
    with undoing.lock(), RouteSocket() as netlink:
        found = undoing.state()
        if found is None or (owner is not None and found.wanted["owner"] != owner):
            return False
        if not check:
            undoing.disarm()
            _undo(found, netlink)
        return True


def wait(since: float) -> None:
    """Undo what was done at that time once the deadline has passed; return when it is undone, and by whomever."""
    while (found := undoing.state()) is not None and found.since == since:
        if undoing.expired():
            with undoing.lock(), RouteSocket() as netlink:
                if (found := undoing.state()) is not None and undoing.expired():
                    _undo(found, netlink)
            return
        time.sleep(POLL_S)


def change(name: str, wanted: Nic, *, out: bool, rate_bps: int, queue_bytes: int | None, blocked: bool) -> None:
    """Change one direction of a NIC while it is in use. Raises HostError: the kernel refused."""
    with RouteSocket() as netlink:
        index = readback.indices(netlink)[name if out else readback.ifb_of(netlink, name)]
        with _named(name):
            netlink.send(shaping.change(index, changed_shape(wanted, rate_bps, queue_bytes, blocked), name))


def _check(wanted: Wanted, netlink: RouteSocket, ours: set[str]) -> None:
    """Raises HostError: a NIC is not there, or is not to be touched."""
    links = {one.name: one for one in map(rtnetlink.read_link, netlink.dump(rtnetlink.list_links()))}
    names = {one.index: one.name for one in links.values()}
    listed = [rtnetlink.read_address(body) for body in netlink.dump(rtnetlink.list_addresses())]
    by_address = {address: names[index] for index, address, _ in listed}
    carriers = readback.ssh_interfaces(by_address)
    qdiscs = [shaping.read_qdisc(body) for body in netlink.dump(shaping.list_qdiscs())]
    for nic in wanted.nics:
        if nic.name not in links:
            raise HostError(
                f"there is no NIC {nic.name}",
                fix=f"correct its nics in the inventory; it has {', '.join(sorted(links))}",
            )
        if nic.name in carriers:
            raise HostError(
                f"{nic.name} carries the SSH connection, and is not to be shaped",
                fix="name the training NICs in the inventory, and leave the management NIC alone",
            )
        if not links[nic.name].is_up:
            raise HostError(f"{nic.name} is down", fix=f"plug it in, or: ip link set {nic.name} up")
        for qdisc in qdiscs:
            if qdisc.index == links[nic.name].index and qdisc.handle and nic.name not in ours:
                raise HostError(
                    f"{nic.name} has a {qdisc.kind} that somebody else made",
                    fix=f"remove it (tc qdisc show dev {nic.name}), or name another NIC in the inventory",
                )
        if nic.address in by_address and nic.name not in ours:
            raise HostError(
                f"{by_address[nic.address]} has the address {nic.address} already, which the topology's plan gives to "
                f"{nic.name}",
                fix="give the NICs' addresses in the inventory",
            )


def _carry_out(wanted: Wanted, netlink: RouteSocket) -> None:
    """Write down how to undo, then do it; undo it again if the kernel refuses anything."""
    links = {one.name: one for one in map(rtnetlink.read_link, netlink.dump(rtnetlink.list_links()))}
    found = State(asdict(wanted), since=time.time())
    for nic in wanted.nics:
        index = links[nic.name].index
        found.undo.append(["mtu", nic.name, index, links[nic.name].mtu])
        if nic.out_bps:
            found.undo += [["ifb", nic.name, f"{IFB}{index}"], ["root", nic.name, index], ["ingress", nic.name, index]]
        if nic.address:
            found.undo.append(["address", nic.name, index, nic.address])
        found.undo += [[kind, nic.name, index, peer] for peer, _ in nic.peers for kind in ("neighbour", "route")]
    undoing.write(found)
    try:
        for nic in wanted.nics:
            _make(nic, links[nic.name].index, netlink)
    except BaseException:
        _undo(found, netlink)
        raise


def _make(nic: Nic, index: int, netlink: RouteSocket) -> None:
    requests = [_set_mtu(index, nic.mtu, nic.name)]
    if nic.out_bps:
        ifb = f"{IFB}{index}"
        with _named(nic.name):
            netlink.send([*requests, _make_ifb(ifb, nic.mtu)])
        theirs = readback.indices(netlink)[ifb]
        requests = shaping.install(theirs, shape(nic, nic.in_bps), f"what arrives at {nic.name}")
        requests += [rtnetlink.set_up(theirs, ifb)]
        requests += [switching.make_panel_port(index, nic.name), switching.join(index, theirs, nic.name)]
        requests += shaping.install(index, shape(nic, nic.out_bps), nic.name)
    if nic.address:
        requests.append(rtnetlink.add_address(index, nic.address, 32, nic.name))
    for address, mac in nic.peers:
        packed = bytes.fromhex(mac.replace(":", ""))
        requests.append(rtnetlink.set_neighbour(index, address, packed, nic.name, anew=True))
        requests.append(rtnetlink.add_route(address, ((index, None),), nic.name))
    with _named(nic.name):
        netlink.send(requests)


def _undo(found: State, netlink: RouteSocket) -> None:
    """Take everything back; what is gone already is no error."""
    by_name = readback.indices(netlink)
    for kind, _, *rest in reversed(found.undo):
        if kind == "ifb" and rest[0] not in by_name:
            continue
        request = _UNDO[kind](by_name[rest[0]] if kind == "ifb" else rest[0], *rest[1:])
        try:
            netlink.send([request])
        except NetlinkError as error:
            if error.errno not in GONE:
                raise HostError(f"cannot undo: {error.strerror}", fix="reboot the host, or undo it by hand") from None
    undoing.forget()


def _set_mtu(index: int, mtu: int, what: str) -> Request:
    body = rtnetlink.IFINFOMSG.pack(0, 0, index, 0, 0) + u32(rtnetlink.IFLA_MTU, mtu)
    return Request(rtnetlink.RTM_NEWLINK, 0, body, f"set the MTU of {what} to {mtu}")


def _make_ifb(name: str, mtu: int) -> Request:
    body = rtnetlink.IFINFOMSG.pack(0, 0, 0, 0, 0) + text(rtnetlink.IFLA_IFNAME, name) + u32(rtnetlink.IFLA_MTU, mtu)
    body += attribute(rtnetlink.IFLA_LINKINFO | rtnetlink.NESTED, text(rtnetlink.IFLA_INFO_KIND, "ifb"))
    return Request(rtnetlink.RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"make {name}")


def _remove_qdisc(index: int, handle: int, parent: int) -> Request:
    return Request(_RTM_DELQDISC, 0, shaping.TCMSG.pack(0, index, handle, parent, 0), "remove the shaper")


def _remove_address(index: int, address: str) -> Request:
    packed = socket.inet_aton(address)
    body = rtnetlink.IFADDRMSG.pack(rtnetlink.AF_INET, 32, 0, 0, index)
    body += attribute(rtnetlink.IFA_LOCAL, packed) + attribute(rtnetlink.IFA_ADDRESS, packed)
    return Request(_RTM_DELADDR, 0, body, f"remove the address {address}")


_UNDO: dict[str, Callable[..., Request]] = {
    "mtu": lambda index, mtu: _set_mtu(index, mtu, "the NIC"),
    "ifb": lambda index: Request(_RTM_DELLINK, 0, rtnetlink.IFINFOMSG.pack(0, 0, index, 0, 0), "remove the ifb"),
    "root": lambda index: _remove_qdisc(index, ROOT_HANDLE, shaping.TC_H_ROOT),
    "ingress": lambda index: _remove_qdisc(index, INGRESS_HANDLE, TC_H_INGRESS),
    "address": _remove_address,
    "neighbour": lambda index, address: rtnetlink.remove_neighbour(index, address, "the NIC"),
    "route": lambda _, address: rtnetlink.remove_route(address, "the NIC"),
}


@contextmanager
def _named(nic: str) -> Iterator[None]:
    """Raises HostError: in place of the kernel's refusal."""
    try:
        yield
    except NetlinkError as error:
        raise HostError(
            f"{nic}: the kernel refused to {error.strerror}", fix="see what the kernel says of it"
        ) from None


if __name__ == "__main__":
    wait(float(sys.argv[2]))
