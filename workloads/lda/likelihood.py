"""Quality of a topic model: how well it foretells documents that it was not trained on, as log-likelihood per token, in
nats.

By document completion (Wallach, Murray, Salakhutdinov, Mimno, "Evaluation Methods for Topic Models", ICML 2009): half
of a held-out document's tokens tell which topics it has, and the others are foretold. The topics' words are fixed
meanwhile: phi_wk = (n_wk + beta) / (n_k + W beta). The document's topics theta are found by fold-in, as the fixed point
of theta_k ~ alpha + sum over its known tokens of the share of topic k in them (as EM has it; Asuncion, Welling, Smyth,
Teh, "On Smoothing and Inference for Topic Models", UAI 2009, test in the same two steps). It draws nothing by chance,
so that equal counts have equal likelihoods. Perplexity is its exponential with the other sign.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.lda.corpus import Documents
from testbed.workloads.lda.gibbs import Prior

STEPS = 50
"""Steps of the fixed point. With 20 topics of the Lee corpus, further steps change the likelihood by less than 1e-3."""


def per_token(counts: NDArray[np.float32], test: Documents, prior: Prior) -> float:
    """Return the mean log-likelihood of the second halves of all documents; ``counts`` are float32[words, topics]."""
    table = counts.astype(np.float64) + prior.beta
    phi = table / table.sum(axis=0)
    ends = np.cumsum(test.lengths)
    told = foretold = 0.0
    for begin, end in zip(ends - test.lengths, ends, strict=True):
        middle = begin + (end - begin) // 2
        theta = _folded_in(phi[test.words[begin:middle]], prior.alpha)
        told += float(np.log(phi[test.words[middle:end]] @ theta).sum())
        foretold += end - middle
    return told / foretold


def _folded_in(known: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Find the topics of a document, float64[topics]; ``known`` are its known tokens' rows of phi."""
    wide = known.shape[1]
    theta = np.full(wide, 1 / wide)
    for _ in range(STEPS):
        share = known * theta
        share /= share.sum(axis=1, keepdims=True)
        theta = alpha + share.sum(axis=0)
        theta /= theta.sum()
    return theta
