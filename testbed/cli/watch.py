"""``testbed watch``: a run's report in a browser while the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testbed.base import interrupt


def watch(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's directory.")],
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=65535, help="Port on loopback; default: a free one.", show_default=False),
    ] = None,
) -> None:
    """Serve a run's report to a browser, and renew it as trials end.

    On this machine only, until Ctrl-C, which does not end the run. The address that it prints has a token, which keeps
    others out. The page has logs and the last trial's Gantt chart, and a button that ends the run after its trial.
    """
    with interrupt.exit_at_once():
        from testbed.api.watch import watch as serve
    interrupt.raise_once()
    try:
        serve(run, port, _tell)
    except KeyboardInterrupt:
        print("\nno longer watched; a run that goes on is not ended by this")


def _tell(state: str, address: str) -> None:
    print(f"{state}\nwatch it at: {address}\nCtrl-C ends watching", flush=True)
