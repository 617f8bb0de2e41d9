"""The caller's side of the ``mininet`` lab: the ``netns`` lab, but that Mininet makes the network."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping

from testbed.base.errors import MissingToolError, SpecError
from testbed.base.extras import install
from testbed.base.units import rate_text
from testbed.lab.base import Impairment, LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.network.blueprint import initial_impairments
from testbed.lab.netns.network.impairing import NETEM
from testbed.topologies.model import Topology

MOST_BPS = 1_000_000_000
"""The highest rate that Mininet limits, ``mininet.link.TCIntf.bwParamMax``: above it, Mininet says so in its log and
leaves the link without a limit."""
PROGRAMS = {"mnexec": "mininet", "ip": "iproute2", "tc": "iproute2", "ifconfig": "net-tools", "ethtool": "ethtool"}
"""Programs that Mininet calls, with Debian's package."""
PACKAGE = "mininet"
SYSTEM_PATHS = ("/usr/sbin", "/sbin")


class MininetLab(NetnsLab):
    """A network that Mininet builds (see :class:`testbed.lab.base.Lab`), in private namespaces.

    Raises:
        MissingToolError: Mininet or a program that it calls is not installed.
        PrivilegeError: the kernel does not let this user make namespaces.
    """

    builder = "mininet"

    def __init__(self, *, every_address: bool = False) -> None:
        check_installed()
        super().__init__(every_address=every_address)

    def require(self, topology: Topology, settings: LinkSettings) -> None:
        """Raises SpecError: Mininet cannot build this."""
        if topology.panels is not None:
            raise SpecError(f"{topology.expression}: Mininet has no patch panels", fix="take --backend netns")
        fastest_bps = max((link.rate_bps for link in topology.links), default=0)
        if settings.shaped and fastest_bps > MOST_BPS:
            raise SpecError(
                f"{topology.expression}: a link of {rate_text(fastest_bps)}; Mininet leaves links of more than "
                f"{rate_text(MOST_BPS)} without a limit",
                fix="scale the workload down, or take --backend netns",
            )
        super().require(topology, settings)
        if initial_impairments(topology, settings):
            self._need_netem()

    def impair(self, wanted: Mapping[int, Impairment]) -> None:
        self._need_netem()
        super().impair(wanted)

    def _need_netem(self) -> None:
        if self.impairs_by() != NETEM:
            raise MissingToolError(
                "a link's delay, jitter, loss or reordering by Mininet needs netem, which this kernel does not have",
                fix="take --backend netns, or a kernel with CONFIG_NET_SCH_NETEM",
            )


def check_installed() -> None:
    """Raises MissingToolError: names what is missing, and the command that installs it."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise MissingToolError("the Python package mininet is not installed", fix=install("mininet"))
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_PATHS])
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        packages = " ".join(sorted({PROGRAMS[program] for program in missing}))
        raise MissingToolError(
            f"Mininet needs {', '.join(missing)}, not installed here", fix=f"sudo apt-get install {packages}"
        )
