"""Workers of a lab that end."""

from __future__ import annotations

from testbed.lab.base import Lab
from testbed.lab.programs import Exit
from tests.patience import until


def ended(lab: Lab, count: int) -> list[Exit]:
    """The first ``count`` that end, in the order in which they are told of."""
    found: list[Exit] = []
    while len(found) < count:
        found += until(lab.exits)
    return found
