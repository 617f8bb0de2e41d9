"""Second reading of hosts' kernels, by pyroute2 on the controller: see
:mod:`testbed.lab.netns.readings.second_reading`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.base.errors import LabError
from testbed.lab.baremetal.networks import network as networks
from testbed.lab.baremetal.nics.readback import Nic, Wanted
from testbed.lab.base import LinkChange
from testbed.lab.netns.readings.listening import Said
from testbed.lab.netns.readings.second_reading import DECODER, Egress, Kernel, compare

HEADER_BYTES = 16
"""Bytes of the header of a netlink message (netlink(7))."""


def check(
    plan: networks.Placement,
    changes: Mapping[int, LinkChange],
    answers: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Compare what each host's agent has heard of its kernel; return how much was read, for the lab's description.
    Raises LabError: pyroute2 reads something else than was asked for."""
    changed = {plan.place(link): change for link, change in changes.items()}
    for node, (host, wanted, answer) in enumerate(zip(plan.hosts, plan.wanted, answers, strict=True)):
        own = {(i, out): changed.get((node, i, out)) for i in range(len(wanted.nics)) for out in (True, False)}
        try:
            _check_host(host.name, wanted, answer, own)
        except LabError:
            raise
        except Exception as error:  # a decoder of anything but the kernel's messages may raise anything
            raise LabError(
                f"{host.name}: what it says of its kernel cannot be taken apart: {error!r:.200}",
                fix="see who else is root there",
            ) from None
    nics = [nic for one in plan.wanted for nic in one.nics]
    return {"decoder": DECODER, "directed_links": 2 * len(nics), "routes": sum(len(nic.peers) for nic in nics)}


def _check_host(
    name: str, wanted: Wanted, answer: Mapping[str, Any], changed: Mapping[tuple[int, bool], LinkChange | None]
) -> None:
    """Compare one host's kernel; ``changed`` are changes by NIC and whether it is the way out. Raises LabError, and
    whatever a decoder raises."""
    for messages in answer["said"].values():
        _check_lengths(messages)
    kernel = Kernel(Said(**answer["said"]))
    routes = kernel.routes()
    for i, (nic, indices) in enumerate(zip(wanted.nics, answer["indices"], strict=True)):
        where = f"{name}: {nic.name}"
        for index, out in zip(indices, (True, False), strict=True):
            if nic.out_bps:
                kernel.check_egress(index, _egress(where, nic, changed[i, out], out=out))
        if nic.address is not None:
            kernel.check_address(where, indices[0], nic.address, None)
        for address, _ in nic.peers:
            compare(f"{where}, route to {address}", "hops", [(indices[0], None)], routes.get(f"{address}/32"))


def _check_lengths(messages: bytes) -> None:
    """Check the lengths of messages. Raises ValueError: a message has less than a header, of which there could be
    millions."""
    at = 0
    while at < len(messages):
        length = int.from_bytes(messages[at : at + 4], sys.byteorder)
        if length < HEADER_BYTES:
            raise ValueError(f"a message of {length} bytes")
        at += length


def _egress(where: str, nic: Nic, change: LinkChange | None, *, out: bool) -> Egress:
    """Egress that one direction of a NIC should be, changes included."""
    rate_bps = (change and change.rate_bps) or (nic.out_bps if out else nic.in_bps)
    queue_bytes = change.queue_bytes if change and change.queue_bytes is not None else nic.queue_bytes
    blocked = bool(change and change.blocked)
    return Egress(f"{where}, {'out' if out else 'in'}", rate_bps, nic.mtu, queue_bytes, blocked)
