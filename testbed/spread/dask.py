"""Engine ``dask``: the workers of a Dask scheduler, however that was started. The address is ``HOST:PORT``, or
``tls://HOST:PORT`` with the certificates of Dask's own configuration.

Everybody who reaches a Dask scheduler can run code on its workers, so one without TLS beyond loopback has
to be trusted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from testbed.base.errors import HostError, MissingToolError, UsageError
from testbed.base.extras import install

RESOURCE = "testbed"
ANSWER_S = 10


class Dask:
    """The workers of a scheduler that have the resource ``testbed``, by their names, or by their addresses."""

    holds_machine = False

    def __init__(self, address: str, trusts_network: bool) -> None:
        """
        Raises:
            MissingToolError: Dask is not installed.
            UsageError: the network is not to be trusted.
            HostError: no scheduler answers.
        """
        where = address if "://" in address else f"tcp://{address}"
        if not re.fullmatch(r"\w+://[^/]+:\d{1,5}", where):
            raise UsageError(f"--on dask://{address}: is not HOST:PORT", fix="write --on dask://HOST:8786")
        if not (trusts_network or where.startswith("tls://") or _is_loopback(where)):
            problem = (
                f"--on dask://{address}: whoever reaches that scheduler runs code on its workers, and it has no TLS"
            )
            raise UsageError(problem, fix="use tls://HOST:PORT; or --trust-network, where only you reach it")
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingToolError(f"--on dask://{address} needs Dask: {error}", fix=install("dask")) from None
        try:
            self._client = Client(where, timeout=ANSWER_S, set_as_default=False)
        except (OSError, ValueError) as error:
            problem = f"--on dask://{address}: no scheduler answers there within {ANSWER_S} s"
            raise HostError(problem, fix=f"start one: dask scheduler ({str(error)[:100]})") from None
        try:
            if self._known() and not self.workers():
                problem = f"no worker of dask://{address} has the resource {RESOURCE}, of which a block takes 1"
                raise HostError(problem, fix=f'start them so: dask worker SCHEDULER --resources "{RESOURCE}=1"')
        except BaseException:
            self._client.close()
            raise

    def _known(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return found

    def workers(self) -> list[str]:
        known = [
            (address, about) for address, about in self._known().items() if about["resources"].get(RESOURCE, 0) >= 1
        ]
        return [about["name"] if isinstance(about["name"], str) else address for address, about in known]

    def send(self, worker: str, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        only = {"workers": [worker], "allow_other_workers": False, "resources": {RESOURCE: 1}, "retries": 0}
        sent: Future[Any] = self._client.get_executor(pure=False, **only).submit(function, *arguments)
        return sent

    def close(self) -> None:
        self._client.close()


def _is_loopback(where: str) -> bool:
    host = where.partition("://")[2].rpartition(":")[0].strip("[]")
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
