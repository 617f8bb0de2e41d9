"""BERT-base: Devlin et al. 2019, section 3 (L = 12, H = 768, A = 12, 110 M parameters) and their code, modeling.py.

The encoder with its embeddings and pooler. The heads of pre-training are left out; the one for masked words shares its
weights with the word embeddings, and adds but a transform and a bias.
"""

from __future__ import annotations

from testbed.workloads.profiles.layers import Layer, Layers

BLOCKS, HIDDEN, INNER = 12, 768, 3072
WORDS, POSITIONS, SEGMENTS = 30_522, 512, 2
TOKENS = 128
"""Length of a sequence, as in nine of ten steps of pre-training (appendix A.2)."""


def bert_base() -> list[Layer]:
    """Describe the whole network."""
    net = Layers()
    for name, rows in (("words", WORDS), ("positions", POSITIONS), ("segments", SEGMENTS)):
        net.add(f"embeddings.{name}", 0, weight=(rows, HIDDEN))
    _norm(net, "embeddings.norm")
    for block in range(BLOCKS):
        name = f"blocks.{block}"
        for part in ("query", "key", "value"):
            net.linear(f"{name}.attention.{part}", HIDDEN, HIDDEN, times=TOKENS)
        net.linear(f"{name}.attention.output", HIDDEN, HIDDEN, times=TOKENS)
        _norm(net, f"{name}.attention.norm")
        net.linear(f"{name}.inner", HIDDEN, INNER, times=TOKENS)
        net.linear(f"{name}.output", INNER, HIDDEN, times=TOKENS)
        _norm(net, f"{name}.norm")
    net.linear("pooler", HIDDEN, HIDDEN)
    return net.layers


def _norm(net: Layers, name: str) -> None:
    """Add layer normalisation of every token."""
    net.add(name, TOKENS * HIDDEN, weight=(HIDDEN,), bias=(HIDDEN,))
