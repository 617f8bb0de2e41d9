"""Playing playbooks: what becomes of a signal meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from testbed.base import interrupt
from testbed.lab.baremetal.preparing.playbook import _signals_put_off


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in interrupt.ENDING}
    for number in before:
        signal.signal(number, signal.SIG_DFL)  # who calls us may ignore one
    interrupt.raise_once()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", interrupt.ENDING)
def test_a_signal_ends_the_play_and_is_heard_after_it(number: signal.Signals) -> None:
    heard: list[bool] = []

    def play() -> None:
        with _signals_put_off() as told_to_end:
            heard.append(told_to_end())
            os.kill(os.getpid(), number)
            heard.append(told_to_end())

    with pytest.raises(KeyboardInterrupt):
        play()
    assert heard == [False, True]


def test_signals_are_as_before_when_none_has_come() -> None:
    """ansible-runner alone would keep them, and Ctrl-C would do nothing from then on."""
    handler = signal.getsignal(signal.SIGINT)
    with _signals_put_off():
        assert signal.getsignal(signal.SIGINT) is not handler
    assert signal.getsignal(signal.SIGINT) is handler
