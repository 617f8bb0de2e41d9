"""The common interface of all plans of schemes, whatever moves along them."""

from __future__ import annotations

from typing import Protocol, Self


class Plan(Protocol):
    """The plan of a scheme on a topology. Its kind of trial knows the rest (:mod:`testbed.workloads.kinds.base`)."""

    @property
    def scheme(self) -> str:
        """The expression that built it, such as ``ps(place=tensor)``."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the topology's nodes, in its order."""

    @property
    def workers(self) -> tuple[int, ...]:
        """Nodes that contribute a gradient, by rank."""

    @property
    def kind(self) -> str:
        """The name of its kind of trial."""

    @property
    def nbytes(self) -> int:
        """About how many bytes the plan takes in a file."""

    def built_by(self, scheme: str) -> Self:
        """Return the same plan with another expression."""
