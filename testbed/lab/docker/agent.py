"""Starts a command on another host of the lab, for programs in a container that reach other machines by ssh, as mpirun
does.

Usage: ``python -P -m testbed.lab.docker.agent HOST COMMAND...``

As with ssh, the words of the command are joined and given to a shell. It runs on the other host with this process's
standard input, output and error, and is killed when this process ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from testbed.lab.docker.wire import Wire, WireClosedError

CONTROL = "/run/testbed"
"""Folder in every container with the socket on which the harness listens."""


def main(arguments: Sequence[str]) -> int:
    host, *command = arguments
    line = Wire.connect(CONTROL)
    line.send({"call": host, "command": " ".join(command)}, [0, 1, 2])
    try:
        reply, _ = line.receive()
    except WireClosedError:
        sys.exit("the lab has ended")
    if "error" in reply:
        sys.exit(reply["error"])
    status = int(reply["status"])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
