"""The list ``perturb`` of a spec: what happens to a trial while it runs.

Compute: ``straggle``, ``slow``, ``jitter``, ``trace``, ``hog``. Network: ``rates``, ``rate``, ``background``,
``interference``, ``queue``, ``impair``, ``down``, ``circuits``. Both: ``freeze``, ``kill``. Each is a file of
:mod:`testbed.perturb.kinds`. Settings of published experiments have names (:data:`NAMED`), which stand in the list in
place of a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field

from testbed.base.groups import listed, refuse, tag, tagged
from testbed.base.units import value_text
from testbed.perturb.kinds.base import MOST, Perturbation
from testbed.perturb.registry import PERTURBATIONS


def _contention(p1: float, p25: float, p33: float, p5: float, p10: float) -> dict[str, Any]:
    """Make a perturbation of rates, with the probabilities of 1, 2.5, 3.3, 5 and 10 Gbit/s out of 10: with 9, 3, 2, 1
    and 0 other flows."""
    drawn = {0.1: p1, 0.25: p25, 0.33: p33, 0.5: p5, 1.0: p10}
    return {"kind": "rates", "every": "5 s", "shares": {share: p for share, p in drawn.items() if p}}


NAMED: dict[str, dict[str, Any]] = {
    "C1": {"kind": "straggle", "probability": 0.1, "slowdown": 2},
    "C2": {"kind": "straggle", "probability": 0.1, "slowdown": 4},
    "C3": {"kind": "straggle", "probability": 0.04, "slowdown": 2},
    "N1": _contention(0, 0, 0, 0.1, 0.9),
    "N2": _contention(0, 0.1, 0.1, 0.1, 0.7),
    "N3": _contention(0.5, 0, 0, 0, 0.5),
}
"""MLfabric's compute settings and network settings ("Background compute and network load" of its evaluation)."""


def named(value: object) -> object:
    """Replace a name by its group."""
    if isinstance(value, dict) and "kind" not in value:
        raise refuse("a group without a kind", f"add kind, one of: {', '.join(PERTURBATIONS)}")
    if value is None or isinstance(value, bool):
        raise refuse(f"{value_text(value)} is no perturbation", "leave perturb out, or take a named one, such as C1")
    if not isinstance(value, str):
        return value
    if value not in NAMED:
        fix = "take one of them, or a group such as {kind: straggle, ...}"
        raise refuse(f"{value!r} is not one of: {', '.join(NAMED)}", fix)
    return {"name": value, **NAMED[value]}


def _kind(value: object) -> str:
    return tag(str(value["kind"] if isinstance(value, dict) else getattr(value, "kind", value)))


if TYPE_CHECKING:
    _One = Perturbation
else:
    _One = Annotated[tagged(PERTURBATIONS.values()), Discriminator(_kind), BeforeValidator(named)]
Perturbations = Annotated[list[_One], BeforeValidator(listed), Field(max_length=MOST)]
