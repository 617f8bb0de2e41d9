"""The page of exit codes, from ``testbed/base/exits.py``."""

from __future__ import annotations

from docs.generate.markdown import table
from testbed.base import exits
from testbed.base.docstrings import code

MEANINGS = {
    exits.OK: "All is well.",
    exits.TRIAL_FAILED: "A trial failed, or a file changed or could not be written while a run went on.",
    exits.BAD_SPEC_OR_USAGE: "The spec or the command line makes no sense, or something is not installed. "
    "Nothing was run.",
    exits.REGRESSION: "A gate found that something is slower than the baseline, or that more trials failed.",
    exits.UNDECIDED: "A gate could compare nothing, or it is inconclusive; no claim of a paper could be decided.",
    exits.INTERRUPTED: "Ctrl-C, `kill`, or a closed terminal. Finished trials are kept; `--resume` goes on.",
}


def page() -> str:
    names = {value: name for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    rows = [(str(value), MEANINGS[value], code(names[value])) for value in sorted(names)]
    return (
        "# Exit codes\n\n"
        + table(("code", "meaning", "in `testbed/base/exits.py`"), rows)
        + "\nIf a regression was found, the exit code is 3 even if a trial failed as well. "
        "With `--json`, an error is JSON on standard output, too.\n"
    )
