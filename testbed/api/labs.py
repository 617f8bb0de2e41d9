"""The lab that is asked for beside the spec: ``--backend``, ``--inventory`` and ``--allow-missing``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.base.errors import TestbedError, UsageError

if TYPE_CHECKING:
    from testbed.lab.base import Lab
    from testbed.lab.place import Opening
    from testbed.spec import Spec


def with_backend(overrides: Sequence[str], backend: str | None) -> list[str]:
    """Replace ``--backend`` by ``--set lab=``, for which it is short."""
    return [*overrides] if backend is None else [*overrides, f"lab={backend}"]


def machines(inventory: Path | None, allow_missing: bool) -> Opening:
    """Make the opening of a lab, as far as the command line says.

    Raises:
        UsageError: hosts may be missing of no inventory.
    """
    from testbed.lab.place import Opening

    if allow_missing and inventory is None:
        raise UsageError("--allow-missing needs an inventory", fix="add --inventory FILE")

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    return Opening(inventory=inventory, allow_missing=allow_missing, tell=tell)


def lab_of(spec: Path, overrides: Sequence[str], backend: str | None, inventory: Path | None) -> str | None:
    """Name of the lab that takes the place of the spec's, None for the spec's own: that of ``--backend``, or, where an
    inventory is given and the spec's takes none, the first that takes one.

    Raises:
        UsageError: the lab that ``--backend`` names takes no inventory.
    """
    from testbed.lab.choice import places

    if inventory is not None and backend is None:
        own = places().get(_own_lab(spec, overrides))
        if own is not None and own.takes_inventory:
            return None
    return lab_named(backend, inventory)


def _own_lab(spec: Path, overrides: Sequence[str]) -> str:
    """Name of the lab that a spec names; empty where it names none, or cannot be read, which its reader says better."""
    from testbed.spec import yaml

    try:
        settings = yaml.parse(yaml.read_text(spec), str(spec))
        yaml.override(settings, overrides)
    except TestbedError:
        return ""
    return str(settings.get("lab", ""))


def lab_named(backend: str | None, inventory: Path | None) -> str | None:
    """Name of the lab that ``--backend`` names, or that an inventory is for; None leaves the spec's.

    Raises:
        UsageError: the lab takes no inventory.
    """
    from testbed.lab.choice import of_inventory

    return of_inventory(backend).name if inventory else backend


def opener(opening: Opening, spec: Spec) -> Callable[[], Lab]:
    """Make a function that opens a spec's lab.

    Raises:
        UsageError: there is an inventory, and the lab takes none.
    """
    from testbed.lab import choice

    lab_named(spec.lab, opening.inventory)
    return choice.opener(spec.lab, replace(opening, options=spec.lab_options, every_address=spec.meets_anywhere))
