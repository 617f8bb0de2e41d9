"""``testbed clean``: what killed runs have left, on this machine or on the hosts of an inventory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.hosts import AllowMissing
from testbed.cli.output import AsJson, print_json, show, table


def clean(
    yes: Annotated[bool, typer.Option("--yes", help="Remove what is listed; default: only list it.")] = False,
    inventory: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Look on the hosts of this Ansible inventory; default: on this machine.",
            show_default=False,
        ),
    ] = None,
    allow_missing: AllowMissing = False,
    as_json: AsJson = False,
) -> None:
    """List or remove what killed runs have left.

    Only what has testbed's own mark and belongs to a run that is over is listed. Labs in namespaces leave nothing.
    """
    if inventory is None:
        _here(yes, as_json)
    else:
        _there(inventory, yes, allow_missing, as_json)


def _here(yes: bool, as_json: bool) -> None:
    from testbed.lab import choice

    found, unseen = choice.find_leftovers()
    if yes:
        choice.remove_leftovers(found)
    if as_json:
        print_json({"removed": yes, "left": [asdict(one) for one in found], "not_looked_at": unseen})
        return
    if found:
        rows = [(one.lab, one.name, one.state, f"process {one.owner_pid}") for one in found]
        show(table(("lab", "what", "state", "left by"), rows, left=4))
    _end(len(found), yes, "testbed clean --yes")
    for reason in unseen:
        show(f"not looked at: {reason}")


def _there(inventory: Path, yes: bool, allow_missing: bool, as_json: bool) -> None:
    from testbed.lab.choice import of_inventory

    found = of_inventory(None).leftovers_on_machines(inventory, remove=yes, allow_missing=allow_missing)
    if as_json:
        print_json({"removed": yes, "left": found})
        return
    for one in found:
        show(f"{one['host']}: {one['what']}, since {one['since']}" + (f", of {one['owner']}" if one["owner"] else ""))
    _end(len(found), yes, f"testbed clean --inventory {inventory} --yes")


def _end(count: int, removed: bool, how: str) -> None:
    if count == 0:
        print("nothing is left over")
    else:
        print(f"\n{count} removed" if removed else f"\nremove them: {how}")
