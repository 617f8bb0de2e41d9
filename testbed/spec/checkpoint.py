"""The keys of an arm's checkpoints."""

from __future__ import annotations

from pydantic import Field

from testbed.base.groups import Group, Speed, Whole


class Checkpoint(Group):
    """Weights that are written to a disk now and then, so that a training could go on from there. A process that writes
    does nothing else meanwhile. Rank 0 writes. If a scheme's servers have the weights, each server writes its part."""

    every: Whole = Field(ge=1, examples=["30"])
    """The number of iterations after which weights are written; of servers, the number of updates. Nothing is written
    after the last one."""
    rate_bytes_per_s: Speed = Field(alias="rate", examples=["180 MB/s"])
    """The speed at which a process writes. A profile's ``scale`` divides it. A slower disk takes longer."""
    spread: Whole | None = Field(None, ge=1, examples=["3"])
    """All workers write, each an equal part, so that each float is written by so many of them. By default one process
    has all of it to write."""

    @property
    def title(self) -> str:
        """Text for an arm without a label."""
        return f"a checkpoint every {self.every}" + ("" if self.spread is None else f", spread {self.spread}")
