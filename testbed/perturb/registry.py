"""The kinds of perturbations that there are: those that come with testbed, and those that installed packages add.

It is here, and not in :mod:`testbed.spec`, because the spec's schema is made of the kinds: a kind must not import
what imports all kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from testbed.base.errors import UsageError
from testbed.base.groups import kind_of
from testbed.base.plugins import with_plugged
from testbed.perturb.events import Move
from testbed.perturb.kinds.base import Perturbation
from testbed.perturb.kinds.circuits import Circuits, Reconfigure
from testbed.perturb.kinds.compute import Hog, Jitter, Slow, Straggle, Trace
from testbed.perturb.kinds.hosts import Freeze, Kill
from testbed.perturb.kinds.links import Down, Impair, Queue, Rates, Step
from testbed.perturb.kinds.traffic import Background, Interference

GROUP = "perturbations"
"""Group of entry points, see :mod:`testbed.base.plugins`."""
_BUILT_IN: tuple[type[Perturbation], ...] = (
    *(Straggle, Slow, Jitter, Trace),
    Hog,
    *(Rates, Step, Queue, Impair, Down, Background),
    *(Freeze, Kill),
    Circuits,
    Reconfigure,
    Interference,
)
"""Kinds that come with testbed, in the order in which messages list them."""


def _checked(name: str, kind: object) -> type[Perturbation]:
    """
    Raises:
        UsageError: what a package adds is no kind of that name.
    """
    if not (isinstance(kind, type) and issubclass(kind, Perturbation)):
        raise UsageError(
            f"the entry point {name} of testbed.{GROUP} is {kind!r}",
            fix="let it name a class that is derived from testbed.perturb.kinds.base.Perturbation",
        )
    found = kind_of(kind) if "kind" in kind.model_fields else None
    if found != name:
        raise UsageError(
            f"the entry point {name} of testbed.{GROUP} is {kind.__name__}, whose kind is {found!r}",
            fix=f'give both one name: kind: Literal["{name}"]',
        )
    return kind


PERTURBATIONS: dict[str, type[Perturbation]] = {
    name: _checked(name, kind) for name, kind in with_plugged(GROUP, {kind_of(one): one for one in _BUILT_IN}).items()
}
"""Kinds by the name that ``kind`` gives."""
ASKED_IN_BAND = next(name for name, kind in PERTURBATIONS.items() if kind.asked_in_band)
"""The kind that processes of a trial may ask for."""


def requested(keys: Mapping[str, Any]) -> Move:
    """Make the move that a process asks for, by the keys of that kind.

    Raises:
        ValidationError: pydantic's, of keys that make no sense.
    """
    return cast(Move, PERTURBATIONS[ASKED_IN_BAND].model_validate({**keys, "kind": ASKED_IN_BAND}))
