"""``python -P -m testbed.interactive.watch.render report|last RUN NICENESS``: one page of a run, on standard output.

In a process of its own that leaves the cores to others, that can be ended at any moment, and that gives all of its
memory back. It takes no more memory and processor time than it is allowed, whatever the run's files say.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from testbed.base import address_space
from testbed.base.errors import TestbedError
from testbed.base.exits import code_for


def report(run: Path) -> str:
    """Make the page of ``testbed report``.

    Raises:
        OutputError: a file of the run is damaged.
    """
    from testbed.analysis.report import text

    return text([run])


def last(run: Path) -> str:
    """Make the page of ``testbed report`` for that trial alone that began last: its Gantt chart is what every worker
    did.

    Raises:
        OutputError: a file of the run is damaged.
    """
    from testbed.analysis.load import load, read_samples
    from testbed.analysis.report import page
    from testbed.analysis.report.points import apart
    from testbed.topologies.load import no_code

    with no_code("a report", "testbed topo and testbed forest draw what files make"):
        whole = load(run, samples=False)
        if not whole.trials:
            return page.render(whole)
        trial = max(whole.trials, key=lambda one: one.started)
        needed = trial.done and trial.has_iterations
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


MOST_BYTES = 8 * 2**30
"""The most bytes of address space. pyarrow reserves several times what it uses: 500 trials of nine workers took 1.2
GiB."""
MOST_S = 120
"""The most seconds of processor time: 480 trials take 2.2 s."""
PAGES: Mapping[str, Callable[[Path], str]] = {"report": report, "last": last}


def yield_cores(niceness: int) -> None:
    """Have others go before this process, which leads a session of its own."""
    os.nice(niceness)
    with suppress(OSError):  # where sessions share the cores, that of the session counts (sched(7), autogroup)
        Path("/proc/self/autogroup").write_text(str(niceness))


def limit(most_bytes: int, most_s: int) -> None:
    """Have the kernel refuse this process more memory, and end it after so much processor time."""
    _, hard_bytes = resource.getrlimit(resource.RLIMIT_AS)
    most_bytes = most_bytes if hard_bytes == resource.RLIM_INFINITY else min(most_bytes, hard_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, hard_bytes))
    signal.signal(signal.SIGXCPU, _out_of_time)
    resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s + 5))


def _out_of_time(*_: object) -> None:
    os.write(2, _beyond(f"{MOST_S} s of processor time").encode() + b"\n")
    os._exit(1)


def _beyond(limit: str) -> str:
    return f"making the page took more than {limit}; was the run's directory damaged?"


def main() -> None:
    """Write the page, or say why there is none."""
    what, run, niceness = sys.argv[1:]
    yield_cores(int(niceness))
    limit(MOST_BYTES, MOST_S)
    try:
        page = PAGES[what](Path(run))
    except TestbedError as error:
        print(error, file=sys.stderr)
        sys.exit(code_for(error))
    except Exception as error:
        if not address_space.is_lack(error):
            raise
        sys.exit(_beyond(f"{MOST_BYTES / 2**30:g} GiB of memory"))
    sys.stdout.buffer.write(page.encode())


if __name__ == "__main__":
    main()
