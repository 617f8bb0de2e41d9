"""``testbed archive``: a run in one file for somebody else, such as a reviewer."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from testbed.base.listing import counted
from testbed.base.units import size_text
from testbed.cli.output import AsJson, print_json, show, wrote


def archive(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's directory.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="New file, which ends in .tar.gz; default: RUN.tar.gz.", show_default=False),
    ] = None,
    more: Annotated[
        list[str],
        typer.Option(
            "--with",
            metavar="NAME",
            help="Also pack this file of the spec's folder, such as data of your own; more with further --with.",
            show_default=False,
        ),
    ] = [],  # noqa: B006  # typer wants the default's type; never changed
    as_json: AsJson = False,
) -> None:
    """Make one file of a run, for reviewers.

    It has the spec and the files that it names, the environment, the versions of packages, records, samples, the
    report, and a README with the command that runs it again and compares. The run stays as it is.
    """
    from testbed.api.archive import archive as make

    made = make(run, out, more)
    if as_json:
        print_json(
            {
                "archive": str(made.path),
                "bytes": made.size_bytes,
                "done": made.done,
                "planned": made.planned,
                "files": list(made.files),
                "lacking": dict(made.lacking),
            }
        )
        return
    of = made.done if made.planned is None else made.planned
    files = counted(len(made.files), "file")
    show(f"{made.done} of {counted(of, 'trial')}, {files} that the spec names, {size_text(made.size_bytes)}")
    if made.done < of:
        show("the run is not finished, and the archive's README says so; go on with:")
        print(f"  testbed run --resume {quote(str(run))}")
    for name, why in made.lacking.items():
        show(f"not in it: {name}: {why}")
    wrote("archive", made.path)
