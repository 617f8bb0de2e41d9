"""The lab ``mininet``, as the rest of testbed knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.lab.place import DeclaredPlace, Opening

if TYPE_CHECKING:
    from testbed.lab.mininet.lab import MininetLab

TERMINAL = (0, 1, 2)
"""Standard input, output and error of this process."""


class MininetPlace(DeclaredPlace):
    """A network that Mininet builds, in private namespaces of this machine."""

    def open(self, opening: Opening) -> MininetLab:
        from testbed.lab.mininet.lab import MininetLab

        return MininetLab(every_address=opening.every_address)

    def check(self) -> None:
        from testbed.lab.mininet.lab import check_installed

        check_installed()

    def command_line(self, lab: MininetLab) -> None:
        lab.command_line(TERMINAL).wait()


PLACE = MininetPlace("mininet", has_command_line=True)
