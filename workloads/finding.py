"""Settings that a scheme leaves to be found in each trial: what hosts measure for them, and how that decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Decided:
    """Plain settings, and facts about how they were found, for the record."""

    settings: Mapping[str, Any]
    facts: Mapping[str, Any]


Decide: TypeAlias = Callable[[Sequence[str], Any, int], Mapping[str, Any] | Decided]
"""Pure function ``(names, measured, seed)`` that returns plain settings of the arm or the job, such as ``{"scheme":
"ring"}``, or these with facts. ``names`` are those of the job's hosts, and ``measured`` is what hosts measured, by
name. It sees no topology, so that hosts with other names get the same settings with other names."""


@dataclass(frozen=True)
class Finding:
    """Settings that are found by hosts after their links were measured, and before job files are written.

    Attributes:
        probe: name of what hosts measure, one of :data:`testbed.execution.probing.PROBES`.
        stand_in: words for what is planned until then.
    """

    probe: str
    decide: Decide
    stand_in: str = "another plan"
