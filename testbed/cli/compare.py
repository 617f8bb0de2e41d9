"""``testbed compare``, ``baseline`` and ``history``: a run against an earlier one, and many in the order of time."""

from __future__ import annotations

from enum import StrEnum
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
        help="The change that counts: gst=5%, jct=, throughput=, or 5% for all three. Default 3%.",
    ),
]
Metrics = Annotated[
    list[str],
    typer.Option("--metric", metavar="METRIC", help="Compare only gst, jct or throughput.", show_default=False),
]
Allow = Annotated[
    list[str],
    typer.Option(metavar="NAME", help="Compare although this differs: kernel, cpu, packages.torch, links.rate."),
]
AcceptInconclusive = Annotated[
    bool,
    typer.Option(
        "--accept-inconclusive",
        help="Exit with 0 if nothing is worse and something is inconclusive that has VALID trials on both sides.",
    ),
]
AcceptFailures = Annotated[
    bool, typer.Option("--accept-failures", help="Exit with 0 though more trials fail than did in BASE.")
]
Measured = typer.Argument(help="A run's directory or a baseline's file.")


class Format(StrEnum):
    """What a comparison can be written as."""

    TEXT = "text"
    MD = "md"
    JSON = "json"
    JUNIT = "junit"


def compare(
    base: Annotated[Path, Measured],
    new: Annotated[Path, Measured],
    thresholds: Thresholds = [],  # noqa: B006  # typer wants the default's type; never changed
    metrics: Metrics = [],  # noqa: B006
    allow: Allow = [],  # noqa: B006
    arms: Annotated[
        list[str], typer.Option(metavar="BASE=NEW", help="Compare these arms, by label; of one run, in pairs.")
    ] = [],  # noqa: B006
    accept_inconclusive: AcceptInconclusive = False,
    accept_failures: AcceptFailures = False,
    form: Annotated[Format, typer.Option("--format", help="How it is told.")] = Format.TEXT,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write that into a file; the table is printed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say of each arm, batch and metric whether NEW is better or worse than BASE, or the same.

    Exit code 3 where something is worse or more trials failed, 4 where nothing can be compared or something is
    inconclusive.
    """
    from testbed.api.comparison import compare as judge
    from testbed.base.errors import UsageError

    if as_json and out is None and form not in (Format.TEXT, Format.JSON):
        raise UsageError(f"--json and --format {form.value} exclude each other", fix="leave one out, or add --out FILE")
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
    if as_json or (form != Format.TEXT and not out):
        print(found.text(Format.JSON if as_json else form).rstrip("\n"))
    else:
        show(found.table_text(table))
        if out:
            print()
            wrote(form.value, out)
    raise typer.Exit(found.exit_code(accept_inconclusive))


def baseline(
    run: Annotated[Path, typer.Argument(help="A run's directory.")],
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where it goes.")],
    as_json: AsJson = False,
) -> None:
    """Make a baseline of a run: a small file to commit, which later runs are compared with."""
    from testbed.api.comparison import baseline as make

    told = make(run, out)
    if as_json:
        print_json({"baseline": str(out), **told})
    else:
        show(f"{told['valid']} VALID of {counted(told['trials'], 'trial')}, in {counted(told['cells'], 'cell')}")
        if told["note"]:
            show(told["note"])
        wrote("baseline", out)


def history(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where runs and baselines are, at any depth.")],
    metric: Annotated[str, typer.Option(help="gst, jct or throughput.")] = "gst",
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw it as a page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a metric over many runs, with the runs with which it changed.

    Only a report: exit codes come from compare.
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
