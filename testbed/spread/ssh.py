"""Engine ``ssh``: a worker on each host of an Ansible inventory, which is the address. The host variable
``testbed_python`` is the Python that has testbed there; without it, it is where this one is.

The scheduler is in this process. Schedulers and workers listen on loopback alone, and all that they send goes through
SSH. Workers run as the user who logs in.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from testbed.base.errors import HostError, MissingToolError
from testbed.base.extras import install
from testbed.files.foreign import read_tail
from testbed.lab.baremetal.controller.connection import ssh
from testbed.lab.baremetal.preparing.inventory import Host, to_log_in
from testbed.spread.dask import RESOURCE, Dask

LOOPBACK = "127.0.0.1"
START_S = 120.0
"""Seconds for a host to start its worker."""
END_S = 10.0
PYTHON = "testbed_python"
MOST_READ_BYTES, MOST_SAID = 20_000, 500
TRIES = 5
TAKEN = "Address already in use", "remote port forwarding failed"
"""Words of ssh, or of a worker, for a port that somebody took meanwhile, here or there."""


class Ssh(Dask):
    """Workers on hosts, by the hosts' names."""

    def __init__(self, address: str, trusts_network: bool) -> None:  # noqa: ARG002  # nothing is sent but through SSH
        """
        Raises:
            MissingToolError: Dask, Ansible or ssh is not installed.
            SpecError: the inventory makes no sense.
            HostError: a host does not start a worker.
        """
        try:
            from distributed import LocalCluster
        except ImportError as error:
            raise MissingToolError(f"--on ssh://{address} needs Dask: {error}", fix=install("dask")) from None
        hosts = to_log_in(Path(address))
        with ExitStack() as opened:
            self._folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="testbed-")))
            self._processes: dict[str, subprocess.Popen[bytes]] = {}
            opened.callback(self._end)
            cluster = LocalCluster(n_workers=0, host=LOOPBACK, dashboard_address=None)
            opened.callback(cluster.close)  # ends all workers
            self._here = cluster.scheduler_address.rpartition("//")[2]
            for host in hosts:
                self._processes[host.name] = self._begun(host)
            super().__init__(self._here, trusts_network=False)
            opened.callback(self._client.close)
            self._wait(address, hosts)
            self._opened = opened.pop_all()

    def close(self) -> None:
        self._opened.close()

    def _begun(self, host: Host) -> subprocess.Popen[bytes]:
        """Start a host's worker. It reaches the scheduler by a port there, and is reached by a port here."""
        scheduler, worker, contact = free_ports(3)
        python = str(host.variables.get(PYTHON) or sys.executable)
        words = [python, "-P", "-m", "distributed.cli.dask_worker", f"tcp://{LOOPBACK}:{scheduler}"]
        words += ["--name", host.name, "--nthreads", "1", "--resources", f"{RESOURCE}=1", "--no-dashboard"]
        words += ["--listen-address", f"tcp://{LOOPBACK}:{worker}", "--death-timeout", f"{START_S:g}"]
        words += ["--contact-address", f"tcp://{LOOPBACK}:{contact}"]
        program, *options = ssh(host, self._folder)
        own = ["-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes"]  # ports belong to a connection of their own
        ports = ["-R", f"{LOOPBACK}:{scheduler}:{self._here}", "-L", f"{LOOPBACK}:{contact}:{LOOPBACK}:{worker}"]
        with self._log(host.name).open("wb") as log:
            return subprocess.Popen(
                [program, *own, *ports, *options, shlex.join(words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a terminal's Ctrl-C is for this process to act on
            )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _wait(self, address: str, hosts: Sequence[Host]) -> None:
        """Wait for all workers. One of which a port was taken begins again with others.

        Raises:
            HostError: one does not come.
        """
        end_s = time.monotonic() + START_S
        by_name, tries = {host.name: host for host in hosts}, Counter[str]()
        while lacking := self._processes.keys() - self.workers():
            for name in sorted(lacking):
                ended = self._processes[name].poll() is not None
                if not ended and time.monotonic() <= end_s:
                    continue
                said = read_tail(self._log(name), MOST_READ_BYTES).decode(errors="replace").strip()
                if ended and any(words in said for words in TAKEN) and tries[name] < TRIES:
                    tries[name] += 1
                    self._processes[name] = self._begun(by_name[name])
                else:
                    why = said[-MOST_SAID:] or f"nothing was said within {START_S:g} s"
                    fix = f"see that ssh reaches it, and that {PYTHON} in the inventory is a Python with testbed[dask]"
                    raise HostError(f"--on ssh://{address}: {name} starts no worker: {why}", fix=fix)
            time.sleep(0.1)

    def _end(self) -> None:
        """End the connections, once the workers have had time to end."""
        end_s = time.monotonic() + END_S
        for process in self._processes.values():
            while process.poll() is None and time.monotonic() < end_s:
                time.sleep(0.05)
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has here now, and most likely nobody there."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]
