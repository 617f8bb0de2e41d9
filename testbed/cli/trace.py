"""``testbed trace``: files that other tools read, made of what a run has recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.output import AsJson, print_json, wrote

app = typer.Typer(no_args_is_help=True, help="Make files for other tools of what a run has recorded.")


@app.command()
def timeline(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.")],
    trial: Annotated[
        str,
        typer.Option("--trial", metavar="ID", help="The trial, as in trials/ID.json; for one of several jobs, ID+JOB."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.json", help="The file to write.")],
    as_json: AsJson = False,
) -> None:
    """Write a trial's timeline for Perfetto.

    The file is in Chrome's trace format; https://ui.perfetto.dev opens it. Ranks are processes of the trace, with rows
    for iterations (computing, waiting, step) and for collectives, from the first chunk to the last byte.
    """
    from testbed.api.timeline import write

    events = write(run, trial, out)
    if as_json:
        print_json({"trial": trial, "file": str(out), "events": events})
    else:
        wrote("timeline", out)
