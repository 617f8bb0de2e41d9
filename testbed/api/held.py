"""The network of one arm, held in this process: what ``testbed up`` does.

``testbed.up()`` starts that command in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.api import labs
from testbed.experiment.finding import settled
from testbed.interactive import hold
from testbed.lab.place import Opening
from testbed.spec import load
from testbed.trial.model import Trial


@dataclass(frozen=True)
class Held:
    """A network to hold, and how its lab is opened."""

    trial: Trial
    opening: Opening

    def hold(self, *, command_line: bool = False, for_program: bool = False) -> None:
        """Build the network, and answer ``testbed exec`` (:func:`testbed.interactive.hold.hold`)."""
        hold.hold(self.trial, self.opening, command_line=command_line, for_program=for_program)


def chosen(
    spec: Path,
    overrides: Sequence[str],
    arm: str | None,
    backend: str | None,
    inventory: Path | None,
    allow_missing: bool,
) -> Held:
    """Choose the network of one arm of a spec, as the command line's options ask for it.

    Raises:
        SpecError: the spec makes no sense.
        UsageError: there is no such arm, or options exclude each other.
    """
    opening = labs.machines(inventory, allow_missing)
    source = settled(load(spec, labs.with_backend(overrides, labs.lab_of(spec, overrides, backend, inventory))))
    labs.lab_named(source.spec.lab, inventory)
    return Held(hold.pick(source, arm), opening)
