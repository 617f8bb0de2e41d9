"""A run that goes on, or has ended, in a browser: what ``testbed watch`` does."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.analysis.load import check_run
from testbed.base.errors import MissingToolError
from testbed.base.extras import install
from testbed.base.interrupt import ENDING
from testbed.interactive.watch.looking import look

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
        raise MissingToolError(f"the Python package {PACKAGE} is not installed", fix=install("watch"))
    from testbed.interactive.watch.server import serve

    state = look(run)
    asyncio.run(_until_told(serve(run, port, lambda address: ready(str(state), address))))
    raise KeyboardInterrupt


async def _until_told(serving: Coroutine[Any, Any, None]) -> None:
    """Serve until a signal ends it. An exception of a signal's handler would fall into whichever task runs then, and be
    lost there."""
    task = asyncio.ensure_future(serving)
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task
