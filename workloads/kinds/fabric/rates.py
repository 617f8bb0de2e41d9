"""Learning rates that know how stale an update is (MLfabric, section 3.1 and eq. 21)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt

from testbed.base.errors import SchemeError
from testbed.base.nearest import nearest

RULES = "constant", "worst_case", "adaptive"
Rule = Callable[[int, int], float]
"""Computes a learning rate from the iteration t, from 1 on, and the delay tau of an update."""


def rule(name: str, learning_rate: float, c: float = 1.0, delay_bound: int | None = None) -> Rule:
    """Return the rule of that name.

    ``constant`` is the workload's own rate, whatever the delay (eq. 1). ``worst_case`` is ``C / sqrt(tau_max t)``,
    every update as if it were the most stale (section 3.1, after its source [7]). ``adaptive`` is ``1 / (L + c sqrt(t +
    tau))``, less for an update that is more stale (eq. 21).

    Args:
        learning_rate: of the workload, without a unit. It is C of ``worst_case`` and 1 / L of ``adaptive``.
        c: of eq. 21, without a unit: how soon ``adaptive`` slows down.
        delay_bound: tau_max of eq. 9; None for no bound.

    Raises:
        SchemeError: there is none, or its settings make no rate.
    """
    if name not in RULES:
        raise SchemeError(f"rate={name} is not one of: {', '.join(RULES)}", fix=nearest(name, RULES))
    if not (0 < learning_rate < inf and 0 < c < inf):
        raise SchemeError(
            f"rate={name} with a learning rate of {learning_rate:g} and c of {c:g} is impossible",
            fix="give both as finite numbers above 0",
        )
    if name == "adaptive":
        return lambda iteration, delay: 1 / (1 / learning_rate + c * sqrt(iteration + delay))
    if name == "constant":
        return lambda _iteration, _delay: learning_rate
    if delay_bound is None:
        raise SchemeError(f"rate={name} needs the largest delay that an update may have", fix="give a delay_bound")
    return lambda iteration, _delay: learning_rate / sqrt(delay_bound * iteration)
