"""Capacity of this machine: measured, kept, and told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from testbed.base.units import rate_text
from testbed.capacity import advice, cache
from testbed.capacity.cache import Known, known
from testbed.capacity.model import Capacity, NothingCarriedError, Step, fitted

__all__ = ["Known", "NothingCarriedError", "as_json", "known", "measure", "text"]


def measure(tell: Callable[[str], object]) -> Known:
    """Measure and keep the capacity; ``tell`` hears of each step.

    Raises:
        TestbedError: nothing can be measured, or what was measured cannot be kept.
    """
    from testbed.experiment import ladder  # here, for it takes half a second

    def tell_step(step: Step) -> None:
        each, whole = rate_text(step.load.rate_bps), rate_text(step.load.in_all_bps)
        said = "certified" if step.certified else "not certified"
        tell(f"  {step.network}: links of {each}, {whole} in all: GST {step.ratio:.3f} of theory, {said}")

    tell(f"measuring what this machine can carry: about {ladder.ABOUT_S} s")
    steps, of = ladder.climb(tell_step), cache.machine()
    capacity, day = fitted(steps), f"{datetime.now():%Y-%m-%d}"
    cache.keep(steps, day, of=of)
    return Known(capacity, day)


def as_json(found: Known) -> dict[str, Any]:
    """Describe the machine, its limit, and the steps that it follows from."""
    capacity = _capacity(found)
    steps = [asdict(step) for step in capacity.steps]
    return {"machine": cache.machine(), "measured": found.measured, "limit": capacity.limit, "steps": steps}


def text(found: Known) -> str:
    """Say what the machine carries, and where that is kept."""
    _capacity(found)
    return f"{advice.carried_text(found)}\nkept in {cache.place()}"


def _capacity(found: Known) -> Capacity:
    assert found.capacity is not None  # what was not measured is not told
    return found.capacity
