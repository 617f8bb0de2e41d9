"""The update of weights by one gradient, where each is a step of its own."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Update:
    """One gradient: whose, of which of its iterations, and the version of the weights that it was computed on.

    A version is how many updates the weights contain. One that is dropped is in none of them; its worker has computed
    it all the same.
    """

    rank: int
    iteration: int
    version: int
    is_dropped: bool = field(default=False, repr=False)
