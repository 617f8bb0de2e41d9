"""Mark of a forest whose trees change in mid-run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Tuned:
    """Mark of a forest whose workers are told other trees while they train."""

    kind: ClassVar[str] = "tuned"
