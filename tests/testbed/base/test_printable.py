"""What a terminal is given of text from elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testbed.base.printable import printable

from ..conftest import Called


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\n\tlines, ü, \N{NO-BREAK SPACE}", "two\n\tlines, ü, \N{NO-BREAK SPACE}"),
        ("\x1b[2J\x07\r\x7f\x9b", "\\x1b[2J\\x07\\r\\x7f\\x9b"),
        ("a\u202eb\u2066\u2028", "a\\u202eb\\u2066\\u2028"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_moves_the_cursor_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("command", [["report"], ["history"], ["compare", "x"], ["plan"]])
def test_no_error_moves_the_cursor(testbed: Callable[..., Called], command: list[str]) -> None:
    called = testbed(*command, "\x1b[2J\u202ename")
    assert called.code == 2
    assert "\x1b" not in called.err
    assert "\u202e" not in called.err
