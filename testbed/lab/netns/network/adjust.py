"""Change links while they are in use: one batch of requests for each node, in its namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from testbed.base.errors import LabError
from testbed.lab.base import LinkChange
from testbed.lab.limits import HTB
from testbed.lab.netns.kernel_interface import shaping
from testbed.lab.netns.kernel_interface.netlink import NetlinkError, Request, RouteSocket
from testbed.lab.netns.network.blueprint import NodePlan
from testbed.lab.netns.network.build import BuiltNetwork


def adjust(network: BuiltNetwork, changes: Sequence[LinkChange]) -> None:
    """Bring every change about; on return the kernel has acknowledged all.

    Raises:
        SpecError: a rate that cannot be emulated.
        LabError: links are not shaped, or the kernel refused; the link is named.
    """
    if not network.blueprint.settings.shaped:
        raise LabError("links without shapers cannot be changed", fix="shape the links")
    for change in changes:
        if change.rate_bps is not None:
            HTB.check_rate(change.rate_bps)
    by_node: defaultdict[int, list[int]] = defaultdict(list)
    before = {change.directed_link: network.shape(network.blueprint.port(change.directed_link)) for change in changes}
    for change in changes:
        link = change.directed_link
        network.changes[link] = network.changes.get(link, LinkChange(link)).then(change)
        by_node[network.blueprint.ends[link][0]].append(link)

    def send(node: NodePlan, netlink: RouteSocket) -> None:
        requests: list[Request] = []
        ports = [network.blueprint.port(link) for link in dict.fromkeys(by_node[node.index])]
        for port in ports:
            link = port.directed_link
            label = network.blueprint.label(link)
            requests += shaping.change(port.index, network.shape(port), label, before[link])
        netlink.send(requests)

    try:
        network.on_nodes([network.blueprint.nodes[index] for index in by_node], send)
    except NetlinkError as error:
        raise LabError(f"the kernel refused to change the {error.strerror}") from error
