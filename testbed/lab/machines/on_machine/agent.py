"""The process that stays on a machine while a lab is up: owns the nodes that are there.

Usage: ``python -P -m testbed.lab.machines.on_machine.agent WORK OWNER`` with JSON lines on standard input and output

It speaks as the agent of a host does (:mod:`testbed.lab.baremetal.on_hosts.agent`), and has root's rights: it makes
namespaces. Workers are in enclosures, as in the lab ``netns``. When standard input ends, or the agent does, in whatever
way, the kernel ends every process of the lab, and frees all namespaces and tunnels.
"""

from __future__ import annotations

import selectors
import sys
from typing import NoReturn

from testbed.lab.baremetal.on_hosts.agent import Agent, begin, run
from testbed.lab.machines.on_machine.processes import ShareProcesses
from testbed.lab.machines.on_machine.requests import REQUESTS, MachineRequests


def main(work: str, owner: str) -> NoReturn:
    """Serve until the controller is gone."""
    selector = selectors.DefaultSelector()
    processes = ShareProcesses(begin(work, owner), selector)

    def close() -> None:
        if processes.lab is not None:
            processes.lab.close()

    run(Agent(MachineRequests(processes, selector), REQUESTS), close)


if __name__ == "__main__":
    main(*sys.argv[1:])
