"""The archive's page for people."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from testbed.analysis.comparing.measured import RERUN
from testbed.base.printable import NOT_ON_A_LINE, printable
from testbed.base.units import time_text
from testbed.comparison.archive.facts import OUT, Facts, is_compared, is_simulated
from testbed.comparison.archive.named_files import RUN

WIDTH = 80
"""An option that begins after so many characters of a command begins a line."""
PAGE = """\
# {name}: a run of testbed

{trials}. {unfinished}[`report.html`](report.html) shows {shows}.

| file | what it is |
|---|---|
| `report.html` | the report; one page that needs no network |
{kept}
| `{spec}` | the experiment, beside the files that it names or its script imports |
| `requirements.txt` | the versions of Python packages |
| `ro-crate-metadata.json` | the same list for programs (RO-Crate 1.1) |

{ran} {machine} with testbed {version}{commit}.

## Look at it again

```sh
testbed report run --out report-again.html    # writes the report of the records
```

## Run it again and compare

Install that version of testbed as its README says. Read the files in `spec/` first: a spec runs the command and the
Python files that it names. Then, in this folder:

{fence}sh
{command}
{fence}

{lacking}The trials of this run took {took}. {compared}
"""
KEPT = {
    "trials/": "a record of each trial",
    "samples/": "tables: a row for each worker and iteration",
    "queues/": "tables: what waited at the links, a row for each link and window of time",
    "transfers/": "tables: a row for each transfer that was planned",
    "collectives/": "tables: a row for each collective and rank of a script",
    "results.csv": "a table with a row for each trial",
    "spec.yaml": "the spec as it was run",
    "resolved.json": "the spec with all defaults",
    "env.json": "the machine",
    "comparison.": "the comparison with a baseline that the run ended with",
    f"{RERUN}/": "what was measured again for that comparison; its files are called as in `run/`",
}
"""Meaning of what an archive has of a run, by the beginning of a name in its directory."""
SHOWS, SHOWS_SIMULATED = "what was measured", "what was simulated"
COMPARED = """\
The command compares each arm with this run. `--allow` lets it compare
although machines differ, and it says what differs. On the same machine, leave these options out. Exit code 3 means
that something is slower, and 4 that nothing can be said."""
SIDE_BY_SIDE = f"""\
{{why}}
`testbed report {RUN} {OUT} --out both.html` writes a report of both runs side by side."""
SIMULATED = "Simulated numbers depend on no machine, and are not compared:"
NONE_VALID = "No trial of this run is VALID, and only VALID ones are compared:"
LACKING = """\
It needs these files besides, which are not in the archive:

{files}

"""
FEW = """
A comparison needs at least {needed} repeats to decide, and this run has {repeats}: it shows ratios, and calls them
inconclusive."""


def page(facts: Facts, kept: Sequence[str]) -> str:
    """Write the page in Markdown; ``kept`` are the names of the run's files in the archive. What the run says of itself
    may be a stranger's: it is made printable, and stays on its line."""
    run = facts.run
    git: dict[str, Any] = run.environment.get("git") or {}
    simulated, command = is_simulated(run), _folded(facts.again)
    told = PAGE.format(
        name=facts.name,
        trials=facts.trials_text,
        unfinished="" if facts.is_whole else "**The run was not finished.** ",
        kept=_kept(kept),
        spec=facts.spec_name,
        machine=_machine(run.environment),
        version=_line((run.environment.get("packages") or {}).get("testbed", "of an unknown version")),
        commit=_line(f" (commit {git.get('commit')}{', changed' if git.get('dirty') else ''})" if git else ""),
        command=command,
        fence=_fence(command),
        lacking=_lacking(facts),
        took=time_text(facts.took_s),
        shows=SHOWS_SIMULATED if simulated else SHOWS,
        ran="Time was simulated on" if simulated else "It was measured on",
        compared=(
            COMPARED + _few(facts)
            if is_compared(facts.run)
            else SIDE_BY_SIDE.format(why=SIMULATED if simulated else NONE_VALID)
        ),
    )
    return printable(told)


def _kept(names: Sequence[str]) -> str:
    """Write a row for each kind of file that there is."""
    there = {start: [name for name in names if name.startswith(f"{RUN}/{start}")] for start in KEPT}
    files = {
        start: f"`{RUN}/{start}`" if start.endswith("/") else ", ".join(f"`{name}`" for name in own)
        for start, own in there.items()
        if own
    }
    return "\n".join(f"| {told} | {KEPT[start]} |" for start, told in files.items())


def _machine(environment: dict[str, Any]) -> str:
    if environment.get("parts"):
        return "several machines (`run/env.json`)"
    cpu = environment.get("cpu") or {}
    return _line(f"{cpu.get('cores')} cores of {cpu.get('model')}, Linux {environment.get('kernel')}")


def _lacking(facts: Facts) -> str:
    files = "\n".join(_line(f"- `{name}`: {why}") for name, why in facts.lacking.items())
    return LACKING.format(files=files) if files else ""


def _few(facts: Facts) -> str:
    needed, repeats = facts.needed_repeats, facts.repeats
    return FEW.format(needed=needed, repeats=repeats) if repeats < needed else ""


def _folded(words: Sequence[str]) -> str:
    """A command of several lines, each of which begins with an option."""
    lines = [""]
    for word in words:
        fits = len(lines[-1]) + len(shlex.quote(word)) < WIDTH
        if word.startswith("--") and not fits:
            lines.append("   ")
        lines[-1] += f" {shlex.quote(word)}"
    return " \\\n".join(lines).strip()


def _line(text: object) -> str:
    return NOT_ON_A_LINE.sub(" ", str(text))


def _fence(code: str) -> str:
    """Ticks around a block that has no such line."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall("`+", code)), default=0))
