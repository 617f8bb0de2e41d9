"""Advice about an experiment on this machine: what to expect, in one sentence, and what to change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.base.listing import counted, shortened
from testbed.base.units import rate_text, size_text
from testbed.capacity.cache import Known
from testbed.capacity.model import Load, load_of, not_known
from testbed.lab.choice import DEFAULT
from testbed.trial.model import Trial

MEASURE = "testbed doctor --capacity"
UNMEASURED = f"whether this machine carries it is not known: {MEASURE} measures that in half a minute"
MOST_NAMED = 4
"""The most values of a sweep that are named."""


@dataclass(frozen=True)
class Asked:
    """A trial with its load, and the room that this machine has for it (:meth:`Capacity.room`)."""

    trial: Trial
    load: Load
    room: float

    @property
    def carried(self) -> bool:
        return self.room >= 1


@dataclass(frozen=True)
class Advice:
    """Advice about some trials.

    Attributes:
        asked: the trials of which something is predicted.
        text: one sentence.
        never: nothing can be predicted of any, measured or not.
    """

    asked: tuple[Asked, ...]
    text: str
    never: bool = False

    @property
    def worst(self) -> Asked | None:
        return min(self.asked, key=lambda one: one.room, default=None)

    @property
    def warns(self) -> bool:
        """Whether a trial is expected to be INVALID."""
        return self.worst is not None and not self.worst.carried

    def as_json(self) -> dict[str, Any] | None:
        """Convert it for a program; None where nothing is predicted."""
        worst = self.worst
        if worst is None:
            return None
        return {
            "trial": worst.trial.id,
            "asks_bps": worst.load.in_all_bps,
            "carries_bps": worst.load.in_all_bps * worst.room,
            "expected_invalid": [one.trial.id for one in self.asked if not one.carried],
        }


def carried_text(found: Known) -> str:
    """Say in one line what was measured; of a machine of which something is known."""
    assert found.capacity is not None
    best = found.capacity.best
    return (
        f"{rate_text(round_down(best.load.in_all_bps, 3))} in all and {round_down(best.load.packets_s):,.0f} packets/s "
        f"stayed certified, with {counted(best.load.processes, 'process')} ({best.network}), {found.measured}"
    )


def advise(trials: Sequence[Trial], known: Known) -> Advice:
    """Advise about ``trials``; of those that repeat, about the first."""
    cells: dict[tuple[str, str], Trial] = {}
    for trial in trials:
        cells.setdefault((trial.name, trial.mark), trial)
    reasons = [not_known(trial) for trial in cells.values()]
    if all(reasons):
        why = f"whether this machine carries it is not predicted: {reasons[0]}" if reasons else ""
        return Advice((), why, never=True)
    if known.trouble:
        return Advice((), f"{known.trouble}; {MEASURE} measures again what this machine carries")
    if known.capacity is None:
        return Advice((), UNMEASURED)
    one_each = {id(trial.network): trial for trial in cells.values()}  # batches at a point share a network
    loads = {key: load_of(trial) for key, trial in one_each.items()}
    asked = [
        Asked(trial, load, known.capacity.room(load))
        for trial in cells.values()
        if (load := loads[id(trial.network)]) is not None
    ]
    return Advice(tuple(asked), _text(asked, [*filter(None, reasons)]))


def _text(asked: Sequence[Asked], unknown: Sequence[str]) -> str:
    """Write the advice on the cell for which the machine has the least room: ``18 links of 1 Gbit/s carry 18 Gbit/s in
    all; this machine carries about 7.2 Gbit/s of such a load (ring, 9 processes): likely to end INVALID. ...``"""
    worst = min(asked, key=lambda one: one.room)
    load, trial = worst.load, worst.trial
    apart = f" ({len(unknown)} more not predicted: {unknown[0]})" if unknown else ""
    which = f"of {len(asked)} cells {trial.name} loads this machine most{apart}: " if len(asked) > 1 else ""
    chunk = f"chunks of {size_text(trial.jobs[0].chunk_bytes)}"
    schemes = dict.fromkeys(trial.network.arm.schemes)
    kind = ", ".join([*schemes, counted(load.processes, "process"), chunk, *_packets(load)])
    alike = f" (as in the lab {DEFAULT}, whose kernel {trial.spec.lab} shares)" if trial.spec.lab != DEFAULT else ""
    if worst.room <= 0:
        return (
            f"{trial.label} has {counted(load.processes, 'process')}, "
            f"more than this machine carried at any rate{alike}: "
            "likely to end INVALID. Take fewer hosts"
        )
    carried = rate_text(round_down(load.in_all_bps * worst.room))
    text = f"{which}{links_text(worst)} carry {rate_text(round_down(load.in_all_bps, 3))} in all"
    text += f"; this machine carries about {carried} of such a load ({kind}){alike}"
    if worst.carried:
        return text
    too_fast = [one for one in asked if not one.carried]
    many = len(too_fast)
    some = f"{many} of {len(asked)} cells {'is' if many == 1 else 'are'} " if many < len(asked) else ""
    return f"{text}: {some}likely to end INVALID. Take {' or '.join(changes(too_fast))}"


def _packets(load: Load) -> list[str]:
    """The size of large packets, if it is the same at every rate, as with short queues: the machine then carries less
    of what has the same name otherwise."""
    if load.packet_bytes_by_rates or not load.large_packets_s:
        return []
    return [f"large packets of {size_text(round(load.link_bytes_s / load.large_packets_s))}"]


def links_text(asked: Asked) -> str:
    """Describe links: ``18 links of 1 Gbit/s``; of links that have rates of their own, from the slowest to the
    fastest."""
    rates = [link.rate_bps for link in asked.trial.topology.links]
    differ = len(asked.trial.spec.rates_bps(asked.trial.network.arm)) > 1
    text = f"{rate_text(min(rates))} to {rate_text(max(rates))}" if differ else rate_text(asked.load.rate_bps)
    return f"{counted(asked.load.links, 'link')} of {text}"


def changes(too_fast: Sequence[Asked]) -> list[str]:
    """Changes that would let this machine carry trials: a larger scale, where the workload has one, or slower links, of
    every arm that has rates of its own."""
    rates: dict[str, list[tuple[Asked, int]]] = {}
    for one in too_fast:
        for key, rate_bps in one.trial.spec.rates_bps(one.trial.network.arm).items():
            rates.setdefault(key, []).append((one, rate_bps))
    slower = [
        _change(key, of, rate_text(round_down(min(rate_bps * one.room for one, rate_bps in of))), rate_text)
        for key, of in rates.items()
    ]
    scales = [(one, work.scale) for one in too_fast if (work := one.trial.spec.workload).takes_scale]
    larger = [f"{round_up(max(scale / one.room for one, scale in scales)):g}"] if scales else []
    return [
        *(_change("workload.scale", scales, scale, "{:g}".format) for scale in larger),
        (" " if all(change.startswith("--set") for change in slower) else " and ").join(slower),
    ]


def _change(key: str, too_fast: Sequence[tuple[Asked, float]], needed: str, write: Callable[[float], str]) -> str:
    """``--set KEY=VALUE``; or, of a field that is swept, what to write in place of its values that are too fast, since
    ``--set`` would replace all that it has."""
    if ("arm.rate" if key.startswith("arms.") else key) in too_fast[0][0].trial.point:
        swept = list(dict.fromkeys(write(value) for _, value in too_fast))
        return f"{needed} in place of {shortened(swept, MOST_NAMED)} in the sweep of {key}"
    value = f"'{needed}'" if " " in needed else needed
    return f"--set '{key}={needed}'" if " " in key else f"--set {key}={value}"


def round_down(value: float, digits: int = 2) -> float:
    """Round ``value`` to so many digits, and not up."""
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return round(math.floor(value / step * (1 + 1e-9)) * step, 10)


def round_up(value: float) -> float:
    """Round ``value`` to two digits, and not down."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / step * (1 - 1e-9)) * step, 10)
