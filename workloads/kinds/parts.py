"""Optional parts of a kind of trial, each an attribute of :class:`.base.Kind` that is None where a kind does without it.

Whoever needs a part asks whether it is there. Nothing of a part has to be defined by kinds without it.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from testbed.workloads.plan import Plan

P = TypeVar("P", bound=Plan)
"""The type of a kind's plans."""


class Software(Generic[P]):
    """Programs and packages of other people that move the bytes. The processes meet and wait as these like."""

    def require(self, plan: P) -> None:
        """Return only if this machine has the programs and packages that the plan takes.

        Raises:
            MissingToolError: it lacks one.
        """

    def meeting_port(self, plan: P) -> int | None:
        """Return the port at which rank 0 listens for the others, if they meet by themselves; otherwise None."""
        return None

    def needs_agent(self, plan: P) -> bool:
        """Whether a process starts programs on the hosts of others."""
        return False

    def uses_torch(self, plan: P) -> bool:
        """Whether processes have a use for PyTorch even where they train nothing."""
        return False

    def polling(self, plan: P) -> str:
        """Name the processes that keep their cores busy while they wait, so that idle time says nothing; empty if none
        does."""
        return ""
