"""The lab ``netns``, as the rest of testbed knows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from testbed.lab.place import DeclaredPlace, Opening, Prerequisite

if TYPE_CHECKING:
    from testbed.lab.base import Lab


class NetnsPlace(DeclaredPlace):
    """A network in private namespaces of this machine."""

    def open(self, opening: Opening) -> Lab:
        from testbed.lab.netns.lab import NetnsLab

        return NetnsLab(every_address=opening.every_address)

    def checks(self) -> Iterable[Prerequisite]:
        from testbed.lab.netns.checks import checks

        return checks()


PLACE = NetnsPlace("netns", has_sockets=True)
