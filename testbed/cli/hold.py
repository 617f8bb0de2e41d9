"""``testbed up`` and ``exec``: hold a lab and poke at it."""

from __future__ import annotations

from typing import Annotated

import typer

from testbed.base import interrupt
from testbed.cli.experiment import AllowMissing, Backend, Inventory, Overrides, SpecFile


def up(
    spec: SpecFile,
    overrides: Overrides = [],  # noqa: B006  # typer wants the default's type; never changed
    arm: Annotated[
        str | None,
        typer.Option(metavar="ARM", help="Build the network of this arm, by label or number; default: the first."),
    ] = None,
    backend: Backend = None,
    cli: Annotated[bool, typer.Option("--cli", help="Open the lab's own command line, if it has one.")] = False,
    inventory: Inventory = None,
    allow_missing: AllowMissing = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the nodes as JSON; also end when standard input ends.")
    ] = False,
) -> None:
    """Build the network of one arm and hold it.

    The network stays until Ctrl-C. Run commands on its nodes with testbed exec.
    """
    from testbed.api.held import chosen
    from testbed.base.errors import UsageError

    if cli and as_json:
        raise UsageError("--cli and --json exclude each other", fix="give one of them")
    held = chosen(spec, overrides, arm, backend, inventory, allow_missing)
    interrupt.raise_once()
    try:
        held.hold(command_line=cli, for_program=as_json)
    except KeyboardInterrupt:
        if not as_json:
            print("\nthe lab is gone")


def execute(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of a host or switch, such as h0.")],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The command to run there.")],
) -> None:
    """Run a command on a node of the held network.

    While testbed up holds the network in another terminal: testbed exec h0 -- ping -c 1 h1
    """
    from testbed.interactive import reach as doorway

    interrupt.raise_each()
    try:
        status = doorway.execute(node, command)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(status if status >= 0 else 128 - status)
