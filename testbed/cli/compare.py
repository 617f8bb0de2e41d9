"""``testbed compare``, ``baseline`` and ``history``: a run against an earlier one, and many in the order of time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testbed.base.listing import counted
from testbed.cli.output import AsJson, print_json, show, table, wrote

Thresholds = Annotated[
    list[str],
    typer.Option(
        "--threshold",
        metavar="METRIC=SHARE",
        help="Count only changes larger than this: gst=5%, jct=5%, throughput=5%, or 5% for all three; default 3%.",
        show_default=False,
    ),
]
Metrics = Annotated[
    list[str],
    typer.Option(
        "--metric", metavar="METRIC", help="Compare only gst, jct or throughput; default all three.", show_default=False
    ),
]
Allow = Annotated[
    list[str],
    typer.Option(
        metavar="NAME",
        help="Compare although this differs: kernel, cpu, packages.torch, links.rate; default: nothing may differ.",
        show_default=False,
    ),
]
AcceptInconclusive = Annotated[
    bool,
    typer.Option(
        "--accept-inconclusive",
        help="Exit with 0, not 4, if nothing is worse and every inconclusive metric has VALID trials on both sides.",
    ),
]
AcceptFailures = Annotated[
    bool, typer.Option("--accept-failures", help="Do not exit with 3 because more trials FAILED than in BASE.")
]
Base = typer.Argument(metavar="BASE", help="Directory of the earlier run, or file of a baseline.")
New = typer.Argument(metavar="NEW", help="Directory of the run to judge, or file of a baseline.")


def compare(
    base: Annotated[Path, Base],
    new: Annotated[Path, New],
    thresholds: Thresholds = [],  # noqa: B006  # typer wants the default's type; never changed
    metrics: Metrics = [],  # noqa: B006
    allow: Allow = [],  # noqa: B006
    arms: Annotated[
        list[str],
        typer.Option(
            metavar="BASE=NEW",
            help="Compare these two arms, by label; default: arms of the same label.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    accept_inconclusive: AcceptInconclusive = False,
    accept_failures: AcceptFailures = False,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Format of the comparison: text, md, json or junit.")
    ] = "text",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the comparison into a file, too; default: only print it.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether run NEW is better or worse than BASE.

    Each arm, batch and metric is judged as better, worse, same or inconclusive. The exit code is 3 if something is
    worse or more trials failed, and 4 if nothing can be compared or something is inconclusive.
    """
    from testbed.api.comparison import compare as judge
    from testbed.base.errors import UsageError

    if as_json and out is None and form not in ("text", "json"):
        raise UsageError(f"--json and --format {form} exclude each other", fix="leave one out, or add --out FILE")
    found = judge(
        base,
        new,
        threshold=thresholds,
        metrics=metrics,
        allow=allow,
        arms=arms,
        accept_failures=accept_failures,
    )
    if out:
        found.save(out, form)
    if as_json or (form != "text" and not out):
        print(found.text("json" if as_json else form).rstrip("\n"))
    else:
        show(found.table_text(table))
        if out:
            print()
            wrote(form, out)
    raise typer.Exit(found.exit_code(accept_inconclusive))


def baseline(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's directory.")],
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="File to write.")],
    as_json: AsJson = False,
) -> None:
    """Save a run as a baseline for later comparisons.

    A baseline is a small file, to be committed.
    """
    from testbed.api.comparison import baseline as make

    told = make(run, out)
    if as_json:
        print_json({"baseline": str(out), **told})
    else:
        show(f"{counted(told['trials'], 'trial')} in {counted(told['cells'], 'cell')}: {told['verdict']}")
        if told["note"]:
            show(told["note"])
        wrote("baseline", out)


def history(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with runs and baselines, at any depth.")],
    metric: Annotated[str, typer.Option(metavar="METRIC", help="The metric: gst, jct or throughput.")] = "gst",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Also draw a page; default: only print a table.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a metric over many runs, and when it changed.

    This is only a report. For an exit code that says whether a run is slower, use compare.
    """
    from testbed.api.history import history as over_time

    found = over_time(folder, metric)
    if out:
        found.page(out)
    if as_json:
        print_json(found.as_json())
    else:
        show(str(found) or f"no VALID trial in {folder} has this metric")
    if out and not as_json:
        print()
        wrote("page", out)
