"""Ids of trials, which name their files: readable, unique in an experiment, and the same in ``plan`` and ``run``.

An id begins with the arm's label. Where there is none it begins with scheme, network and perturbations, shortened. The
batch size and the point of a sweep follow.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from testbed.base.units import rate_text
from testbed.spec import Arm
from testbed.spec.axes import EXPRESSIONS
from testbed.spec.grid import PlannedCell, point_words
from testbed.topologies.call import parse
from testbed.topologies.load import file_of
from testbed.trial.model import Trial

_LONGEST, _LONGEST_VALUE = 60, 24
"""Characters of a label, scheme or topology, and of a swept value: groups of many hosts would be too long for a file's
name."""


def name(cell: PlannedCell, scheme: str) -> str:
    """``ring-b16`` for the arm ``ring`` with a batch of 16; ``ring-star9-b16`` where it has no label.

    Args:
        scheme: what the trial runs where the arm names no scheme.
    """
    label = _words(cell.label)[:_LONGEST].strip("-")
    in_name = () if label else EXPRESSIONS  # network and scheme have the values of their own sweeps
    rest = {key: value for key, value in cell.written.items() if key.split(".")[0] not in in_name}
    point = [_words(word.replace(" ", ""))[:_LONGEST_VALUE].strip("-") for word in point_words(rest)]
    arm = cell.arm.model_copy(update={"rate_bps": None}) if "arm.rate" in cell.written else cell.arm
    return "-".join([label or _unlabelled(arm, scheme), *([f"b{cell.batch}"] if cell.batch else []), *point])


def distinct(found: Sequence[Trial]) -> list[Trial]:
    """The trials with ids that all differ: those that shorten to the same words get a piece of their digest."""
    count = Counter(trial.name for trial in found)
    return [replace(trial, mark=f"-{_digest(trial)[:6]}") if count[trial.name] > 1 else trial for trial in found]


def _unlabelled(arm: Arm, scheme: str) -> str:
    """``ring-star9-C1`` for ring on star(hosts=9) under C1."""
    rate = [] if arm.rate_bps is None else [rate_text(arm.rate_bps)]
    titles = [
        arm.strategy_text,
        arm.order_text,
        *rate,
        *(one.title for one in arm.perturb),
        *([arm.checkpoint.title] if arm.checkpoint else []),
    ]
    under = (_words(title)[:_LONGEST_VALUE].strip("-") for title in titles)
    return "-".join([_short(arm.scheme or scheme), _short(arm.topology), *filter(None, under)])


def _short(expression: str) -> str:
    call = parse(expression, "ring")
    first = "-".join(dict.fromkeys(Path(call.name).name.split(".py:"))) if file_of(call.name) is not None else call.name
    values = "-".join(_value(key, value) for key, value in call.arguments.items())
    return _words(first + values)[:_LONGEST].strip("-")


def _value(key: str, value: Any) -> str:
    """A value; of what is true or false its name, for ``True`` alone says nothing."""
    if isinstance(value, bool):
        return f"{'' if value else 'no-'}{key}"
    return str(value)


def _words(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text)


def _digest(trial: Trial) -> str:
    """Return a digest of what a trial's result depends on, and of a point at which that may be the same, such as
    another timeout."""
    return hashlib.sha256((trial.identity + trial.at).encode()).hexdigest() if trial.at else trial.identity
