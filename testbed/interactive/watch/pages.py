"""Pages of a run as they were last made, and when they are made anew.

Making one takes time of cores that trials want. So a page is made only when somebody looks at it and a trial has ended
since; by a process that all others go before; one at a time; and with a rest after each that is so long that watching
takes a tenth of one core at most. When no run goes on, there is no rest.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from markupsafe import escape

from testbed.base.python import module_command
from testbed.interactive.watch import looking

REST_S = 10.0
REST_PER_S = 10
"""Seconds of rest for each second that making a page took."""
NICENESS = 19
"""Niceness of the process that makes a page: it takes the least of a core that others want."""
LONGEST_S = 600.0
"""Seconds after which a page is given up whose process has not ended, however busy the machine."""
RENDER = tuple(module_command("testbed.interactive.watch.render"))


@dataclass(frozen=True)
class Page:
    """A page (HTML), and the stamp of the records of which it was made."""

    content: bytes
    version: str


async def rendered(run: Path, what: str) -> bytes:
    """Make a page, or one that says why there is none."""
    # Not asyncio's own way: one that is cancelled while the process begins would wait for ever (Python 3.11).
    process = subprocess.Popen(
        (*RENDER, what, str(run), str(NICENESS)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        page, said = await asyncio.to_thread(process.communicate, None, LONGEST_S)
    except subprocess.TimeoutExpired:
        return _no_page(f"making it took more than {LONGEST_S:g} s")
    finally:
        process.kill()
        process.wait()
    if process.returncode == 0:
        return page
    how = said.decode(errors="replace").strip() or f"the process that makes it ended with {process.returncode}"
    return _no_page(how)


def _no_page(why: str) -> bytes:
    return f"<!DOCTYPE html><title>No page</title><pre>There is no such page now.\n\n{escape(why)}</pre>".encode()


class Pages:
    """Pages that are served of one run; use in one event loop."""

    def __init__(
        self,
        run: Path,
        render: Callable[[Path, str], Awaitable[bytes]] = rendered,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._render, self._clock = run, render, clock
        self._made: dict[str, Page] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._rested_s = 0.0

    async def newest(self, what: str) -> Page:
        """Return the page as it was last made; the first is waited for."""
        task = self._refresh(what)
        if task and what not in self._made:
            await asyncio.shield(task)
        return self._made[what]

    def version(self, what: str) -> str:
        """Version of the page as it was last made; empty if it was not made yet. Has it made anew if that is due."""
        self._refresh(what)
        return self._made[what].version if what in self._made else ""

    def _refresh(self, what: str) -> asyncio.Task[None] | None:
        """Return the task that makes a page, where it is due or being done."""
        if what not in self._tasks and self._is_due(what):
            task = asyncio.create_task(self._make(what))
            self._tasks[what] = task
            task.add_done_callback(lambda _: self._tasks.pop(what))
        return self._tasks.get(what)

    def _is_due(self, what: str) -> bool:
        made = self._made.get(what)
        if made is None:
            return True
        if made.version == looking.stamp(self._run):
            return False
        return self._clock() >= self._rested_s or looking.look(self._run).goes_on is False

    async def _make(self, what: str) -> None:
        async with self._one_at_a_time:
            version, began_s = looking.stamp(self._run), self._clock()
            self._made[what] = Page(await self._render(self._run, what), version)
            ended_s = self._clock()
            self._rested_s = ended_s + max(REST_S, REST_PER_S * (ended_s - began_s))
