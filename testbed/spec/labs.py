"""Labs that a spec may name, and the settings of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from testbed.lab import BUILT_IN, choice
from testbed.spec.options import LabOptions, group_of

LABS = choice.places()
LAB_OPTIONS: dict[str, type[LabOptions]] = {
    name: group_of(place.options) for name, place in LABS.items() if place.options is not None
}
"""The settings of each lab that has some, a key of a spec by its name; where a spec's lab is another, they mean
nothing."""
OF_BUILT_IN = frozenset(LAB_OPTIONS) & frozenset(BUILT_IN)
if TYPE_CHECKING:
    LabName = str
else:
    LabName = Literal[tuple(LABS)]
