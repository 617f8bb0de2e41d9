"""A command of ours in a process of its own, so that whoever calls it keeps its signals and its memory.

The process prints JSON on standard output, errors included. It belongs to the caller's process group: Ctrl-C in a
terminal, and the end of a notebook's kernel, reach it as well.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Any

from testbed.base import errors
from testbed.base.errors import TestbedError, TrialError
from testbed.base.exits import INTERRUPTED
from testbed.base.python import module_command

COMMAND = tuple(module_command("testbed"))
ERROR = "error: "
"""Beginning of an error's message on standard error."""


def call(*words: str) -> dict[str, Any]:
    """Run a command to its end and show its progress on standard error; return what it printed on standard output.

    KeyboardInterrupt ends it as Ctrl-C does, and is raised once it has ended.

    Raises:
        TestbedError: as the command; or it was killed.
    """
    on_terminal = sys.stderr.isatty()  # then the command draws its bar there itself
    with tempfile.TemporaryFile() as answer:
        process = subprocess.Popen(
            [*COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=None if on_terminal else subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        try:
            message = _follow(process)
        finally:
            end(process)
        answer.seek(0)
        return told(answer.read(), process, message)


def end(process: subprocess.Popen[str]) -> None:
    """Interrupt a command as Ctrl-C does; it takes its lab down, so nobody waits for less."""
    while process.poll() is None:
        with suppress(KeyboardInterrupt):
            process.send_signal(signal.SIGINT)
            _follow(process)


def told(line: str | bytes, process: subprocess.Popen[str], message: str = "") -> dict[str, Any]:
    """Read what a command has printed on standard output; ``message`` is that of an error, on standard error.

    Raises:
        TestbedError: the command's; or it printed no JSON.
        KeyboardInterrupt: it was interrupted.
    """
    found: dict[str, Any] = {}
    with suppress(ValueError):
        found = json.loads(line)
    if "error" in found:
        raise errors.from_json(found["error"])
    if found:
        return found
    code = process.wait()
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if message:
        raise TestbedError(message)
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    raise TrialError(f"the process of testbed {how} and said nothing", fix="see its last lines above")


def _follow(process: subprocess.Popen[str]) -> str:
    """Show lines until the process ends. The message of an error, which comes last, is returned in place of shown: it
    is that of the exception."""
    message = ""
    for line in process.stderr or ():
        if message or line.startswith(ERROR):
            message += line
        else:
            print(line, end="", file=sys.stderr, flush=True)
    process.wait()
    return message.removeprefix(ERROR).rstrip()
