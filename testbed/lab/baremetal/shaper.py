"""What is done to a host's training NICs, and how it is undone; runs on the host, as root.

What is to be undone is written down before anything is changed, in ``/run``, which forgets at a reboot as the kernel
does. A process beside it undoes everything once a deadline has passed that nobody has put off, so that a controller
that is lost, whatever became of it, leaves no host shaped.

Egress is shaped on the NIC; what arrives goes through an ifb, whose egress is shaped, as a switch's port would be.
Addresses that come from the topology's plan are added beside those that the NIC has, with a route and a neighbour for
each peer: with two NICs in one network, ARP would answer for either.

Usage: ``python -m testbed.lab.baremetal.shaper wait``
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from testbed.errors import HostError
from testbed.lab.base import LinkSettings
from testbed.lab.netns import panel, rtnetlink, shaping
from testbed.lab.netns.netlink import NLM_F_CREATE, NLM_F_EXCL, NetlinkError, Request, RouteSocket, attribute, text, u32
from testbed.lab.netns.switching import INGRESS_HANDLE, TC_H_INGRESS

STATE = Path("/run/testbed")
ROOT_HANDLE = 0x7E570000
"""The mark of our shapers (``7e57:``), by which they are told from those of others."""
IFB = "tb-ifb"
"""What our ifbs are called, followed by the NIC's index."""
SYSTEMD = Path("/run/systemd/system")
POLL_S = 1.0
GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.EADDRNOTAVAIL, errno.EINVAL})
"""Of what is to be undone: it is not there (any more)."""
_RTM_DELLINK, _RTM_DELADDR, _RTM_DELQDISC = 17, 21, 37


@dataclass(frozen=True)
class Nic:
    """A training NIC as it is to be: rates out of it and into it, in bit/s; 0 leaves it as fast as it is. ``address``
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
    """What one host is to be like. ``owner`` says whose it is; ``undo_s`` is how long it stays without a word."""

    owner: str
    nics: tuple[Nic, ...]
    undo_s: float

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Wanted:
        """From plain data, as :func:`dataclasses.asdict` makes it."""
        nics = (Nic(**one | {"peers": tuple(map(tuple, one["peers"]))}) for one in raw["nics"])
        return cls(raw["owner"], tuple(nics), float(raw["undo_s"]))


@dataclass
class State:
    """What is written down: what was asked for, and how to undo it, the last step first."""

    wanted: dict[str, Any]
    undo: list[list[Any]] = field(default_factory=list)
    since: float = 0.0
    """Wall-clock time."""


def state() -> State | None:
    """What has been done to this host and not been undone."""
    try:
        return State(**json.loads((STATE / "shape.json").read_text()))
    except FileNotFoundError:
        return None


def apply(wanted: Wanted, *, check: bool = False, arm: bool = True) -> bool:
    """Make the NICs as wanted; whether anything was (with ``check``: would be) changed. Who stays to undo it need not
    ``arm`` the process that does so in time.

    Raises:
        HostError: it cannot be done; then nothing has changed.
    """
    with _lock(), RouteSocket() as netlink:
        before = state()
        if before and before.wanted["owner"] != wanted.owner and not expired():
            raise HostError(
                f"the NICs are shaped by another run, {before.wanted['owner']}",
                fix="wait for its end; if nobody runs it any more, testbed clean --inventory FILE --yes",
            )
        _check(wanted, netlink, {name for _, name, *_ in before.undo} if before else set())
        if before and _same(before.wanted, asdict(wanted)) and differs(netlink, wanted) is None:
            if not check:
                extend()
            return False
        if check:
            return True
        if before:
            _disarm()
            _undo(before, netlink)
        _carry_out(wanted, netlink)
        if arm:
            _arm()
        return True


def undo(owner: str | None = None, *, check: bool = False) -> bool:
    """Undo everything that :func:`apply` did (for ``owner`` only, if one is given); whether there was anything."""
    with _lock(), RouteSocket() as netlink:
        found = state()
        if found is None or (owner is not None and found.wanted["owner"] != owner):
            return False
        if not check:
            _disarm()
            _undo(found, netlink)
        return True


def extend() -> None:
    """Put the deadline off, once more for the whole time."""
    found = state()
    if found:
        _write(STATE / "deadline", str(time.monotonic() + found.wanted["undo_s"]))


def expired() -> bool:
    """Whether the deadline has passed."""
    try:
        return time.monotonic() > float((STATE / "deadline").read_text())
    except (FileNotFoundError, ValueError):
        return True


def wait() -> None:
    """Undo everything once the deadline has passed; returns when there is nothing to undo."""
    while (found := state()) is not None:
        if expired():
            with _lock(), RouteSocket() as netlink:
                if (found := state()) is not None and expired():
                    _undo(found, netlink)
            return
        time.sleep(POLL_S)


def change(name: str, wanted: Nic, *, out: bool, rate_bps: int, queue_bytes: int | None, blocked: bool) -> None:
    """Change one direction of a NIC while it is in use.

    Raises:
        HostError: the kernel refused.
    """
    with RouteSocket() as netlink:
        index = indices(netlink)[name if out else ifb_of(netlink, name)]
        new = _shape(wanted, rate_bps, queue_bytes)
        with _named(name):
            netlink.send(shaping.change(index, shaping.blocked(new) if blocked else new, name))


def counters(names: Sequence[str]) -> list[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """By NIC, (bytes, packets, drops) out of it and into it, since it was shaped."""
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
    """What the kernel has otherwise than wanted, or None; ``changed`` are shapes by (NIC, outwards) where they have
    been changed since."""
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
            asked = (changed or {}).get((nic.name, out)) or _shape(nic, nic.out_bps if out else nic.in_bps)
            found = _read_shape(netlink, listed, by_index[name], nic.name)
            if found != asked:
                return f"{nic.name}, {'out' if out else 'in'}: the shaper is {found}, asked was {asked}"
        if nic.out_bps and _leads_to(netlink, by_index[nic.name]) != by_index[ifb]:
            return f"{nic.name}: what arrives is not led to {ifb}"
        if nic.address and (by_index[nic.name], nic.address) not in addresses:
            return f"{nic.name}: the address {nic.address} is gone"
        for address, _ in nic.peers:
            if routes.get(address) != ((by_index[nic.name], None),):
                return f"{nic.name}: the route to {address} is gone"
    return None


def _leads_to(netlink: RouteSocket, index: int) -> int | None:
    """The interface that all goes to that a NIC receives."""
    try:
        return panel.read_joined(netlink.dump(panel.list_joined(index)))
    except (ValueError, NetlinkError):  # others' filters, or none
        return None


def shapes(wanted: Wanted) -> list[list[dict[str, int]]]:
    """By NIC, what the kernel has out of it and into it."""
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


def shape_of(nic: Nic, rate_bps: int, queue_bytes: int | None, blocked: bool) -> shaping.Shape:
    """A direction's shaper after a change."""
    new = _shape(nic, rate_bps, queue_bytes)
    return shaping.blocked(new) if blocked else new


def indices(netlink: RouteSocket) -> dict[str, int]:
    """Interfaces by name."""
    return {one.name: one.index for one in map(_read_link, netlink.dump(rtnetlink.list_links()))}


def ifb_of(netlink: RouteSocket, name: str) -> str:
    """The ifb that what arrives at a NIC goes through."""
    return f"{IFB}{indices(netlink)[name]}"


def ssh_interface(addresses: Mapping[str, str]) -> str | None:
    """The interface that the SSH connection of this process's session uses; ``addresses`` are interfaces by address.

    sudo drops the variable that says so, but the session's processes above it have it.
    """
    pid = os.getpid()
    while pid > 1:
        with suppress(OSError):
            for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if variable.startswith(b"SSH_CONNECTION="):
                    return addresses.get(variable.split(b"=")[1].split()[2].decode())
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


# What is done, and undone.


def _check(wanted: Wanted, netlink: RouteSocket, ours: set[str]) -> None:
    """
    Raises:
        HostError: a NIC is not there, or is not to be touched.
    """
    links = {one.name: one for one in map(_read_link, netlink.dump(rtnetlink.list_links()))}
    names = {one.index: one.name for one in links.values()}
    listed = [rtnetlink.read_address(body) for body in netlink.dump(rtnetlink.list_addresses())]
    by_address = {address: names[index] for index, address, _ in listed}
    ssh = ssh_interface(by_address)
    qdiscs = [shaping.read_qdisc(body) for body in netlink.dump(shaping.list_qdiscs())]
    for nic in wanted.nics:
        if nic.name not in links:
            raise HostError(
                f"there is no NIC {nic.name}",
                fix=f"correct its nics in the inventory; it has {', '.join(sorted(links))}",
            )
        if nic.name == ssh:
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
    """Write down how to undo, then do; undone again if the kernel refuses anything."""
    links = {one.name: one for one in map(_read_link, netlink.dump(rtnetlink.list_links()))}
    found = State(asdict(wanted), since=time.time())
    for nic in wanted.nics:
        index = links[nic.name].index
        found.undo.append(["mtu", nic.name, index, links[nic.name].mtu])
        if nic.out_bps:
            found.undo += [["ifb", nic.name, f"{IFB}{index}"], ["root", nic.name, index], ["ingress", nic.name, index]]
        if nic.address:
            found.undo.append(["address", nic.name, index, nic.address])
        found.undo += [[kind, nic.name, index, peer] for peer, _ in nic.peers for kind in ("neighbour", "route")]
    STATE.mkdir(mode=0o755, exist_ok=True)
    _write(STATE / "shape.json", json.dumps(asdict(found)))
    extend()
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
        theirs = indices(netlink)[ifb]
        requests = shaping.install(theirs, _shape(nic, nic.in_bps), f"what arrives at {nic.name}")
        requests += [rtnetlink.set_up(theirs, ifb)]
        requests += [panel.receive(index, nic.name), panel.join(index, theirs, nic.name)]
        requests += shaping.install(index, _shape(nic, nic.out_bps), nic.name)
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
    by_name = indices(netlink)
    for kind, _, *rest in reversed(found.undo):
        if kind == "ifb" and rest[0] not in by_name:
            continue
        request = _UNDO[kind](by_name[rest[0]] if kind == "ifb" else rest[0], *rest[1:])
        try:
            netlink.send([request])
        except NetlinkError as error:
            if error.errno not in GONE:
                raise HostError(f"cannot undo: {error.strerror}", fix="reboot the host, or undo it by hand") from None
    for name in ("shape.json", "deadline", "waiter"):
        (STATE / name).unlink(missing_ok=True)
    with suppress(OSError):  # somebody keeps something of his own there
        STATE.rmdir()


def _set_mtu(index: int, mtu: int, what: str) -> Request:
    body = rtnetlink.IFINFOMSG.pack(0, 0, index, 0, 0) + u32(rtnetlink.IFLA_MTU, mtu)
    return Request(rtnetlink.RTM_NEWLINK, 0, body, f"set the MTU of {what} to {mtu}")


def _make_ifb(name: str, mtu: int) -> Request:
    body = rtnetlink.IFINFOMSG.pack(0, 0, 0, 0, 0) + text(rtnetlink.IFLA_IFNAME, name) + u32(rtnetlink.IFLA_MTU, mtu)
    body += attribute(rtnetlink.IFLA_LINKINFO | rtnetlink.NESTED, text(rtnetlink.IFLA_INFO_KIND, "ifb"))
    return Request(rtnetlink.RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"make {name}")


def _remove_link(index: int) -> Request:
    return Request(_RTM_DELLINK, 0, rtnetlink.IFINFOMSG.pack(0, 0, index, 0, 0), "remove the ifb")


def _remove_qdisc(index: int, handle: int, parent: int) -> Request:
    return Request(_RTM_DELQDISC, 0, shaping.TCMSG.pack(0, index, handle, parent, 0), "remove the shaper")


def _remove_address(index: int, address: str) -> Request:
    packed = socket.inet_aton(address)
    body = rtnetlink.IFADDRMSG.pack(rtnetlink.AF_INET, 32, 0, 0, index)
    body += attribute(rtnetlink.IFA_LOCAL, packed) + attribute(rtnetlink.IFA_ADDRESS, packed)
    return Request(_RTM_DELADDR, 0, body, f"remove the address {address}")


_UNDO: dict[str, Callable[..., Request]] = {
    "mtu": lambda index, mtu: _set_mtu(index, mtu, "the NIC"),
    "ifb": _remove_link,
    "root": lambda index: _remove_qdisc(index, ROOT_HANDLE, shaping.TC_H_ROOT),
    "ingress": lambda index: _remove_qdisc(index, INGRESS_HANDLE, TC_H_INGRESS),
    "address": _remove_address,
    "neighbour": lambda index, address: rtnetlink.remove_neighbour(index, address, "the NIC"),
    "route": lambda _, address: rtnetlink.remove_route(address, "the NIC"),
}


def _shape(nic: Nic, rate_bps: int, queue_bytes: int | None = None) -> shaping.Shape:
    settings = LinkSettings(mtu=nic.mtu, queue_bytes=nic.queue_bytes if queue_bytes is None else queue_bytes)
    return shaping.shape(rate_bps, settings, None, ROOT_HANDLE)


def _read_shape(netlink: RouteSocket, listed: Sequence[shaping.Qdisc], index: int, what: str) -> shaping.Shape | None:
    handle = ROOT_HANDLE | shaping.ONLY_CLASS
    leaf = next((one for one in listed if one.index == index and one.parent == handle), None)
    if leaf is None:
        return None
    return shaping.read_shape(netlink.ask([shaping.ask_class(index, handle, what)])[0], leaf)


def _counted(listed: Sequence[shaping.Qdisc], index: int) -> tuple[int, int, int]:
    root = next(one for one in listed if one.index == index and one.handle == ROOT_HANDLE)
    return root.bytes, root.packets, root.drops


def _read_link(body: bytes) -> rtnetlink.Interface:
    return rtnetlink.read_link(body)


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


@contextmanager
def _named(nic: str) -> Iterator[None]:
    """
    Raises:
        HostError: in place of the kernel's refusal.
    """
    try:
        yield
    except NetlinkError as error:
        raise HostError(
            f"{nic}: the kernel refused to {error.strerror}", fix="see what the kernel says of it"
        ) from None


@contextmanager
def _lock() -> Iterator[None]:
    """One at a time on this host."""
    directory = os.open(STATE.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def _write(path: Path, content: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(content)
    temporary.replace(path)


# The process that undoes in time.


def _arm() -> None:
    """Start it, as a unit of systemd where that runs: a session's end does not end it there."""
    words = [sys.executable, "-P", "-m", "testbed.lab.baremetal.shaper", "wait"]
    path = f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}"
    if SYSTEMD.exists():
        words = ["systemd-run", "--quiet", "--collect", f"--setenv={path}", *words]
    process = subprocess.Popen(
        ["env", path, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    if not SYSTEMD.exists():
        _write(STATE / "waiter", str(process.pid))


def _disarm() -> None:
    """End it, if the process of that number is one of these still; one of systemd's sees that nothing is left."""
    with suppress(OSError, ValueError):
        pid = int((STATE / "waiter").read_text())
        if b"testbed.lab.baremetal.shaper" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    wait()
