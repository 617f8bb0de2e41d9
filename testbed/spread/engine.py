"""Engines: programs that reach machines. They are entry points of the group ``testbed.engines``, by their names before
``://``; testbed has ``local``, ``dask`` and ``ssh``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from typing import Any, Protocol, cast

from testbed.base.errors import UsageError
from testbed.base.plugins import with_plugged

WRITTEN = "write --on local://2, dask://HOST:PORT or ssh://INVENTORY"


class Engine(Protocol):
    """Workers, each a process on a machine, to which functions of testbed's are sent.

    A task is a future: :func:`concurrent.futures.wait` waits for any, and it can be cancelled. A task that raises an
    error, or whose worker is not there any more, is lost.
    """

    holds_machine: bool
    """Whether its workers are all on this machine, which it has taken for them (:mod:`testbed.machine.exclusive`)."""

    def workers(self) -> list[str]:
        """Names of the workers that are there."""

    def send(self, worker: str, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        """Have a worker call a function of testbed's."""

    def close(self) -> None:
        """Let the workers go, and end those that it has started."""


Opener = Callable[[str, bool], Engine]
"""Opens an engine at an address, what follows ``://``; the second argument says whether the network is trusted.

Raises:
    UsageError, HostError, MissingToolError: it cannot be had.
"""
_BUILT_IN = {"local": ("local", "Local"), "dask": ("dask", "Dask"), "ssh": ("ssh", "Ssh")}


def opened(text: str, trusts_network: bool) -> Engine:
    """Open the engine that ``--on`` names.

    Raises:
        UsageError: there is none of that name, or as :data:`Opener`.
    """
    name, mark, address = text.partition("://")
    known = with_plugged("engines", dict.fromkeys(_BUILT_IN))
    if not mark or name not in known:
        raise UsageError(f"--on {text}: no such engine; there are {', '.join(known)}", fix=WRITTEN)
    if not address:
        raise UsageError(f"--on {text}: has no address", fix=WRITTEN)
    if name not in _BUILT_IN:
        return cast(Opener, known[name])(address, trusts_network)
    module, function = _BUILT_IN[name]
    return cast(Opener, getattr(import_module(f"testbed.spread.{module}"), function))(address, trusts_network)
