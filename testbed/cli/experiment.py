"""``testbed run``, ``plan`` and ``report``: an experiment, what it would do, and what it said."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from testbed import exits, interrupt
from testbed.cli.output import AsJson, print_json, rich_table
from testbed.columns import columns

if TYPE_CHECKING:
    from rich.console import Console

    from testbed.lab.base import Lab
    from testbed.run import Experiment, Run

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment's YAML file.")]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: workload.iterations=5, arms.0.scheme=ring."),
]

Backend = Annotated[
    str | None,
    typer.Option(
        metavar="LAB", help="netns, mininet, docker or baremetal, in place of the spec's lab.", show_default=False
    ),
]


Inventory = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Ansible inventory of the lab baremetal.", show_default=False)
]
AllowMissing = Annotated[bool, typer.Option("--allow-missing", help="Leave out hosts that cannot be reached.")]


def with_backend(overrides: list[str], backend: str | None) -> list[str]:
    """``--backend`` is short for ``--set lab=``."""
    return overrides if backend is None else [*overrides, f"lab={backend}"]


def run(
    spec: Annotated[Path | None, typer.Argument(metavar="SPEC", help="The experiment's YAML file.")] = None,
    overrides: Overrides = [],  # noqa: B006  # typer wants the default's type; never changed
    out: Annotated[Path | None, typer.Option(help="New directory; default runs/NAME-TIME.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with a run that was cut off.")] = None,
    backend: Backend = None,
    inventory: Inventory = None,
    allow_missing: AllowMissing = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment and write its report.

    Every arm runs with every batch size; then come the comparison and the path of the report.
    """
    with interrupt.exit_at_once():
        from rich.console import Console

        from testbed.progress import reporter

        import_module("testbed.run")  # half a second; those that need it take it from there
    console = Console(stderr=as_json)
    interrupt.raise_once()
    open_lab = _machines(inventory, allow_missing, backend)
    backend = "baremetal" if inventory and spec else backend
    with _experiment(spec, with_backend(overrides, backend), out, resume, open_lab) as experiment:
        if inventory and experiment.source.spec.lab != "baremetal":
            _refuse_inventory(experiment.source.spec.lab)
        try:
            done = experiment.go(lambda left: reporter(left, console))
            page = _report(done)
        except KeyboardInterrupt:
            _interrupted(experiment)
    if as_json:
        print_json({"run": str(done.path), "report": str(page), "trials": done.records})
    else:
        _print_comparison(done, console)
        print(f"\nreport: {page}")
    raise typer.Exit(exits.TRIAL_FAILED if done.failed else exits.OK)


def plan(
    spec: SpecFile,
    overrides: Overrides = [],  # noqa: B006
    backend: Backend = None,
    as_json: AsJson = False,
) -> None:
    """Check an experiment and say what it would do.

    Its trials, their least GST and duration, and what would be built; nothing is touched.
    """
    from testbed import planning
    from testbed.spec import load

    found = planning.plan(load(spec, with_backend(overrides, backend)))
    if as_json:
        print_json(found)
    else:
        print(planning.text(found))


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="A run's directory, or several.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Where a report of several goes.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a run's report.html again, or one of several.

    Several are runs of the same experiment, in other labs or on other machines, and stand side by side.
    """
    from testbed.errors import UsageError
    from testbed.run import write_report

    if len(runs) > 1 and out is None:
        raise UsageError("a report of several runs belongs to none of them", fix="say where it goes: --out FILE.html")
    page = write_report(runs, out)
    if as_json:
        print_json({"runs": [str(run) for run in runs], "report": str(page)})
    else:
        print(f"report: {page}")


def _machines(inventory: Path | None, allow_missing: bool, backend: str | None) -> Callable[[], Lab] | None:
    """What opens the lab of an inventory, if one is given."""
    from testbed.errors import UsageError

    if inventory is None:
        if allow_missing:
            raise UsageError("--allow-missing is about hosts of an inventory", fix="add --inventory FILE")
        return None
    if backend not in (None, "baremetal"):
        _refuse_inventory(backend)
    from testbed.lab.baremetal.lab import BaremetalLab

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    return partial(BaremetalLab, inventory, allow_missing=allow_missing, tell=tell)


def _refuse_inventory(lab: str) -> NoReturn:
    from testbed.errors import UsageError

    raise UsageError(f"--inventory is for the lab baremetal, not {lab}", fix="leave one of the two out")


def _experiment(
    spec: Path | None,
    overrides: list[str],
    out: Path | None,
    resume: Path | None,
    open_lab: Callable[[], Lab] | None = None,
) -> Experiment:
    from testbed.errors import UsageError
    from testbed.run import Experiment
    from testbed.spec import load

    if resume and out:
        raise UsageError("--out and --resume exclude each other", fix="a resumed run stays in its directory")
    if resume and overrides and not spec:
        raise UsageError("--set and --backend need the SPEC that they change", fix="name it, or resume without them")
    if resume:
        return Experiment.resumed(resume, load(spec, overrides) if spec else None, open_lab)
    if not spec:
        raise UsageError("no SPEC is given", fix="testbed run experiments/quickstart.yaml")
    return Experiment.new(load(spec, overrides), out, open_lab)


def _report(done: Run) -> Path:
    from testbed.run import write_report

    return write_report([done.path])


def _print_comparison(done: Run, console: Console) -> None:
    from testbed.comparison import HEADER, fitting, rows

    print()
    table = rows(done.records)
    if console.is_terminal:
        shown = fitting(table, console.width)
        console.print(rich_table([HEADER[i] for i in shown], [[row[i] for i in shown] for row in table]))
    else:
        print(columns(HEADER, table))
    failed = sum(record["status"] == "failed" for record in done.records)
    if failed:
        print(f"\n{failed} of {len(done.records)} trials failed; run them again: testbed run --resume {done.path}")


def _interrupted(experiment: Experiment) -> NoReturn:
    kept, path = len(experiment.records), experiment.directory.path
    with suppress(OSError):  # the terminal may be gone
        print(
            f"interrupted: {kept} of {len(experiment.planned)} trials are finished and kept in {path}\n"
            f"  go on with: testbed run --resume {path}",
            file=sys.stderr,
        )
    sys.exit(exits.INTERRUPTED)
