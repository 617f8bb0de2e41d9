"""``testbed schedule``: what MLfabric's scheduler makes of a batch, without sending anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.output import AsJson, print_json, show, table


def schedule(
    batch: Annotated[Path, typer.Argument(metavar="BATCH.yaml", help="Updates that wait, and their network.")],
    as_json: AsJson = False,
) -> None:
    """Schedule a batch of updates as MLfabric does.

    It says in which order updates are committed, which are dropped, which are summed on the way, what goes to the
    replica, and when each transfer begins and ends. Rates and bytes are taken as given, without headers. Nothing is
    sent.
    """
    from testbed.api.schedule import schedule as computed

    found = computed(batch)
    if as_json:
        print_json(found.facts)
    else:
        show(found.text(table))
