"""A run that goes on, or has ended, in a browser: what ``testbed watch`` does."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path

from testbed.base.errors import MissingToolError
from testbed.interactive.watch.looking import check_run, look

PACKAGE = "tornado"


def watch(run: Path, port: int | None, ready: Callable[[str, str], object]) -> None:
    """Serve a run's report on loopback until KeyboardInterrupt, and make it anew as trials end.

    Args:
        port: None takes a free one.
        ready: is told what goes on and the address, once it answers.

    Raises:
        OutputError: it is no run directory.
        MissingToolError: the server's package is not installed.
        UsageError: the port cannot be had.
    """
    check_run(run)
    if importlib.util.find_spec(PACKAGE) is None:
        raise MissingToolError(f"the Python package {PACKAGE} is not installed", fix='pip install "testbed[watch]"')
    from testbed.interactive.watch.server import serve

    state = look(run)
    asyncio.run(serve(run, port, lambda address: ready(str(state), address)))
