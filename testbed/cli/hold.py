"""``testbed up`` and ``exec``: hold a lab and poke at it."""

from __future__ import annotations

from typing import Annotated

import typer

from testbed.base import interrupt
from testbed.cli.experiment import AllowMissing, Backend, Inventory, Overrides, SpecFile


def up(
    spec: SpecFile,
    overrides: Overrides = [],  # noqa: B006  # typer wants the default's type; never changed
    arm: Annotated[str | None, typer.Option(help="Label or number of the arm whose network is built.")] = None,
    backend: Backend = None,
    cli: Annotated[bool, typer.Option("--cli", help="The lab's own command line, here, if it has one.")] = False,
    inventory: Inventory = None,
    allow_missing: AllowMissing = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: print the nodes as JSON; end when standard input ends, too.")
    ] = False,
) -> None:
    """Build the network of one arm and hold it.

    The first arm, unless --arm says another; until Ctrl-C. Reach its nodes with testbed exec.
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
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="What to run there.")],
) -> None:
    """Run a command on a node of the held network.

    testbed up holds it, in another terminal: testbed exec h0 -- ping -c 1 h1
    """
    from testbed.interactive import reach as doorway

    try:
        status = doorway.execute(node, command)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(status if status >= 0 else 128 - status)
