"""Lists of any length in a sentence."""

from __future__ import annotations

import pytest

from testbed.base.listing import shortened


@pytest.mark.parametrize(
    ("count", "options", "text"),
    [
        (0, {}, ""),
        (3, {}, "a, b, c"),
        (5, {}, "a, b, c and 2 more"),
        (5, {"between": "; "}, "a; b; c; and 2 more"),
        (5, {"between": "\n", "rest": "more mistakes"}, "a\nb\nc\nand 2 more mistakes"),
    ],
)
def test_the_first_few_are_named(count: int, options: dict[str, str], text: str) -> None:
    assert shortened("abcde"[:count], 3, **options) == text
