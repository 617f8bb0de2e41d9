"""Network namespaces of this machine that stand for machines, and the network between them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from testbed.lab.machines.cut import Underlay
from testbed.lab.machines.on_machine.processes import ShareLab
from testbed.lab.netns.kernel_interface import kernel, rtnetlink
from testbed.lab.netns.kernel_interface.netlink import RouteSocket
from testbed.lab.netns.network.build import OWN_NAMESPACE

INDEX, NAME, PREFIX = 7, "eth0", 24
"""The NIC of each of two machines. Nodes have interfaces of the same name."""


def _open() -> int:
    return os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def inside(namespace: int) -> Iterator[RouteSocket]:
    """A netlink socket there, while this thread is there, too."""
    home = _open()
    kernel.setns(namespace, kernel.CLONE_NEWNET)
    try:
        with RouteSocket() as netlink:
            yield netlink
    finally:
        kernel.setns(home, kernel.CLONE_NEWNET)
        os.close(home)


@contextmanager
def two_machines(mtu: int = 1550) -> Iterator[tuple[Underlay, Sequence[int]]]:
    """Two machines that a cable joins; open files of their namespaces."""
    home, namespaces = _open(), []
    for _ in range(2):
        kernel.unshare(kernel.CLONE_NEWNET)
        namespaces.append(_open())
    kernel.setns(home, kernel.CLONE_NEWNET)
    os.close(home)
    ends = [
        rtnetlink.LinkEnd(namespace, INDEX, NAME, b"\x02\x01" + number.to_bytes(4, "big"))
        for number, namespace in enumerate(namespaces)
    ]
    addresses = ("192.168.76.1", "192.168.76.2")
    with inside(namespaces[0]) as netlink:
        netlink.send([rtnetlink.create_veth(*ends, mtu, "between machines")])
    for namespace, address in zip(namespaces, addresses, strict=True):
        with inside(namespace) as netlink:
            netlink.send([rtnetlink.set_up(INDEX, NAME), rtnetlink.add_address(INDEX, address, PREFIX, NAME)])
    try:
        yield Underlay(("node1", "node2"), addresses, (mtu, mtu)), namespaces
    finally:
        for namespace in namespaces:
            os.close(namespace)


@contextmanager
def labs(namespaces: Sequence[int]) -> Iterator[list[ShareLab]]:
    """A lab on each machine."""
    with ExitStack() as stack:
        yield [stack.enter_context(ShareLab(os.dup(one))) for one in namespaces]
