"""``python -m testbed``, and the command ``testbed``.

Imports of any size are inside :func:`main`, so that Ctrl-C in their midst ends as it does later: quietly, with the exit
code of an interruption. (In the 20 ms before, Python itself starts, and has words of its own for it.)
"""

from __future__ import annotations

import errno
import os
import signal
import sys

from testbed import interrupt
from testbed.exits import INTERRUPTED


def main() -> None:
    """Run the command line."""
    try:
        with interrupt.exit_at_once():
            from testbed.cli import main as command_line
        command_line()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:
        if error.errno != errno.EIO or not interrupt.told():
            raise
        sys.exit(INTERRUPTED)  # a terminal that closes tells us to end, and fails what is written to it
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to do but to end
        _flush()


def _flush() -> None:
    """Write what is left to be written. Where the terminal is gone that fails, and would again at Python's end, which
    changes the exit code; and a display that was cut off may have put something of its own in place of the streams."""
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is None or stream.closed:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
