"""The lab that is asked for beside the spec: ``--backend``, ``--inventory`` and ``--allow-missing``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from testbed.base.errors import UsageError

if TYPE_CHECKING:
    from testbed.lab.base import Lab


def with_backend(overrides: Sequence[str], backend: str | None) -> list[str]:
    """``--backend`` is short for ``--set lab=``."""
    return [*overrides] if backend is None else [*overrides, f"lab={backend}"]


def machines(inventory: Path | None, allow_missing: bool, backend: str | None) -> Callable[[], Lab] | None:
    """What opens the lab of an inventory, if one is given."""
    if inventory is None:
        if allow_missing:
            raise UsageError("--allow-missing is about hosts of an inventory", fix="add --inventory FILE")
        return None
    if backend not in (None, "baremetal"):
        refuse_inventory(backend)
    from testbed.lab.baremetal.lab import BaremetalLab

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    return partial(BaremetalLab, inventory, allow_missing=allow_missing, tell=tell)


def refuse_inventory(lab: str) -> NoReturn:
    """
    Raises:
        UsageError: always.
    """
    raise UsageError(f"--inventory is for the lab baremetal, not {lab}", fix="leave one of the two out")
