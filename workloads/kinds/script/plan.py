"""A forest along which the collectives of a script move."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from testbed.base.errors import SchemeError
from testbed.workloads.sync.forest import Forest


@dataclass(frozen=True)
class Scripted:
    """Mark of a forest whose ranks are processes of a script, which asks for sums when it wants some.

    Attributes:
        library: ``gloo`` if PyTorch's own backend moves the bytes, and the forest is what it is measured against; empty
            if our backend does.
    """

    kind: ClassVar[str] = "script"
    library: str = ""


def scripted(forest: Forest, library: str = "") -> Forest:
    """Return the same trees, marked for the collectives of a script.

    Raises:
        SchemeError: they are not for any array that comes.
    """
    if forest.aligned:
        raise SchemeError(
            f"scheme {forest.scheme} places tensors on servers, and a script's tensors are not known before it runs",
            fix="remove place=tensor: each server then has a share of every array",
        )
    if forest.members is not None:
        raise SchemeError(
            f"scheme {forest.scheme} sums among some hosts, and the collectives of a script are among all",
            fix="leave out members; a script makes groups by itself with new_group",
        )
    return replace(forest, run_by=Scripted(library))


def library_of(forest: Forest) -> str:
    """Name the library whose backend moves the bytes; empty for ours."""
    assert isinstance(forest.run_by, Scripted)
    return forest.run_by.library
