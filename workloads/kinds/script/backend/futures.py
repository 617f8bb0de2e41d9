"""Wrappers of a script's operations on the future of a collective: a wait for it, and callbacks when it is over.

Problem: for how long a script waits is part of what is measured. DDP waits for futures in C++, which nobody sees. A
script may wait for one in Python, though. And what is done when a collective is over may ask for another one, as DDP's
hook PowerSGD does. Nobody but the chain waits for that one, and it must not be taken for one of the backward pass.

Chosen: ``wait`` and ``then`` of futures are wrapped. A wait counts for the collective whose future it is, or that of a
callback on it, unless a callback waits on another thread than the one that gave it: that is not the script's own.
Whatever else adds a callback in Python is wrapped, too, for a work of ours to know of it before.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

import torch

from testbed.workloads.kinds.script.backend.untraced import skip

if TYPE_CHECKING:
    from testbed.workloads.kinds.script.backend.rows import Row

_theirs_wait: Callable[[Any], Any] = torch._C.Future.wait
_theirs_then: Callable[[Any, Any], Any] = torch._C.Future.then
_rows: WeakKeyDictionary[Any, Row] = WeakKeyDictionary()
_before: WeakKeyDictionary[Any, Callable[[], None]] = WeakKeyDictionary()
"""Functions to call before a callback is added to a future: a work of ours then ends it on another thread."""
_callbacks: set[ref[Callable[[Any], None]]] = set()
"""Functions that threads of C++ have still to call, or to let go."""
_here = threading.local()
LEAVE_S = 2.0
"""How long (s) a process that ends waits for callbacks."""
SOON_S = 0.25
"""How long (s) it waits for them before it leaves its groups: a collective that fails afterwards is nobody's."""


def is_chained() -> bool:
    """Whether this thread runs a callback that another thread gave."""
    return bool(getattr(_here, "chained", False))


def call_back(future: Any, over: Callable[[Any], None]) -> None:
    """Have a function called once a future is done."""
    _callbacks.add(ref(over, _callbacks.discard))
    future.add_done_callback(over)


def end_callbacks(is_open: Callable[[], bool] = lambda: False, limit_s: float = LEAVE_S) -> None:
    """Wait until threads of C++ hold none of these functions, and nothing else ``is_open``. A thread that needs the
    interpreter when that has ended aborts the process ("terminate called without an active exception"). A script that
    waits for its last collective goes on before Gloo's thread has called back, and may end."""
    end_s = time.monotonic() + limit_s
    while (_callbacks or is_open()) and time.monotonic() < end_s:
        time.sleep(0.001)


def given(future: Any, row: Row | None, before: Callable[[], None] | None = None) -> Any:
    """Link a collective's future, which the script gets now, with the collective's row; call ``before`` when the script
    adds a callback to it."""
    if before is not None:
        _before[future] = before
    if row is not None:
        row.unseen()
        _rows[future] = row
    return future


def after(future: Any, callback: Callable[[Any], Any]) -> Any:
    """Return a future that follows one of ours, and is no callback of the script's."""
    return _theirs_then(future, callback)


def wait_for(future: Any) -> Any:
    """Wait, without counting that for any collective."""
    return _theirs_wait(future)


def _announce(future: Any) -> None:
    if (before := _before.get(future)) is not None:
        before()


def wrap() -> None:
    """Wrap futures of this process, so that waits for them are counted."""

    @functools.wraps(_theirs_wait)
    def wait(self: Any) -> Any:
        row = _rows.get(self)
        if row is None or is_chained():
            return _theirs_wait(self)
        asked_s = time.monotonic()
        try:
            return _theirs_wait(self)
        finally:
            row.waited(asked_s, for_it=False)

    theirs_add, theirs_collect = torch._C.Future.add_done_callback, torch._C._collect_all

    @functools.wraps(theirs_add)
    def add_done_callback(self: Any, callback: Callable[[Any], None]) -> None:
        _announce(self)
        theirs_add(self, callback)

    @functools.wraps(theirs_collect)
    def collect_all(futures: Any) -> Any:
        for each in futures:  # a callback on the new one runs where the last of these ends
            _announce(each)
        return theirs_collect(futures)

    @functools.wraps(_theirs_then)
    def then(self: Any, callback: Callable[[Any], Any]) -> Any:
        _announce(self)
        row = _rows.get(self)
        if row is None:
            return _theirs_then(self, callback)
        found = _theirs_then(self, _marked(callback))
        _rows[found] = row
        return found

    for method in (wait, then, add_done_callback, collect_all):
        skip(method)
    torch._C.Future.wait = wait  # type: ignore[method-assign]
    torch._C.Future.then = then  # type: ignore[method-assign]
    torch._C.Future.add_done_callback = add_done_callback  # type: ignore[method-assign]
    torch._C._collect_all = collect_all


def _marked(callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a callback so that it is told apart where another thread runs it."""
    giver, is_givers_chained = threading.get_ident(), is_chained()

    def called(future: Any) -> Any:
        before = is_chained()
        _here.chained = before or is_givers_chained or threading.get_ident() != giver
        try:
            return callback(future)
        finally:
            _here.chained = before

    skip(called)
    return called
