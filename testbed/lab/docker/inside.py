"""A container's first process: starts and reaps everything that runs on its host, as the harness asks.

Usage: ``python -P -m testbed.lab.docker.inside SOCKET NODE``, or without arguments to say which testbed this is

It is the container's init. It lends the harness the container's network namespace, and ends when the harness does,
however that ends: the kernel closes the connection, and what ends with a container's first process is the container,
which Docker then removes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from testbed.lab.docker import wire
from testbed.lab.docker.wire import Wire, WireClosedError
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.on_nodes.processes import Place, Processes, by_stream, child_ends, is_stopped, run_program
from testbed.lab.programs import Launch, Program
from testbed.lab.requests import Requests, request
from testbed.machine.cgroups import limits
from testbed.workloads import job

OWN_NAMESPACE = "/proc/self/ns/net"


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print(json.dumps(about()))
        return 0
    path, node = arguments
    # Programs find the image's own Python first, whatever PATH the image has.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the kernel keeps from a container's first process, as others
    kernel.hide_from_peers()  # programs here are of the same user, and could speak for the container
    line = Wire.connect(path)
    namespace = os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    here = limits()
    line.send({"arrived": node, **about(), "cpus": here.quota_cores, "memory_bytes": here.memory_bytes}, [namespace])
    os.close(namespace)
    try:
        return Inside(line, node).serve()
    except WireClosedError:
        return 0


def about() -> dict[str, Any]:
    """Describe this Python, and the versions that the testbed beside it understands."""
    return {"python": sys.executable, "wire": wire.VERSION, "job": job.VERSION}


class Inside:
    """Requests that the harness can send (:data:`REQUESTS`), and the loop that answers them."""

    def __init__(self, line: Wire, node: str) -> None:
        self._line = line
        self._place = Place(node, None)
        self._processes = Processes()
        self._wake = child_ends()

    def serve(self) -> NoReturn:
        """Answer requests and reap children. Raises WireClosedError when the harness is gone."""
        line, wake = self._line.fileno(), self._wake.fileno()
        while True:
            ready, _, _ = select.select([line, wake], [], [])
            if wake in ready:
                self._wake.recv(4096)
                self._processes.reap()
            if line in ready:
                (name, *arguments), files = self._line.receive()
                self._line.send(self._answer(name, arguments, files))

    def _answer(self, name: str, arguments: list[Any], files: list[int]) -> dict[str, Any]:
        try:
            return {"result": REQUESTS.find(self, name, arguments, files=files)()}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    @request
    def run(self, words: Sequence[str], environment: Mapping[str, str], folder: str, files: Sequence[int]) -> int:
        """Start a program, and return its PID here; files: standard input, output, error, and the stream for its
        status."""
        launch = Launch("", 0, "", "", Program(tuple(words), environment, folder))
        return self._processes.call(self._place, lambda: run_program(launch), files[:3], by_stream(files[3]))

    @request
    def signal(self, pid: int, number: int) -> None:
        """Signal a program and its children."""
        self._processes.signal(pid, number)

    @request
    def signal_all(self, number: int) -> None:
        """Signal everything that was started here."""
        self._processes.signal_node(self._place.name, number)

    @request
    def end_all(self) -> None:
        """End everything that runs here, and tell whoever waits for it."""
        self._processes.kill_all()

    @request
    def stopped(self, pids: Sequence[int]) -> list[int]:
        """PIDs of those of some programs that do not run."""
        self._processes.reap()
        return [pid for pid in pids if Path(f"/proc/{pid}").exists() and is_stopped(pid)]


REQUESTS = Requests(Inside)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
