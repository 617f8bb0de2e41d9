"""Counts and lists of any length in a sentence."""

from __future__ import annotations

import pytest

from testbed.base.listing import counted, shortened


@pytest.mark.parametrize(
    ("count", "options", "text"),
    [
        (0, {}, ""),
        (3, {}, "a, b, c"),
        (5, {}, "a, b, c and 2 more"),
        (5, {"between": "; "}, "a; b; c; and 2 more"),
        (4, {"rest": "more arms"}, "a, b, c and 1 more arm"),
        (5, {"rest": "more arms"}, "a, b, c and 2 more arms"),
        (5, {"between": "\n", "rest": "more mistakes"}, "a\nb\nc\nand 2 more mistakes"),
    ],
)
def test_the_first_few_are_named(count: int, options: dict[str, str], text: str) -> None:
    assert shortened("abcde"[:count], 3, **options) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "trial", "0 trials"),
        (1, "trial", "1 trial"),
        (1, "switch", "1 switch"),
        (2, "switch", "2 switches"),
        (1024, "process", "1,024 processes"),
    ],
)
def test_a_noun_goes_with_its_count(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text
