"""One interruption counts; those that follow it do not break the ending off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from testbed.base import interrupt
from testbed.base.exits import INTERRUPTED


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in interrupt.ENDING}  # nohup ignores one
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", interrupt.ENDING)
def test_the_first_raises_and_the_others_are_dropped(number: signal.Signals) -> None:
    interrupt.raise_once()
    assert not interrupt.told()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    assert interrupt.told()
    for other in interrupt.ENDING:
        os.kill(os.getpid(), other)


def test_each_raises_where_the_first_is_passed_on() -> None:
    interrupt.raise_once()
    interrupt.raise_each()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_one_that_was_lost_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "ENDING_S", 0.0)
    interrupt.raise_once()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_the_caller_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupt.raise_once()
    os.kill(os.getpid(), signal.SIGHUP)
    with interrupt.exit_at_once():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_an_end_during_imports_has_a_word() -> None:
    script = "import os, signal\nfrom testbed.base import interrupt\nwith interrupt.exit_at_once():\n"
    script += "    os.kill(os.getpid(), signal.SIGTERM)\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (INTERRUPTED, interrupt.NOTHING_BEGUN)


TWICE = """\
import builtins, os, signal, sys, types
from testbed import __main__ as command
def press(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)
say = builtins.print
builtins.print = lambda *words, **where: press() or say(*words, **where)
sys.modules["testbed.cli"] = types.SimpleNamespace(main=press)
command.main()
"""


def test_a_second_interruption_does_not_break_the_word_of_the_first_off() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", TWICE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "interrupted\n")


def test_a_termination_has_a_word_and_ends_as_ever() -> None:
    script = "import os, signal\nfrom testbed.base import interrupt\ninterrupt.tell_of_termination()\n"
    script += "os.kill(os.getpid(), signal.SIGTERM)\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, interrupt.TERMINATED)


def test_handlers_are_put_back_after_the_imports() -> None:
    interrupt.raise_once()
    before = signal.getsignal(signal.SIGINT)
    with interrupt.exit_at_once():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
