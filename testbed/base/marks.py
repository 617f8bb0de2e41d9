"""Messages of a script about itself while it runs as a rank of a trial: ``testbed.mark()`` and ``testbed.log()``.

Outside of a trial nobody listens, and each costs a look at one variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, SupportsFloat


class Sink(Protocol):
    """Receiver that writes the messages down."""

    def mark(self) -> None:
        """Note that an iteration has ended now."""

    def log(self, values: Mapping[str, float]) -> None:
        """Note numbers of now, by name."""


sink: Sink | None = None
"""Receiver that our backend for ``torch.distributed`` sets, in a trial whose arm has a scheme."""


def mark() -> None:
    """Say that an iteration of the script has ended. Without marks, the sums that the script asks for show its
    iterations, as those of DistributedDataParallel do."""
    if sink is not None:
        sink.mark()


def log(**values: SupportsFloat) -> None:
    """Tell numbers of this rank, such as ``testbed.log(loss=loss, samples=len(batch))``: ``loss`` is the training loss,
    and ``samples`` how many samples this rank has trained on since it told last. A tensor of one element is a number.

    Raises:
        TypeError, ValueError: a value is no number; in a trial only, for outside nobody looks.
    """
    if sink is not None:
        sink.log({name: float(value) for name, value in values.items()})
