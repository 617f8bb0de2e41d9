"""Finds numbers in texts by regular expressions, from standard input to standard output: JSON, then a line of it for
each expression.

Run by its path (:mod:`testbed.execution.logged`), and imports nothing of ours, so that it starts at once.
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
"""Numbers that one expression finds in a text at most; the last ones are kept."""


def numbers(pattern: str, text: str) -> list[float]:
    """Return the first number of each line in which the expression finds one, in the order of lines."""
    search = re.compile(pattern).search
    found = (search(line[:LONGEST_LINE]) for line in text.splitlines())
    return [value for match in found if match for value in _number(match[1])][-MOST_NUMBERS:]


def _number(text: str | None) -> Iterator[float]:
    """Yield the text as a number if it is finite."""
    try:
        value = float(text or "")
    except ValueError:
        return
    if math.isfinite(value):
        yield value


def main() -> None:
    """Read expressions and texts, look for numbers, and write these. An expression that takes too long ends this
    process, by SIGPROF."""
    asked = json.load(sys.stdin)
    for one in asked["patterns"]:
        signal.setitimer(signal.ITIMER_PROF, asked["most_cpu_s"])
        found = [numbers(one, text) for text in asked["texts"]]
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
