"""The text of a run's ``spec.yaml``: that of the spec, below a comment that repeats what ``--set`` changed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

FIRST = "# The run was made with changes to the spec below. To repeat it with a copy of this file:\n"
_LAST = "\n\n"
_BEGIN = "#   "


def with_changes(text: str, overrides: Sequence[str]) -> str:
    """Put a spec's text below its changes; an earlier comment of that kind, of the run it was copied from, goes."""
    text = without_changes(text)
    if not overrides:
        return text
    command = shlex.join(["testbed", "run", "spec.yaml", *(word for one in overrides for word in ("--set", one))])
    # Every character at which YAML may begin a line ends a line here, so that nothing of a value is read as a key.
    return FIRST + _BEGIN + f"\n{_BEGIN}".join(command.splitlines()) + _LAST + text


def without_changes(text: str) -> str:
    """Remove the comment: the spec's own text."""
    return text.partition(_LAST)[2] if text.startswith(FIRST) else text
