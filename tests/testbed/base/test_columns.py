"""Tables: aligned, fitted into a width, and with tabs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.columns import columns, fitted, tabbed, wrapped

HEADER = ("name", "what it is", "bytes", "note")
ROWS = [("ring", "a chunked ring over all hosts", "1,234", "-"), ("ps", "servers", "56", "-")]


def test_columns_are_aligned() -> None:
    assert columns(HEADER[:3], [row[:3] for row in ROWS], left=2).splitlines() == [
        "name  what it is                     bytes",
        "ring  a chunked ring over all hosts  1,234",
        "ps    servers                           56",
    ]


def test_a_column_without_values_is_left_out_and_text_wraps() -> None:
    assert fitted(HEADER, ROWS, left=2, width=36).splitlines() == [
        "name  what it is               bytes",
        "ring  a chunked ring over all  1,234",
        "      hosts",
        "ps    servers                     56",
    ]


def test_what_can_be_spared_is_left_out_first_and_named() -> None:
    text = fitted(HEADER, ROWS, 2, ("bytes", "note"), width=30)
    assert text.splitlines()[:3] == ["name  what it is", "ring  a chunked ring over all", "      hosts"]
    assert "no room for: bytes." in text
    assert "no room" not in fitted(HEADER, ROWS, 2, ("bytes", "note"), width=60)


def test_a_table_without_rows_has_its_header() -> None:
    assert fitted(HEADER, [], width=80) == "name  what it is  bytes  note"


def test_tabs_separate_cells_and_nothing_else() -> None:
    assert tabbed(HEADER, [("a", "b\tc\nd", "", "-")]) == "name\twhat it is\tbytes\tnote\na\tb c d\t\t-"


WORDS = st.lists(st.text("abcdefgh0123456789,", min_size=1, max_size=14), max_size=8).map(" ".join)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS), max_size=4), st.integers(20, 120), st.integers(0, 4))
def test_a_table_fits_and_loses_nothing(rows: list[tuple[str, ...]], width: int, left: int) -> None:
    header = ("a", "b", "c", "d")
    text = fitted(header, rows, left, width=width)
    assert max(map(len, text.splitlines())) <= width
    for character in "0123456789":
        assert text.count(character) == sum(cell.count(character) for row in rows for cell in row)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("short", ["short"]),
        ("  a line that is too long for it", ["  a line that is too", "    long for it"]),
        ("name    a value that is too long", ["name    a value that", "        is too long"]),
        ("a/path/that/is/too/long/to/be/cut", ["a/path/that/is/too/long/to/be/cut"]),
    ],
)
def test_long_lines_go_on_below(line: str, lines: list[str]) -> None:
    assert wrapped(line, 20).splitlines() == lines
