"""Whether perturbations that strike by chance did so: the field ``strikes`` of plans and records.

With a probability of 30 %, one worker and four iterations, one draw in four strikes nobody. All repeats of a trial have
the same draws, so its numbers are then those of a trial without the perturbation, however often it is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.analysis.record.fields import Part, Text, required
from testbed.base.listing import shortened

SHOWN = 3
"""Trials that a sentence names."""
FIX = "take more iterations, another seed or a higher probability"


@dataclass(frozen=True)
class Strikes(Part):
    """The chances that the draws of one perturbation take in one trial."""

    perturbation: Text = required("name of a perturbation that strikes by chance")
    struck: int = required("how many of its chances it took")
    chances: int = required("how many it had")
    of: Text = required("what a chance is: an iteration of a worker, or a draw of a link's rate")

    def __str__(self) -> str:
        return f"{self.perturbation} strikes {self.struck} of {self.chances} {self.of}"


def strikes_of(value: Mapping[str, Any]) -> tuple[Strikes, ...]:
    """Read the strikes in a plan's or a record's entry of a trial; nothing of records of earlier versions."""
    names = Strikes.__dataclass_fields__
    return tuple(Strikes(**{name: one[name] for name in names}) for one in value.get("strikes") or ())


def never(trials: Sequence[tuple[str, Sequence[Strikes]]]) -> list[str]:
    """A sentence for each perturbation that strikes nobody in some trial, with what to change; ``trials`` are ids, and
    what is known of each."""
    missed: dict[str, list[str]] = {}
    for trial, known in trials:
        for each in known:
            if not each.struck:
                missed.setdefault(str(each), []).append(trial)
    every = len({trial for trial, _ in trials})
    return [
        f"{'all trials' if len(ids) == every else shortened(ids, SHOWN)}: {sentence}, so it changes nothing; {FIX}"
        for sentence, names in missed.items()
        for ids in [list(dict.fromkeys(names))]
    ]
