"""``testbed doctor --capacity``: what this machine can carry, measured and kept."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from testbed.cli.output import print_json

if TYPE_CHECKING:
    from testbed.capacity.cache import Known
    from testbed.capacity.model import Step


def measured(once: bool, as_json: bool = False) -> None:
    """Measure, unless it is to be done ``once`` and was; say what was found and where it is kept.

    Raises:
        TestbedError: as :func:`measure`; that nothing is carried is only told where it is to be known ``once``.
    """
    from testbed.capacity import advice, cache
    from testbed.capacity.model import NothingCarriedError

    found = cache.known()
    if not once or found.capacity is None:
        try:
            found = measure(partial(print, file=sys.stderr if as_json else sys.stdout, flush=True))
        except NothingCarriedError as error:
            if not once:
                raise
            print(f"{error.problem}; {error.fix}", file=sys.stderr)  # what comes after it may still be of use
            return
    elif not as_json:
        return
    assert found.capacity is not None
    if as_json:
        capacity = found.capacity
        steps = [asdict(step) for step in capacity.steps]
        known = {"machine": cache.machine(), "measured": found.measured, "limit": capacity.limit}
        print_json({**known, "steps": steps})
    else:
        print(f"\n{advice.carried_text(found)}\nkept in {cache.place()}")


def measure(tell: Callable[[str], object]) -> Known:
    """Measure and keep; ``tell`` hears of each step.

    Raises:
        TestbedError: nothing can be measured, or what was measured cannot be kept.
    """
    from datetime import datetime

    from testbed.base.units import rate_text
    from testbed.capacity import cache, ladder
    from testbed.capacity.model import fitted

    def tell_step(step: Step) -> None:
        each, whole = rate_text(step.load.rate_bps), rate_text(step.load.in_all_bps)
        said = "certified" if step.certified else "not certified"
        tell(f"  {step.network}: links of {each}, {whole} in all: GST {step.ratio:.3f} of theory, {said}")

    tell(f"measuring what this machine can carry: about {ladder.ABOUT_S} s")
    steps, of = ladder.climb(tell_step), cache.machine()
    capacity, day = fitted(steps), f"{datetime.now():%Y-%m-%d}"
    cache.keep(steps, day, of=of)
    return cache.Known(capacity, day)
