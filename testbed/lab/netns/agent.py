"""Starts a command on a host of the lab, for programs in the lab that reach other machines by ssh, as mpirun does.

Usage: ``python -m testbed.lab.netns.agent h0=7,h1=8 HOST COMMAND...``

The first argument says which descriptor of the lab's first process holds each node's network namespace. As with ssh,
the words of the command are joined and given to a shell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from testbed.lab.netns import kernel


def main(arguments: Sequence[str]) -> NoReturn:
    namespaces, host, *command = arguments
    number = dict(pair.split("=") for pair in namespaces.split(",")).get(host)
    if number is None:
        sys.exit(f"there is no host {host!r} in this lab")
    kernel.setns(os.open(f"{kernel.OWNER}/{number}", os.O_RDONLY | os.O_CLOEXEC), kernel.CLONE_NEWNET)
    kernel.unshare(kernel.CLONE_NEWUTS)
    kernel.sethostname(host)
    os.execv("/bin/sh", ["sh", "-c", " ".join(command)])


if __name__ == "__main__":
    main(sys.argv[1:])
