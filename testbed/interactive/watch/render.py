"""``python -P -m testbed.interactive.watch.render report|last RUN NICENESS``: one page of a run, on standard output.

In a process of its own that leaves the cores to others, that can be ended at any moment, and that gives all of its
memory back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from testbed.base.errors import TestbedError
from testbed.base.exits import code_for


def report(run: Path) -> str:
    """The page of ``testbed report``.

    Raises:
        OutputError: a file of the run is damaged.
    """
    from analysis.report import text

    return text([run])


def last(run: Path) -> str:
    """The same page of the trial alone that began last: its Gantt chart is what every worker did.

    Raises:
        OutputError: a file of the run is damaged.
    """
    from analysis.load import load, read_samples
    from analysis.report import page
    from analysis.report.points import apart
    from topologies.load import no_code

    with no_code("a report", "testbed topo and testbed forest draw what files make"):
        whole = load(run, samples=False)
        if not whole.trials:
            return page.render(whole)
        trial = max(whole.trials, key=lambda one: one.started)
        needed = trial.done and trial.kind.writes_samples
        trial = replace(trial, samples=read_samples(run, trial.id, needed, trial.warmup))
        arms = [arm for arm in whole.resolved.get("arms") or () if arm.get("label") == trial.label]
        alone = replace(
            whole,
            trials=(trial,),
            labels=(trial.label,),
            planned=1,
            resolved=whole.resolved | {"arms": arms},
        )
        return page.render(apart(alone))


PAGES: Mapping[str, Callable[[Path], str]] = {"report": report, "last": last}


def yield_cores(niceness: int) -> None:
    """Have others go before this process, which leads a session of its own."""
    os.nice(niceness)
    with suppress(OSError):  # where sessions share the cores, that of the session counts (sched(7), autogroup)
        Path("/proc/self/autogroup").write_text(str(niceness))


def main() -> None:
    """Write the page, or say why there is none."""
    what, run, niceness = sys.argv[1:]
    yield_cores(int(niceness))
    try:
        page = PAGES[what](Path(run))
    except TestbedError as error:
        print(error, file=sys.stderr)
        sys.exit(code_for(error))
    sys.stdout.buffer.write(page.encode())


if __name__ == "__main__":
    main()
