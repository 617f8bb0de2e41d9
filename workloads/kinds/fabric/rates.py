"""Learning rates that know how stale an update is (MLfabric, section 3.1 and eq. 21)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, sqrt

from testbed.base.errors import SchemeError
from testbed.base.nearest import nearest


@dataclass(frozen=True)
class RateSettings:
    """Settings from which a rule computes a learning rate.

    Attributes:
        learning_rate: of the workload, without a unit. It is C of ``worst_case`` and 1 / L of ``adaptive``.
        c: of eq. 21, without a unit: how soon ``adaptive`` slows down.
        delay_bound: tau_max of eq. 9; None for no bound.
    """

    learning_rate: float
    c: float = 1.0
    delay_bound: int | None = None


Rule = Callable[[RateSettings, int, int], float]
"""Computes a learning rate from settings, the iteration t from 1 on, and the delay tau of an update."""


def constant(settings: RateSettings, iteration: int, delay: int) -> float:  # noqa: ARG001
    """Return the workload's own rate, whatever the delay (eq. 1)."""
    return settings.learning_rate


def worst_case(settings: RateSettings, iteration: int, delay: int) -> float:  # noqa: ARG001
    """Return ``C / sqrt(tau_max t)``: every update as if it were the most stale (section 3.1, after its source [7])."""
    assert settings.delay_bound is not None  # rule() has refused it
    return settings.learning_rate / sqrt(settings.delay_bound * iteration)


def adaptive(settings: RateSettings, iteration: int, delay: int) -> float:
    """Return ``1 / (L + c sqrt(t + tau))``, with ``L = 1 / learning_rate``: less for an update that is more stale (eq.
    21)."""
    return 1 / (1 / settings.learning_rate + settings.c * sqrt(iteration + delay))


RULES: Mapping[str, Rule] = {one.__name__: one for one in (constant, worst_case, adaptive)}
"""The rules by name."""


def rule(name: str, settings: RateSettings) -> Rule:
    """Return the rule of that name.

    Raises:
        SchemeError: there is none, or its settings make no rate.
    """
    if name not in RULES:
        raise SchemeError(f"rate={name} is not one of: {', '.join(RULES)}", fix=nearest(name, list(RULES)))
    if not (0 < settings.learning_rate < inf and 0 < settings.c < inf):
        raise SchemeError(
            f"rate={name} with a learning rate of {settings.learning_rate:g} and c of {settings.c:g} is impossible",
            fix="give both as finite numbers above 0",
        )
    if name == worst_case.__name__ and settings.delay_bound is None:
        raise SchemeError(f"rate={name} needs the largest delay that an update may have", fix="give a delay_bound")
    return RULES[name]
