"""Checks of the lab ``netns`` for ``testbed doctor``: what is tried in a sandbox that vanishes with the check."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from itertools import permutations

from testbed.base.errors import LabError, MissingToolError, TestbedError
from testbed.lab.base import PREFERRED_CONTROLS, LinkSettings
from testbed.lab.measurements import Way
from testbed.lab.netns.kernel_interface.kernel import CAP_SYS_ADMIN, has_capability
from testbed.lab.netns.lab import NetnsLab
from testbed.lab.netns.network.impairing import NETEM
from testbed.lab.place import Prerequisite
from testbed.topologies.addressing import plan
from testbed.topologies.build import build

TRIED_DELAY_S, TRIED_LINKS, TRIED_RATE_BPS = 0.001, 4, 100_000_000
TRIED = 4
"""Number of times that the packets of one calibration are sent."""
MOST_OFF_S = 0.001
"""Seconds by which a round trip may be off: beyond this, delays of some milliseconds mean little; on two idle cores it
is 0.1 ms."""


def checks() -> Iterator[Prerequisite]:
    """Check whether the lab can be made, and what it can do here. No experiment runs where it cannot be made."""
    root = has_capability(CAP_SYS_ADMIN)
    how = "as root" if root else f"as user {os.geteuid()}, in a user namespace"
    try:
        with NetnsLab() as lab:
            yield Prerequisite("namespaces", True, f"made and left again, {how}", needed=True)
            yield _enclosure(lab)
            yield _qdisc(lab, "htb", "rates of links", needed=True)
            yield _impairments(lab)
            yield _congestion_control(lab.congestion_controls())
    except TestbedError as error:
        yield Prerequisite("namespaces", False, error.problem, error.fix, needed=True)


def _enclosure(lab: NetnsLab) -> Prerequisite:
    """Check whether workers can be kept apart from the machine, with a copy on write of a command's folder."""
    try:
        lab.try_enclosure()
    except LabError as error:
        fix = "use Linux 5.12 or newer with CONFIG_SECCOMP_FILTER and overlayfs: modprobe overlay, as root"
        return Prerequisite("enclosures", False, error.problem, fix, needed=True)
    return Prerequisite("enclosures", True, "workers can be kept apart from the machine", needed=True)


def _qdisc(lab: NetnsLab, kind: str, what: str, *, needed: bool) -> Prerequisite:
    found = lab.has_qdisc(kind)
    detail = f"{what}: the kernel {'has' if found else 'has no'} {kind}"
    fix = f"sudo modprobe sch_{kind} (or a kernel built with CONFIG_NET_SCH_{kind.upper()})"
    return Prerequisite(kind, found, detail, None if found else fix, needed)


def _impairments(lab: NetnsLab) -> Prerequisite:
    """Check how links are delayed here, and how exact it is: round trips over two delayed links, each both ways."""
    topology = build("star(hosts=2)", rate_bps=TRIED_RATE_BPS, delay_s=TRIED_DELAY_S)
    name, what = "delays", "delay, jitter, loss and reordering of links"
    try:
        lab.require(topology, LinkSettings())
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        found = lab.calibrate([Way(0, 1, *plan(topology).flow(0, 1))] * TRIED, [])
        way = lab.impaired_by()
        lab.down()
    except (MissingToolError, LabError) as error:
        return Prerequisite(name, False, f"{what}: {error.problem}", error.fix)
    by = "the kernel's netem" if way["way"] == NETEM else "the delay line, for the kernel has no netem"
    took_s = [one_s for trips in found.round_trips_s for one_s in trips]
    if not took_s:
        return Prerequisite(name, False, f"{what}: by {by}, but no packet came back", "report this machine")
    asked_s = TRIED_LINKS * TRIED_DELAY_S
    off_s = statistics.median(took_s) - asked_s
    unprivileged = way.get("real_time") is False
    priority = "; without real-time priority, which needs root, less exact when cores are busy" if unprivileged else ""
    detail = f"{what}: by {by}; a round trip of {asked_s * 1e3:g} ms takes {off_s * 1e3:+.2f} ms more{priority}"
    fix = None if abs(off_s) <= MOST_OFF_S else "end what else uses the cores, and look again"
    return Prerequisite(name, fix is None, detail, fix)


def _congestion_control(allowed: list[str]) -> Prerequisite:
    """Check whether workers may have the congestion control that trials take by themselves."""
    ok = PREFERRED_CONTROLS[0] in allowed
    fix = f'sudo sysctl -w net.ipv4.tcp_allowed_congestion_control="{" ".join([*allowed, PREFERRED_CONTROLS[0]])}"'
    return Prerequisite("congestion control", ok, f"workers may choose {', '.join(allowed)}", None if ok else fix)
