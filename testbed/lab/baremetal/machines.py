"""The machines of an inventory while a lab is open: looked at and shaped by playbooks, and the connections to their
agents."""

from __future__ import annotations

import getpass
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.base.errors import LabError
from testbed.lab.baremetal.controller import answers
from testbed.lab.baremetal.controller.answers import HOSTS, AgentKind, Event
from testbed.lab.baremetal.controller.connection import Connection, Lost, end_shared, ssh
from testbed.lab.baremetal.on_hosts.host_requests import HostRequests
from testbed.lab.baremetal.preparing import inventory as inventories
from testbed.lab.baremetal.preparing.hosts import bundle
from testbed.lab.baremetal.preparing.inventory import Host
from testbed.lab.baremetal.preparing.playbook import Tell, play

LOOK = "Look at the host"


class Machines:
    """Machines of an inventory that can be reached.

    Args:
        on_event: as of :class:`Connection`.
        allow_missing: leave out hosts that cannot be reached, rather than refuse.
        agent: the kind that runs on each.

    Attributes:
        inventory: without those that are left out.
        facts: what each is like, by name.
        owner: what marks on a host that it is ours.
        token: which tells us from other owners in the names of folders.

    Raises:
        SpecError: the inventory makes no sense.
        HostError: a host cannot be used, is not prepared, or cannot be reached.
        MissingToolError: Ansible or its playbooks are not installed.
    """

    def __init__(
        self,
        inventory: Path,
        tell: Tell,
        on_event: Callable[[Connection, Event | Lost], None],
        *,
        allow_missing: bool,
        agent: AgentKind = HOSTS,
    ) -> None:
        self._agent = agent
        self.inventory = inventories.load(inventory)
        self._tell, self._on_event = tell, on_event
        self.token = secrets.token_hex(4)
        self.owner = f"{getpass.getuser()}@{socket.gethostname()}, process {os.getpid()}, {self.token}"
        self._control = Path(tempfile.mkdtemp(prefix="tb-"))  # short: a unix socket's path has 108 characters at most
        self._connections: dict[str, Connection] = {}
        try:
            self._digest, _ = bundle(self._control)
            self.facts = self._look(allow_missing)
        except BaseException:
            self.close()
            raise

    def _look(self, allow_missing: bool) -> dict[str, Any]:
        """Gather the facts of the hosts by a playbook; leave out those that cannot be reached, if that is allowed."""
        found = play("run", self.inventory, {"testbed_digest": self._digest}, self._control, self._tell)
        found.require([host.name for host in self.inventory.hosts], allow_missing=allow_missing)
        for name, why in found.unreachable.items():
            self._tell(f"run: {name} is left out: {answers.plain(why.strip())}")
        self.inventory = self.inventory.without(list(found.unreachable))
        facts = {}
        for host in self.inventory.hosts:
            with answers.named(host.name):
                said = found.answers[host.name].get(LOOK, {})
                facts[host.name] = answers.facts(said, [nic.name for nic in host.nics])
        return facts

    def macs(self) -> dict[str, dict[str, str]]:
        """MAC address of each NIC, by host and NIC."""
        return {name: {nic: one["mac"] for nic, one in fact["nics"].items()} for name, fact in self.facts.items()}

    def shape(self, plans: Mapping[str, Any]) -> None:
        """Have the playbook shape hosts, each by its plan (:func:`testbed.lab.baremetal.nics.readback.Wanted`).
        Raises HostError: it could not."""
        variables = {"testbed_digest": self._digest, "testbed_plans": plans}
        play("shape", self.inventory, variables, self._control, self._tell, limit=list(plans)).require(list(plans))

    def connect(self, host: Host) -> Connection:
        """Return the connection to a host's agent, which is begun if there is none."""
        known = self._connections.get(host.name)
        if known is not None and known.lost is None:
            return known
        if known is not None:
            known.close()
        work, code = f"{host.home}/work/{self.token}", f"{host.home}/code-{self._digest}"
        arguments = (work, self.owner)
        made = Connection(host, code, self._agent, arguments, self._control, self._on_event)
        self._connections[host.name] = made
        return made

    def ssh(self, host: Host) -> list[str]:
        """The command that reaches a host."""
        return ssh(host, self._control)

    def undo(self) -> None:
        """Have all agents undo the shaping. Raises LabError: one could not."""
        problems = []
        for connection in self._connections.values():
            if connection.lost is None:
                try:
                    connection.ask(HostRequests.undo())
                except LabError as error:
                    problems.append(error)
        if problems:
            raise problems[0]

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        if self._control.exists():
            end_shared(self.inventory.hosts, self._control)
            shutil.rmtree(self._control, ignore_errors=True)


class Attached:
    """A command on a host; see :class:`testbed.lab.programs.Command`."""

    def __init__(self, ssh: Sequence[str], command: Sequence[str], files: tuple[int, int, int]) -> None:
        program, *options = ssh
        terminal = ["-tt"] if os.isatty(files[0]) else ["-T"]
        self._process = subprocess.Popen(
            [program, *terminal, "-q", *options, shlex.join(command)],
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
            start_new_session=True,
        )
        self._pidfd = os.pidfd_open(self._process.pid)

    def signal(self, number: int) -> object:
        """Send a signal to ssh, with which the command ends."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        return None

    def fileno(self) -> int:
        """File descriptor that is readable when the command has ended."""
        return self._pidfd

    def wait(self) -> int:
        """Wait for the end; the exit status, or minus the signal that ended it."""
        status = self._process.wait()
        os.close(self._pidfd)
        return status
