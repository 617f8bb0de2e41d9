"""Numbers that ranks print, found in their logs by the regular expressions of a spec.

Whoever writes a log can make a careless expression take for ever. So a process of its own looks for the numbers, which
the kernel ends when it has had its time, and only the ends of long logs and the beginnings of long lines are looked at.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.base.errors import SpecError
from testbed.files import foreign
from testbed.files.foreign import UnfitError

MOST_BYTES = 2**24
"""Of a log, at its end."""
MOST_TOGETHER_BYTES = 2**27
"""Of all logs, which are in memory at once."""
MOST_CPU_S = 10
"""For all logs of a trial; 64 logs of 10,000 lines take 0.2 s."""


def read(logs: Sequence[Path], patterns: Mapping[str, str]) -> dict[str, list[list[float]]]:
    """By the name of a pattern, for each log in order the numbers that it finds, in theirs.

    Raises:
        SpecError: a pattern takes too long.
    """
    if not patterns:
        return {}
    most_bytes = min(MOST_BYTES, MOST_TOGETHER_BYTES // max(1, len(logs)))
    texts = [_text(log, most_bytes) for log in logs]
    asked = json.dumps({"patterns": dict(patterns), "texts": texts})
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("number_finder.py"))],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_bounded,
    )
    if done.returncode != 0:
        raise SpecError(
            f"the patterns of metrics took more than {MOST_CPU_S} s of processor time on these logs",
            fix="make them simpler, without repetitions inside of repetitions, such as loss ([0-9.]+)",
        )
    found: dict[str, list[list[float]]] = json.loads(done.stdout)
    return found


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))


def _text(log: Path, most_bytes: int) -> str:
    try:
        return foreign.read_tail(log, most_bytes, log.parent).decode(errors="replace")
    except (OSError, UnfitError):
        return ""
