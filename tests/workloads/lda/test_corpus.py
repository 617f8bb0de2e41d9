"""Vocabularies, held-out documents, and shards."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import SpecError
from testbed.workloads.lda.corpus import Bags, Documents, corpus, shards

TEXTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12), min_size=2, max_size=12)


def told(documents: Documents) -> list[Counter[int]]:
    parts = np.split(documents.words, np.cumsum(documents.lengths)[:-1])
    return [Counter(part.tolist()) for part in parts]


@given(TEXTS, st.integers(1, 4), st.floats(0.1, 1))
def test_words_that_are_too_rare_or_too_common_are_left_out(texts: list[list[str]], least: int, most: float) -> None:
    full = [text for text in texts if text]
    having = Counter(word for text in full for word in set(text))
    kept = sorted(word for word, count in having.items() if least <= count <= most * len(full))
    number = {word: i for i, word in enumerate(kept)}
    found = Bags.of_texts(texts).without(least, most)
    expected = [Counter(number[word] for word in text if word in number) for text in texts]
    assert found.vocabulary == len(kept)
    if kept:
        assert told(Documents.of(found)) == [one for one in expected if one]


@given(TEXTS, st.floats(0.05, 0.6), st.integers(0, 9))
def test_each_document_is_held_out_or_trained_on(texts: list[list[str]], share: float, seed: int) -> None:
    bags = Bags.of_texts(texts).without(1, 1.0)
    try:
        made = corpus(bags, share, seed, "mine")
    except SpecError as error:
        assert "are to be held out" in error.problem  # noqa: PT017
        return
    everything = told(Documents.of(bags))
    parts = told(made.train) + told(made.test)
    assert sorted(map(str, map(sorted, (one.items() for one in parts)))) == sorted(
        map(str, map(sorted, (one.items() for one in everything)))
    )
    assert len(made.test.lengths) == max(1, round(share * len(everything)))
    assert made.test.lengths.min() >= 2
    again = corpus(bags, share, seed, "mine")
    assert (again.test.words == made.test.words).all()
    assert (again.train.words == made.train.words).all()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 12), st.integers(0, 9))
def test_shards_have_all_documents_once_and_about_as_many_tokens(lengths: list[int], world: int, seed: int) -> None:
    sizes = np.array(lengths)
    if len(lengths) < world:
        with pytest.raises(SpecError, match="need one each"):
            shards(sizes, world, seed)
        return
    found = shards(sizes, world, seed)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths)))
    assert min(map(len, found)) >= 1
    tokens = [int(sizes[one].sum()) for one in found]
    assert max(tokens) - min(tokens) <= sizes.max()
    assert [one.tolist() for one in shards(sizes, world, seed)] == [one.tolist() for one in found]
