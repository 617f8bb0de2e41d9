"""Abilities of the kernel for this user, found by trying them in the sandbox's own namespace."""

from __future__ import annotations

import errno
from functools import cache

from testbed.base.errors import LabError, MissingToolError, TestbedError
from testbed.lab.netns.kernel_interface import shaping, sysctls
from testbed.lab.netns.kernel_interface.netlink import NetlinkError, RouteSocket
from testbed.lab.netns.kernel_interface.nfqueue import QueueSocket
from testbed.lab.netns.network import delay_line, impairing
from testbed.lab.netns.network.build import LOOPBACK_INDEX
from testbed.lab.netns.network.impairing import DELAY_LINE, NETEM

NETFILTER_FIX = "modprobe -a nfnetlink_queue xt_NFQUEUE (as root), or modprobe sch_netem"


def congestion_controls() -> list[str]:
    """TCP congestion controls that a worker may choose: others need a capability that it has not (tcp(7))."""
    return sysctls.read(sysctls.ALLOWED_CONGESTION_CONTROL).split()


def has_qdisc(kind: str) -> bool:
    """Whether the kernel knows a queueing discipline (htb or netem). Raises NetlinkError: it was refused for another
    reason than being unknown or lacking options."""
    with RouteSocket() as netlink:
        try:
            netlink.send([shaping.probe(kind, LOOPBACK_INDEX)])
        except NetlinkError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL):
                return error.errno == errno.EINVAL
            raise
    raise LabError(f"the kernel made a {kind} without its options", fix="report this kernel")


def require_qdisc(kind: str, needed_for: str) -> None:
    """Raises MissingToolError: the kernel does not know it; the module is named."""
    if not has_qdisc(kind):
        raise MissingToolError(
            f"{needed_for} needs the kernel module sch_{kind}, which this kernel does not have",
            fix=f"modprobe sch_{kind} as root, or a kernel built with CONFIG_NET_SCH_{kind.upper()}",
        )


@cache
def way() -> str | None:
    """Way in which links can be impaired: by netem where the kernel has it, else by the delay line, else not at all
    (None)."""
    if has_qdisc(NETEM):
        return NETEM
    return DELAY_LINE if why_no_delay_line() is None else None


def why_no_delay_line() -> TestbedError | None:
    """Error that says what the delay line lacks, found by stopping the packets of an interface that does not exist;
    None if it lacks nothing."""
    try:
        impairing.tool(impairing.IPTABLES + "-restore")
        delay_line.library()
        QueueSocket(0)
        impairing.run_tool([impairing.IPTABLES + "-restore", "--noflush"], impairing.rules_text({"none": 0}))
        impairing.run_tool([impairing.IPTABLES, "-t", "mangle", "-F"])
    except TestbedError as error:
        return error
    except OSError as error:  # no nfnetlink in this kernel
        return LabError(f"the kernel has no netfilter queues: {error.strerror}")
    return None


def require_way(needed_for: str) -> None:
    """Raises MissingToolError: links can be impaired in no way; says what is missing."""
    if way() is not None:
        return
    lacking = why_no_delay_line()
    assert lacking is not None
    raise MissingToolError(
        f"{needed_for} needs netem, which this kernel does not have, or the delay line, but {lacking.problem}",
        fix=lacking.fix or NETFILTER_FIX,
    )
