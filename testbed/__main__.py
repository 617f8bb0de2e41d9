"""``python -m testbed``, and the command ``testbed``.

Imports of any size are inside :func:`main`, so that Ctrl-C in their midst ends as it does later: quietly, with the exit
code of an interruption.
"""

from __future__ import annotations

import signal
import sys

from testbed.exits import INTERRUPTED


def main() -> None:
    """Run the command line."""
    try:
        from testbed.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to do but to end


if __name__ == "__main__":
    main()
