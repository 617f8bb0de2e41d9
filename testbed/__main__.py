"""``python -P -m testbed``, and the command ``testbed``.

Imports of any size are inside :func:`main`, so that Ctrl-C in their midst ends as it does later, with the exit code of
an interruption. (In the 20 ms before, Python itself starts, and has words of its own for it.)
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TextIO

from testbed.base import address_space, interrupt
from testbed.base.errors import MemoryLimitError, OutputError
from testbed.base.exits import INTERRUPTED, code_for
from testbed.base.streams import guard


def main() -> None:
    """Run the command line."""
    streams = guard()
    try:
        interrupt.raise_once([signal.SIGINT])
        address_space.check()
        with interrupt.exit_at_once():
            from testbed.cli import main as command_line
        interrupt.tell_of_termination()
        command_line()
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except MemoryLimitError as error:  # before there is a command line that would tell it
        print(f"error: {error}", file=sys.stderr)
        sys.exit(code_for(error))
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to do but to end
        _flush(*streams)


def _flush(*streams: TextIO) -> None:
    """Write what is left to be written. Where that fails, it is known by now, and at Python's end would change the exit
    code; and a display that was cut off may have put something of its own in place of the streams."""
    sys.stdout, sys.stderr = streams
    with suppress(OSError, OutputError):
        print(end="", flush=True)


if __name__ == "__main__":
    main()
