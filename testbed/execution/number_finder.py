"""Finds numbers in texts by regular expressions, from standard input to standard output: JSON, then a line of it for
each expression.

Run by its path (:mod:`testbed.execution.log_numbers`), and imports nothing of ours, so that it starts at once.
"""

import json
import math
import re
import signal
import sys
from collections.abc import Iterator

LONGEST_LINE = 1000
"""Characters of a line that are looked at."""
MOST_NUMBERS = 10_000
"""Of a text, by one expression; the last ones."""


def numbers(pattern: str, text: str) -> list[float]:
    """The first number of each line that the expression finds, in their order."""
    search = re.compile(pattern).search
    found = (search(line[:LONGEST_LINE]) for line in text.splitlines())
    return [value for match in found if match for value in _number(match[1])][-MOST_NUMBERS:]


def _number(text: str | None) -> Iterator[float]:
    """It, if it is one."""
    try:
        value = float(text or "")
    except ValueError:
        return
    if math.isfinite(value):
        yield value


def main() -> None:
    """Read, look, write. An expression that takes too long ends this process, by SIGPROF."""
    asked = json.load(sys.stdin)
    for one in asked["patterns"]:
        signal.setitimer(signal.ITIMER_PROF, asked["most_cpu_s"])
        found = [numbers(one, text) for text in asked["texts"]]
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
