"""Meter of the bytes that a host's training NICs carry, and of the trial's own among them; runs on the host, ten times
a second.

A NIC's shaper counts what has left it and what waits, an ifb's what has arrived
(:mod:`testbed.lab.baremetal.nics.shaper`). Both are read at one moment with the ends that connections have here, so
nothing is compared with what another host has counted by another clock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from testbed.lab.baremetal.nics.readback import ifb_of, indices
from testbed.lab.netns.kernel_interface import shaping
from testbed.lab.netns.kernel_interface.netlink import RouteSocket
from testbed.lab.netns.readings.streams import Streams


class HostMeter:
    """Meter of these NICs, which are shaped, and of connections with these ports.

    Attributes:
        ports: of the connections.
    """

    def __init__(self, names: Sequence[str], ports: range) -> None:
        self.ports = ports
        self._netlink, self._streams = RouteSocket(), Streams(ports)
        by_name = indices(self._netlink)
        places = [by_name[place] for name in names for place in (name, ifb_of(self._netlink, name))]
        self._asked = [shaping.ask_root(index) for index in places]

    def close(self) -> None:
        """Close the meter's sockets."""
        self._netlink.close()
        self._streams.close()

    def read(self) -> dict[str, Any]:
        """Read the counts, as :class:`testbed.lab.baremetal.controller.answers.Metered`.

        Raises:
            MissingToolError: the kernel tells nothing of connections.
        """
        begun_s = time.monotonic()
        streams = self._streams.read()
        roots = [shaping.read_qdisc(body) for body in self._netlink.ask(self._asked)]
        took_s = time.monotonic() - begun_s
        counted = [(one.bytes, one.waiting_bytes) for one in roots]
        return {
            "at_s": begun_s + took_s / 2,
            "took_s": took_s,
            "nics": list(zip(counted[::2], counted[1::2], strict=True)),
            "streams": streams,
        }
