"""Standard output and error as a command has them: a reader may leave, and a disk may be full."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from testbed.base import interrupt
from testbed.base.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Failed = Callable[[OSError], None]


def guard() -> tuple[TextIO, TextIO]:
    """Put streams in place of ``sys.stdout`` and ``sys.stderr`` that write to the same files, and return them.

    A reader that leaves, as head does, changes nothing: the command goes on, and its exit code is its own. (Typer would
    make it 1, or not, as the pipe happens to be closed before the last write or after it.) A terminal that closes is a
    reader that leaves: it is the signal that it sends that ends a command, unless the command is to ignore it. Where
    standard output cannot be written for another reason, writing or flushing it raises OutputError, once. Standard
    error drops what it cannot write: there is nowhere left to say it. A character that a stream's encoding lacks is
    written as its escape, such as ``\\u2192``. What the caller has closed is the null device: otherwise the next file
    that is opened would take its number, and get what is written there.
    """
    _open_closed()
    on_terminal = sys.stdout.isatty()
    sys.stdout, sys.stderr = _guarded(sys.stdout, _drop if on_terminal else _refuse), _guarded(sys.stderr, _drop)
    return sys.stdout, sys.stderr


def _open_closed() -> None:
    """Put the null device in place of standard input, output and error where they are closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is the one that was closed
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _guarded(stream: TextIO, failed: Failed) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_File(stream.fileno(), failed)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,  # the latter where Python is not to buffer
    )


class _File(io.FileIO):
    """File that is gone after the first write that fails: what is written later, also at Python's end, is dropped."""

    def __init__(self, number: int, failed: Failed) -> None:
        super().__init__(number, "wb", closefd=False)
        self._failed = failed

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            self._failed(error)
            return memoryview(data).nbytes


def _refuse(error: OSError) -> None:
    """Refuse to go on after an error of standard output, unless its reader left or the process was told to end.

    Raises:
        OutputError: somebody may still want to know.
    """
    if error.errno != errno.EPIPE and not interrupt.told():
        reason = (error.strerror or str(error)).lower()
        raise OutputError(
            f"standard output: cannot be written: {reason}", fix="send it to another place, or free some space there"
        ) from None


def _drop(error: OSError) -> None:
    pass
