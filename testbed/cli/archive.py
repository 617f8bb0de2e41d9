"""``testbed archive``: a run in one file for somebody else, such as a reviewer."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from testbed.base.listing import counted, shortened
from testbed.base.printable import NOT_ON_A_LINE
from testbed.base.units import size_text
from testbed.cli.output import AsJson, print_json, show, wrote

MOST_FILES, MOST_UNUSED = 20, 3
"""Files that are named of those in an archive, and of Python files that are not; the rest is counted."""


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

    It has the spec, the files that it names and those that a script imports, the environment, the versions of packages,
    records, samples, the report, and a README with the command that runs it again and compares. The run stays as it is.
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
                "unused": list(made.unused),
            }
        )
        return
    show(f"{made.done} of {counted(made.in_all, 'trial')}, {size_text(made.size_bytes)}")
    if made.files:
        names = NOT_ON_A_LINE.sub(" ", shortened(made.files, MOST_FILES))
        show(f"packed {counted(len(made.files), 'file')} of {NOT_ON_A_LINE.sub(' ', str(made.folder))}: {names}")
    if made.done < made.in_all:
        show("the run is not finished, and the archive's README says so; go on with:")
        print(f"  testbed run --resume {quote(str(run))}")
    for name, why in made.lacking.items():
        show(f"not in it: {name}: {why}")
    if made.unused:
        names = NOT_ON_A_LINE.sub(" ", shortened(made.unused, MOST_UNUSED))
        show(f"not in it: {counted(len(made.unused), 'Python file')} there that the script does not import ({names})")
        show("  if it loads one of them in another way, add it: --with NAME")
    wrote("archive", made.path)
