"""``testbed hosts``: make the machines of an inventory ready for the lab baremetal, and leave them as they were."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from testbed.base.listing import counted
from testbed.cli.output import AsJson, print_json, show

app = typer.Typer(no_args_is_help=True, help="Prepare and reset the machines of the lab baremetal.")

InventoryFile = Annotated[Path, typer.Option(metavar="FILE", help="The Ansible inventory.")]
Check = Annotated[bool, typer.Option("--check", help="Only say what would change; default: change it.")]
AllowMissing = Annotated[
    bool, typer.Option("--allow-missing", help="Leave out hosts that cannot be reached; default: report an error.")
]


@app.command()
def prepare(
    inventory: InventoryFile, check: Check = False, allow_missing: AllowMissing = False, as_json: AsJson = False
) -> None:
    """Install testbed and its Python packages on every host.

    A second time changes nothing.
    """
    _play("prepare", inventory, check, allow_missing, as_json)


@app.command()
def collect(
    inventory: InventoryFile,
    into: Annotated[Path, typer.Option(metavar="DIR", help="Folder that gets a directory for each host.")] = Path(
        "collected"
    ),
    check: Check = False,
    allow_missing: AllowMissing = False,
    as_json: AsJson = False,
) -> None:
    """Fetch files that interrupted runs have left on hosts."""
    _play("collect", inventory, check, allow_missing, as_json, testbed_into=str(into.absolute()))


@app.command()
def reset(
    inventory: InventoryFile, check: Check = False, allow_missing: AllowMissing = False, as_json: AsJson = False
) -> None:
    """Undo all changes on the hosts.

    It removes shapers, and all that prepare has installed.
    """
    _play("reset", inventory, check, allow_missing, as_json)


def _play(name: str, inventory: Path, check: bool, allow_missing: bool, as_json: bool, **variables: str) -> None:
    from testbed.lab.baremetal.preparing.hosts import play_on_all

    played = play_on_all(name, inventory, variables, check=check, tell=lambda line: print(line, file=sys.stderr))
    names = list(played.hosts)
    played.outcome.require(names, allow_missing=allow_missing)
    changed = {host: played.outcome.changed.get(host, 0) for host in names if host not in played.outcome.unreachable}
    if as_json:
        print_json({"changed": changed, "missing": sorted(played.outcome.unreachable)})
        return
    changes = counted(sum(changed.values()), "change")
    show(f"{name}: {counted(len(changed), 'host')}, {changes}{' to make' if check else ''}")
    for host in played.outcome.unreachable:
        print(f"  left out: {host}")
