"""The network of one arm, held in this process: what ``testbed up`` does.

``testbed.up()`` starts that command in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.api import labs
from testbed.capacity.fit import fit
from testbed.interactive import hold
from testbed.spec import Source, load
from testbed.trial.model import Network

if TYPE_CHECKING:
    from testbed.lab.base import Lab


@dataclass(frozen=True)
class Held:
    """A network to hold, and what opens another lab for it than its spec's."""

    network: Network
    source: Source
    open_lab: Callable[[], Lab] | None

    def hold(self, *, command_line: bool = False, for_program: bool = False) -> None:
        """Build it, and answer ``testbed exec`` (:func:`testbed.interactive.hold.hold`)."""
        hold.hold(self.network, self.source.spec, self.open_lab, command_line=command_line, for_program=for_program)


def chosen(
    spec: Path,
    overrides: Sequence[str],
    arm: str | None,
    backend: str | None,
    inventory: Path | None,
    allow_missing: bool,
) -> Held:
    """The network of one arm of a spec, as the command line's options ask for it.

    Raises:
        SpecError: the spec makes no sense.
        UsageError: there is no such arm, or options exclude each other.
    """
    open_lab = labs.machines(inventory, allow_missing, backend)
    source = fit(load(spec, labs.with_backend(overrides, "baremetal" if inventory else backend)))
    if inventory and source.spec.lab != "baremetal":
        labs.refuse_inventory(source.spec.lab)
    return Held(hold.pick(source, arm), source, open_lab)
