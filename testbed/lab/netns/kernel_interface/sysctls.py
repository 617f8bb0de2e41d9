"""Kernel settings of each node's namespace, written and read through ``/proc/sys/net`` of the namespace one is in.

The kernel finds a file there in time proportional to the number of namespaces, 0.2 ms each in a thousand: in one proc
file system, the entries of all namespaces share one hash chain. So many namespaces have several (:class:`Roots`).
"""

from __future__ import annotations

import math
import os
from contextlib import suppress

from testbed.base.errors import PrivilegeError
from testbed.lab.base import LinkSettings
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.network.blueprint import NodePlan

ROOT = "/proc/sys/net/"
NAMESPACES_A_ROOT = 64
"""Namespaces whose settings are found in one proc file system; another takes 0.3 ms."""

QUIET = {
    # No router advertisements, duplicate-address checks or multicast reports among the traffic that is measured.
    "ipv6/conf/all/disable_ipv6": "1",  # sets the default for new interfaces, too
}
FORWARDING = {
    "ipv4/ip_forward": "1",
    "ipv4/fib_multipath_hash_policy": "1",  # by addresses and ports: connections spread, packets of one do not
    "ipv4/conf/all/send_redirects": "0",
    "ipv4/conf/default/send_redirects": "0",
}
EVERYWHERE = {
    "ipv4/conf/all/rp_filter": "0",  # answers may take another NIC than questions
    "ipv4/conf/default/rp_filter": "0",
    # Who pauses to compute goes on at the rate it had. With the kernel's 1 each transfer after a pause of 0.2 s begins
    # anew with ten segments, and what that costs grows with what waits on the way of its acknowledgements.
    "ipv4/tcp_slow_start_after_idle": "0",
    "ipv4/tcp_no_metrics_save": "1",  # a connection learns nothing from the one before
    # A connection that outlives its process, with data that nobody will take any more, keeps the namespace alive: for
    # two minutes with the kernel's 8 retries.
    "ipv4/tcp_orphan_retries": "2",
}
NO_PROBES = {"ipv4/tcp_early_retrans": "0"}
"""Setting that turns tail loss probes off, where nothing is lost: a probe that seems to have mended a loss cuts a
connection's window for the rest of the trial."""
ASK_FOR_ECN = {"ipv4/tcp_ecn": "1"}
"""Setting that asks for ECN. The kernel's own, 2, grants ECN to connections that ask for it, and asks for it on
none."""
SMALL_QUEUES = "ipv4/tcp_limit_output_bytes"
"""Setting of TCP Small Queues: the most bytes that a connection has in its host's queues (tcp(7))."""
FULL_PACKETS = "ipv4/tcp_min_tso_segs"
"""Setting of the fewest segments that TCP puts into a large packet if it has as many to send (tcp(7))."""
SEGMENT_HEADERS_BYTES = 52
"""Bytes of the headers of IP, and TCP with timestamps, in each segment."""
REPORTED = ("ipv4/tcp_rmem", "ipv4/tcp_wmem", "ipv4/tcp_congestion_control", "core/somaxconn")


CONGESTION_CONTROL = "ipv4/tcp_congestion_control"
ALLOWED_CONGESTION_CONTROL = "ipv4/tcp_allowed_congestion_control"
"""Setting of the whole machine, which is only read here."""


def wanted(node: NodePlan, has_ipv6: bool, settings: LinkSettings) -> dict[str, str]:
    """Settings that a node's namespace should have."""
    congestion_control = settings.congestion_control
    marks = {} if settings.mark_at_bytes is None else ASK_FOR_ECN
    quiet = QUIET if has_ipv6 else {}
    forwarding = {**FORWARDING} if node.forwards else {"ipv4/ip_forward": "0"}
    chosen = {CONGESTION_CONTROL: congestion_control} if congestion_control else {}
    probes = NO_PROBES if settings.is_calm else {}
    small = {SMALL_QUEUES: str(settings.small_queue_bytes)} if settings.small_queue_bytes else {}
    segments = math.ceil((settings.full_packet_bytes or 0) / (settings.mtu - SEGMENT_HEADERS_BYTES))
    full = {FULL_PACKETS: str(segments)} if segments else {}
    return {**quiet, **forwarding, **EVERYWHERE, **chosen, **marks, **probes, **small, **full}


def has_ipv6() -> bool:
    """Whether the kernel has IPv6 at all."""
    return os.path.exists(ROOT + "ipv6")  # noqa: PTH110 - pathlib costs more than the call, a thousand times over


class Roots:
    """Folders in which settings are found: in ``/proc`` for the first namespaces, and after that in a file system of
    their own for as many each, if the kernel lets us have it. It goes with the object."""

    def __init__(self) -> None:
        self._asked = 0
        self._proc: int | None = None

    def __enter__(self) -> Roots:
        return self

    def __exit__(self, *_: object) -> None:
        if self._proc is not None:
            os.close(self._proc)

    def next(self) -> str:
        """Folder for the settings of one more namespace; until this is called again."""
        if self._asked and self._asked % NAMESPACES_A_ROOT == 0:
            before = self._proc
            with suppress(OSError):
                self._proc = kernel.proc()
                if before is not None:
                    os.close(before)
        self._asked += 1
        return ROOT if self._proc is None else f"/proc/self/fd/{self._proc}/sys/net/"


def write(values: dict[str, str], root: str = ROOT) -> None:
    """Set values in the calling thread's network namespace. Raises PrivilegeError: the kernel keeps this congestion
    control from us; OSError: it refuses something else."""
    for name, value in values.items():
        fd = os.open(root + name, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        except PermissionError:
            if name != CONGESTION_CONTROL:
                raise
            raise _kept_from_us(value) from None
        finally:
            os.close(fd)


def require_control(name: str) -> None:
    """Raises PrivilegeError: the kernel keeps this congestion control from us."""
    if name not in read(ALLOWED_CONGESTION_CONTROL).split():
        raise _kept_from_us(name)


def _kept_from_us(control: str) -> PrivilegeError:
    allowed = read(ALLOWED_CONGESTION_CONTROL)
    also = f'sysctl -w net.ipv4.tcp_allowed_congestion_control="{allowed} {control}"'
    return PrivilegeError(
        f"the kernel does not let workers have the congestion control {control!r}, but these: {allowed}",
        fix=f"take one of these, or as root: {also}",
    )


def read(name: str, root: str = ROOT) -> str:
    """A value in the calling thread's network namespace, blanks made single. Raises OSError."""
    fd = os.open(root + name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return " ".join(os.read(fd, 4096).decode().split())
    finally:
        os.close(fd)
