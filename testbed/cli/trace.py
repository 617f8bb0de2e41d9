"""``testbed trace``: files that other tools read, or wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.output import AsJson, print_json, table, wrote
from testbed.cli.output import show as print_lines

app = typer.Typer(no_args_is_help=True, help="Traces for other tools, and of them.")


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


@app.command()
def show(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A trace: NAME.et of Chakra, JSON of PyTorch or PARAM, NAME.goal.")
    ],
    nodes: Annotated[
        int, typer.Option("--nodes", metavar="N", min=1, help="Read at most this many nodes.")
    ] = 2_000_000,
    rank: Annotated[int | None, typer.Option("--rank", metavar="N", min=0, help="Of NAME.goal: this rank; 0.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what an execution trace has: nodes by type, bytes, groups, its critical path, and what is odd."""
    from testbed.api.traces import show as read

    found = read(file, nodes, rank)
    if as_json:
        print_json(found)
        return
    rows = [(one["type"], f"{one['count']:,}", f"{one['bytes']:,}") for one in found["types"]]
    print_lines(table(("nodes", "count", "bytes"), rows))
    print_lines(f"version {found['version']}; {found['nodes']:,} nodes")
    if found["groups"]:
        print_lines(f"groups: {', '.join(found['groups'])}")
    print_lines(
        f"computes {found['computes_us'] / 1e3:g} ms; its critical path has {found['critical_path_us'] / 1e3:g} ms"
    )
    for what, count in found["odd"].items():
        print_lines(f"{count:,} nodes: {what}")


@app.command()
def export(
    source: Annotated[
        Path, typer.Argument(metavar="SPEC|RUN", help="The experiment; or, with --trial, a run directory.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the files are written.")],
    arm: Annotated[str | None, typer.Option("--arm", metavar="LABEL", help="Write the transfers of this arm.")] = None,
    trial: Annotated[
        str | None, typer.Option("--trial", metavar="ID", help="Write what happened in this trial.")
    ] = None,
    iteration: Annotated[
        int | None, typer.Option("--iteration", metavar="N", min=0, help="With --trial: only this one.")
    ] = None,
    points: Annotated[
        list[str] | None,
        typer.Option("--point", metavar="NAME=VALUE", help="With --arm: where a swept field or batch is that."),
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.")] = None,
    form: Annotated[
        str, typer.Option("--form", metavar="FORM", help="With --arm: transfers (Chakra), goal, or msccl (XML).")
    ] = "transfers",
    chunks: Annotated[bool, typer.Option("--chunks", help="With --arm: write each chunk as a message.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a trial that ran, or a scheme, as traces for other tools.

    --trial writes what happened, as Chakra's traces: for each iteration what a rank computed, and its collectives.
    --arm writes one synchronisation of its scheme. Its transfers are Chakra's traces, a file for each rank, with a
    system and a groups file for ASTRA-sim, and on a star or a ring its network file. A GOAL schedule (LogGOPSim,
    ATLAHS) and MSCCL's XML are one file. Of a sweep it is the first point, and the output says which.
    """
    from testbed.api.traces import export as write
    from testbed.api.traces import export_measured
    from testbed.base.errors import UsageError

    for option, given in (
        ("--set", overrides),
        ("--point", points),
        ("--form", form != "transfers"),
        ("--chunks", chunks),
    ):
        if trial is not None and given:
            raise UsageError(f"{option} is of a spec, and a trial ran as it was", fix=f"leave {option} out")
    if trial is None and iteration is not None:
        raise UsageError("--iteration is of a trial that ran", fix="give --trial, or leave --iteration out")
    if trial is not None and arm is None:
        found = export_measured(source, trial, out, iteration)
    elif arm is not None and trial is None:
        found = write(source, arm, out, overrides or (), points or (), form, chunks=chunks)
    else:
        raise UsageError("trace export writes an arm of a spec or a trial of a run", fix="give either --arm or --trial")
    if as_json:
        print_json(found)
        return
    for path in found["files"]:
        wrote("trace" if path.endswith((".et", ".goal", ".xml")) else "beside it", path)
    for told in filter(None, (found["left_out"], found["point"])):
        print_lines(told)
