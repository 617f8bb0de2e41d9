"""``testbed compare``, ``baseline`` and ``history``: a run against an earlier one, and many in the order of time."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from analysis.compare import Comparison

Thresholds = Annotated[
    list[str],
    typer.Option(
        "--threshold",
        metavar="METRIC=SHARE",
        help="What change matters: gst=5%, jct=, throughput=, or 5% for all three. Default 3%.",
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
        help="Exit with 0 where nothing is worse and something inconclusive, if it has VALID trials on both sides.",
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
) -> None:
    """Say of each arm, batch and metric whether NEW is better or worse than BASE, or the same.

    Exit code 3 where something is worse or more trials failed, 4 where nothing can be compared or something is
    inconclusive.
    """
    from analysis.compare import compare as judge
    from analysis.measured import read
    from testbed.comparison.options import exit_code, pairs, wanted
    from testbed.files.writing import write_bytes

    limits = wanted(thresholds, metrics)
    old, measured = read(base), read(new)
    found = judge(
        old,
        measured,
        thresholds=limits,
        allowed=allow,
        arms=pairs(arms, old, measured),
        accept_failures=accept_failures,
    )
    if out:
        write_bytes(out, _text(found, form).encode())
    print(_text(found, Format.TEXT if out else form).rstrip("\n"))
    if out:
        print(f"\n{form.value}: {out}")
    raise typer.Exit(exit_code(found, accept_inconclusive))


def baseline(
    run: Annotated[Path, typer.Argument(help="A run's directory.")],
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where it goes.")],
    as_json: AsJson = False,
) -> None:
    """Make a baseline of a run: a small file to commit, which later runs are compared with."""
    from testbed.comparison.gate import make_baseline

    told = make_baseline(run, out)
    if as_json:
        print_json({"baseline": str(out), **told})
    else:
        print(f"{out}: {told['cells']} cells, {told['valid']} VALID of {told['trials']} trials")
        if told["note"]:
            print(told["note"])


def history(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where runs and baselines are, at any depth.")],
    metric: Annotated[str, typer.Option(help="gst, jct or throughput.")] = "gst",
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Draw it as a page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a metric over many runs, with the runs with which it changed.

    Only a report: exit codes come from compare.
    """
    from analysis.history import page, text
    from analysis.history.series import collect, series
    from testbed.base.printable import printable
    from testbed.comparison.options import known_metric

    known_metric("--metric", metric)
    sides, unread = collect(folder)
    found = series(sides, metric)
    if out:
        page.write(found, unread, out)
    if as_json:
        print_json(text.as_json(found, unread))
    else:
        print(printable(text.text(found, unread)) or f"no VALID trial in {folder} has this metric")
    if out and not as_json:
        print(f"\npage: {out}")


def _text(found: Comparison, form: Format) -> str:
    from analysis import compare_output

    if form is Format.JSON:
        return json.dumps(compare_output.as_json(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write = {
        Format.TEXT: compare_output.text,
        Format.MD: compare_output.markdown,
        Format.JUNIT: compare_output.junit,
    }
    return write[form](found)
