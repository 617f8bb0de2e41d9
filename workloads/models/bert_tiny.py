"""A BERT of two blocks that predicts masked words: Devlin et al. 2019 as small as BERT-Tiny (Turc et al. 2019, L = 2,
H = 128), over the 1,024 commonest words instead of 30,522 pieces of words.

No dropout: its random numbers would have to be the same on many workers as on one. The output layer has weights of its
own, so that each tensor's gradient is complete at one moment of the backward pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

TOKENS, WORDS = 32, 1024
BLOCKS, HIDDEN, HEADS, INNER = 2, 128, 2, 512
INPUT_SHAPE = (TOKENS,)
OUTPUTS = WORDS

Layer = tuple[tuple[str, tuple[int, ...]], ...]


def _layers() -> tuple[Layer, ...]:
    def linear(name: str, inputs: int, outputs: int) -> Layer:
        return ((f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,)))

    def norm(name: str) -> Layer:
        return ((f"{name}.weight", (HIDDEN,)), (f"{name}.bias", (HIDDEN,)))

    found: list[Layer] = [(("words.weight", (WORDS, HIDDEN)),), (("positions.weight", (TOKENS, HIDDEN)),), norm("norm")]
    for i in range(BLOCKS):
        block = f"blocks.{i}"
        found += [linear(f"{block}.qkv", HIDDEN, 3 * HIDDEN), linear(f"{block}.attended", HIDDEN, HIDDEN)]
        found += [norm(f"{block}.norm1"), linear(f"{block}.inner", HIDDEN, INNER)]
        found += [linear(f"{block}.outer", INNER, HIDDEN), norm(f"{block}.norm2")]
    return (*found, linear("output", HIDDEN, WORDS))


LAYERS = _layers()


def build() -> nn.Module:
    """Build the module: int64 words [batch, 32] to scores [batch, 1024, 32] of each word at each place."""
    from torch import nn
    from torch.nn.functional import gelu, scaled_dot_product_attention

    class Block(nn.Module):
        """Attention and a perceptron, each added to its input and normalised after, as in BERT."""

        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
            self.attended = nn.Linear(HIDDEN, HIDDEN)
            self.norm1 = nn.LayerNorm(HIDDEN)
            self.inner = nn.Linear(HIDDEN, INNER)
            self.outer = nn.Linear(INNER, HIDDEN)
            self.norm2 = nn.LayerNorm(HIDDEN)

        def forward(self, x: Tensor) -> Tensor:
            heads = self.qkv(x).unflatten(2, (3, HEADS, HIDDEN // HEADS)).permute(2, 0, 3, 1, 4)
            mixed = scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
            x = self.norm1(x + self.attended(mixed))
            result: Tensor = self.norm2(x + self.outer(gelu(self.inner(x))))
            return result

    class BertTiny(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, HIDDEN)
            self.positions = nn.Embedding(TOKENS, HIDDEN)
            self.norm = nn.LayerNorm(HIDDEN)
            self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
            self.output = nn.Linear(HIDDEN, WORDS)

        def forward(self, words: Tensor) -> Tensor:
            x = self.norm(self.words(words) + self.positions.weight)
            scores: Tensor = self.output(self.blocks(x))
            return scores.transpose(1, 2)

    return BertTiny()
