"""What hosts' kernels have, read by pyroute2 on the controller: see :mod:`testbed.lab.netns.second_reading`."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.lab.baremetal import network as networks
from testbed.lab.baremetal.wanted import Nic
from testbed.lab.base import LinkChange
from testbed.lab.netns.listening import Said
from testbed.lab.netns.second_reading import DECODER, Egress, Kernel, compare
from topologies.model import Topology


def check(
    topology: Topology,
    plan: networks.Network,
    changes: Mapping[int, LinkChange],
    answers: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Compare what each host's agent has heard of its kernel; how much was read, for the lab's description.

    Raises:
        LabError: pyroute2 reads something else than was asked for.
    """
    changed = {plan.place(topology, link): change for link, change in changes.items()}
    for node, (host, wanted, answer) in enumerate(zip(plan.hosts, plan.wanted, answers, strict=True)):
        said = {name: base64.b64decode(data) for name, data in answer["said"].items()}
        kernel = Kernel(Said(**said))
        routes = kernel.routes()
        for i, (nic, indices) in enumerate(zip(wanted.nics, answer["indices"], strict=True)):
            where = f"{host.name}: {nic.name}"
            for index, out in zip(indices, (True, False), strict=True):
                if nic.out_bps:
                    kernel.check_egress(index, _egress(where, nic, changed.get((node, i, out)), out=out))
            if nic.address is not None:
                kernel.check_address(where, indices[0], nic.address, None)
            for address, _ in nic.peers:
                compare(f"{where}, route to {address}", "hops", [(indices[0], None)], routes.get(f"{address}/32"))
    nics = [nic for one in plan.wanted for nic in one.nics]
    return {"decoder": DECODER, "directed_links": 2 * len(nics), "routes": sum(len(nic.peers) for nic in nics)}


def _egress(where: str, nic: Nic, change: LinkChange | None, *, out: bool) -> Egress:
    """One direction of a NIC, changes included."""
    rate_bps = (change and change.rate_bps) or (nic.out_bps if out else nic.in_bps)
    queue_bytes = change.queue_bytes if change and change.queue_bytes is not None else nic.queue_bytes
    blocked = bool(change and change.blocked)
    return Egress(f"{where}, {'out' if out else 'in'}", rate_bps, nic.mtu, queue_bytes, blocked)
