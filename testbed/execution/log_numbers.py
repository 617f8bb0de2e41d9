"""Numbers that ranks print, found in their logs by the regular expressions of a spec.

Whoever writes a log can make a careless expression take for ever. So a process of its own looks for the numbers, which
the kernel ends when an expression has had its time, and only the ends of long logs and the beginnings of long lines are
looked at. The trial keeps what was measured: an expression that is ended has no numbers, and the others have theirs.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.base.errors import TrialError
from testbed.control.endings import ending
from testbed.files import foreign
from testbed.files.foreign import UnfitError

MOST_BYTES = 2**24
"""Bytes at the end of a log that are searched."""
MOST_TOGETHER_BYTES = 2**27
"""Bytes of all logs that are searched, which are in memory at once."""
MOST_CPU_S = 10.0
"""Processor seconds for one pattern in all logs of a trial; 64 logs of 10,000 lines take 0.2 s."""


@dataclass
class Found:
    """Numbers that patterns found in logs.

    Attributes:
        numbers: by the name of a pattern, a list for each log, in the order of logs, of its numbers in their order.
        slow: the names of patterns that took too long; they have no numbers.
    """

    numbers: dict[str, list[list[float]]] = field(default_factory=dict)
    slow: list[str] = field(default_factory=list)


def read(logs: Sequence[Path], patterns: Mapping[str, str]) -> Found:
    """
    Raises:
        TrialError: the process that looks for numbers ended by itself.
    """
    found, left = Found(), dict(patterns)
    most_bytes = min(MOST_BYTES, MOST_TOGETHER_BYTES // max(1, len(logs)))
    texts = [_text(log, most_bytes) for log in logs] if left else []
    while left:
        asked = {"patterns": list(left.values()), "texts": texts, "most_cpu_s": MOST_CPU_S}
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("number_finder.py"))],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            name = next(iter(left))
            found.numbers[name] = json.loads(line)
            del left[name]
        if done.returncode == -signal.SIGPROF:
            slow = next(iter(left))
            found.slow.append(slow)
            del left[slow]
        elif done.returncode:
            last = "".join(done.stderr.splitlines()[-1:])
            raise TrialError(
                f"the search for metrics in logs {ending(done.returncode)}: {last[:500]}",
                fix="see whether memory ran out; then run the trial again, or take fewer metrics",
            )
    return found


def _text(log: Path, most_bytes: int) -> str:
    try:
        return foreign.read_tail(log, most_bytes, log.parent).decode(errors="replace")
    except (OSError, UnfitError):
        return ""
