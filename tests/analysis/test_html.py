"""Texts that stand in a page packed."""

from __future__ import annotations

import base64
import zlib

from hypothesis import given
from hypothesis.strategies import characters, text

from testbed.analysis.html import packed


@given(text(characters(exclude_categories=["Cs"])))
def test_nothing_in_it_is_markup_and_all_of_it_is_there(said: str) -> None:
    script = packed(said)
    assert not {"<", "&", "/", "\u2028"} & set(script)
    assert zlib.decompress(base64.b85decode(script.translate(str.maketrans(".,", "<&")))).decode() == said
