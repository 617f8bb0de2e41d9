"""Draws against drawing one by one, against the posterior of tiny collections, and against topics that were planted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import lgamma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.lda.gibbs import Floats32, Floats64, Ints, Prior, Scan, sweep

PRIOR = Prior(0.3, 0.2)


def counted(words: Ints, topics: Ints, shape: tuple[int, int]) -> Floats32:
    found = np.zeros(shape, np.float32)
    np.add.at(found, (words, topics), 1)
    return found


def one_by_one(scan: Scan, topics: Ints, counts: Floats32, prior: Prior, uniforms: Floats64) -> Ints:
    """Griffiths and Steyvers 2004, eq. 5, token by token in the scan's order."""
    drawn, (words, wide) = topics.copy(), counts.shape
    mixture = np.zeros((len(scan.lengths), wide))
    np.add.at(mixture, (scan.documents, drawn), 1.0)
    for token in (int(token) for block in scan for token in block.tokens):
        word, document = scan.words[token], scan.documents[token]
        counts[word, drawn[token]] -= 1
        mixture[document, drawn[token]] -= 1
        weights = (mixture[document] + prior.alpha) * (counts[word] + prior.beta).astype(np.float64)
        running = (weights / (counts.sum(axis=0, dtype=np.float64) + words * prior.beta)).cumsum()
        drawn[token] = min(int((running <= uniforms[token] * running[-1]).sum()), wide - 1)
        counts[word, drawn[token]] += 1
        mixture[document, drawn[token]] += 1
    return drawn


@st.composite
def collections(draw: st.DrawFn) -> tuple[list[int], list[int], int, int, int]:
    """Words, lengths of documents, size of the vocabulary, topics, and tokens of a block."""
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    vocabulary = draw(st.integers(1, 8))
    words = draw(st.lists(st.integers(0, vocabulary - 1), min_size=sum(lengths), max_size=sum(lengths)))
    return words, lengths, vocabulary, draw(st.integers(2, 5)), draw(st.integers(1, 40))


@given(collections(), st.integers(0, 2**20))
def test_a_block_comes_to_what_one_by_one_does(
    collection: tuple[list[int], list[int], int, int, int], seed: int
) -> None:
    words, lengths, vocabulary, wide, block = collection
    prior = Prior(0.25, 0.125)  # exact in float32, too, as the plain version adds it there
    random, scan = np.random.default_rng(seed), Scan(words, lengths, block)
    topics = random.integers(wide, size=len(scan))
    others = random.integers(0, 3, (vocabulary, wide)).astype(np.float32)
    counts = counted(scan.words, topics, (vocabulary, wide)) + others
    again, uniforms = counts.copy(), random.random(len(scan))
    drawn, likelihood = sweep(scan, topics, counts, prior, uniforms)
    assert drawn.tolist() == one_by_one(scan, topics, again, prior, uniforms).tolist()
    assert (counts == again).all()
    assert (counts == counted(scan.words, drawn, (vocabulary, wide)) + others).all()
    assert likelihood <= 0


def log_posterior(scan: Scan, topics: Ints, shape: tuple[int, int]) -> float:
    """Of all topics together, up to a constant (Griffiths and Steyvers 2004, eq. 2 and 3)."""
    of_words = counted(scan.words, topics, shape)
    of_documents = counted(scan.documents, topics, (len(scan.lengths), shape[1]))
    found = sum(lgamma(count + PRIOR.beta) for count in of_words.flat)
    found -= sum(lgamma(count + shape[0] * PRIOR.beta) for count in of_words.sum(axis=0))
    return found + sum(lgamma(count + PRIOR.alpha) for count in of_documents.flat)


def states(tokens: int, wide: int) -> Iterator[Ints]:
    return (np.array(one) for one in product(range(wide), repeat=tokens))


def test_the_posterior_of_a_tiny_collection_stays_as_it_is() -> None:
    """States that are drawn from the posterior, all of which are enumerated, are as likely after a sweep as before."""
    words, lengths, shape = [0, 1, 1, 0, 2], [3, 2], (3, 2)
    scan, random = Scan(words, lengths), np.random.default_rng(5)
    every = list(states(5, 2))
    weights = np.exp([log_posterior(scan, topics, shape) for topics in every])
    weights /= weights.sum()
    draws, seen = 3_000, np.zeros(len(every))
    for start in random.choice(len(every), size=draws, p=weights):
        topics = every[start]
        drawn, _ = sweep(scan, topics, counted(scan.words, topics, shape), PRIOR, random.random(5))
        seen[int("".join(map(str, drawn)), 2)] += 1
    expected = draws * weights
    chi = float(((seen - expected) ** 2 / expected).sum())
    assert chi < 31 + 5 * np.sqrt(2 * 31)  # 31 degrees of freedom; five standard deviations


def test_planted_topics_are_found() -> None:
    """Three topics of ten words each; documents have one of them, but for a tenth of their words."""
    random, shape = np.random.default_rng(3), (30, 3)
    kinds = random.integers(3, size=60)
    topics_of = np.where(random.random((60, 40)) < 0.1, random.integers(3, size=(60, 40)), kinds[:, None])
    scan = Scan((10 * topics_of + random.integers(10, size=(60, 40))).ravel(), [40] * 60)
    topics = random.integers(3, size=len(scan))
    counts, likelihoods = counted(scan.words, topics, shape), []
    for _ in range(40):
        topics, likelihood = sweep(scan, topics, counts, Prior(0.1, 0.1), random.random(len(scan)))
        likelihoods.append(likelihood)
    by_group = counts.reshape(3, 10, 3).sum(axis=1)
    assert sorted(by_group.argmax(axis=1)) == [0, 1, 2]
    assert (by_group.max(axis=1) > 0.93 * by_group.sum(axis=1)).all()
    assert likelihoods[-1] > likelihoods[0] + 0.5
    assert likelihoods[-1] == pytest.approx(np.log(1 / 10) + 0.9 * np.log(0.93) + 0.1 * np.log(0.03), abs=0.1)
