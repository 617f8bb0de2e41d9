"""Engine ``local``: worker processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

from testbed.base.errors import UsageError
from testbed.machine import exclusive
from testbed.workloads.process.lifeline import end_with

MOST = 64


class Local:
    """So many workers here, which end with this process; one that dies is replaced. The address is their number."""

    holds_machine = True

    def __init__(self, address: str, trusts_network: bool) -> None:  # noqa: ARG002  # there is no network
        """
        Raises:
            UsageError: it is no number of workers.
        """
        if not (address.isascii() and address.isdigit() and 1 <= int(address) <= MOST):
            raise UsageError(f"--on local://{address}: 1 to {MOST} workers are possible", fix="write --on local://2")
        wait = "waiting for another run, which has this machine to itself"
        exclusive.hold(lambda: print(wait, file=sys.stderr, flush=True))
        self._folder = tempfile.TemporaryDirectory(prefix="testbed-", ignore_cleanup_errors=True)
        self._pools = {f"worker-{number}": self._pool() for number in range(1, int(address) + 1)}

    def workers(self) -> list[str]:
        return list(self._pools)

    def send(self, worker: str, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        try:
            return self._pools[worker].submit(function, *arguments)
        except BrokenProcessPool:
            self._pools[worker] = self._pool()
            return self._pools[worker].submit(function, *arguments)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)
        self._folder.cleanup()
        exclusive.release()

    def _pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, context, partial(_begin, os.getpid(), self._folder.name))


def _begin(parent: int, folder: str) -> None:
    """Tie a worker to this process, and give it a folder for what it needs for a while. A terminal's Ctrl-C reaches it,
    too, and is for this process to act on."""
    signal.signal(signal.SIGINT, lambda *_: None)  # not ignored, for what the worker starts would ignore it, too
    if not end_with(parent):
        os._exit(1)
    tempfile.tempdir = folder
