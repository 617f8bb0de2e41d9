"""Starts a command on a host of the lab, for programs in the lab that reach other machines by ssh, as mpirun does.

Usage: ``python -P -m testbed.lab.netns.on_nodes.agent HOST COMMAND...``

As with ssh, the words of the command are joined and given to a shell. It runs on the other host with this process's
standard input, output and error.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence

from testbed.lab.netns.on_nodes.enclosure import AGENT
from testbed.lab.netns.on_nodes.processes import STATUS

MOST_SAID_BYTES = 4096


def main(arguments: Sequence[str]) -> int:
    host, *command = arguments
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(AGENT)
        socket.send_fds(line, [json.dumps([host, " ".join(command)]).encode()], [0, 1, 2])
        said = line.recv(MOST_SAID_BYTES)
    if len(said) != STATUS.size:
        sys.exit(said.decode(errors="replace") or "the lab has ended")
    status, _ = STATUS.unpack(said)
    return int(status) if status >= 0 else 128 - int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
