"""Mark of a forest whose trees change in mid-run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Tuned:
    """Mark of a forest whose workers are told other trees while they train.

    Attributes:
        groups: the hosts of each group, by rank: masters stay in them.
    """

    kind: ClassVar[str] = "tuned"

    groups: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(map(tuple, self.groups)))  # JSON makes lists of them
