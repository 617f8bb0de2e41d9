"""A small GPT that learns the text of Python's help(), with DistributedDataParallel; nothing in here knows of testbed.

torchrun --nproc-per-node 4 gpt.py           # on one machine
testbed run experiments/torch/gpt.yaml       # a rank a host, under each scheme of the spec

With --hook, DDP's own communication hooks make gradients smaller: fp16, bf16 or powersgd. With --shard, FSDP keeps only
a part of the weights on each rank (fully_shard). With --accumulate 4, gradients of four parts of a batch are added up
before they are summed over ranks (no_sync).
"""

import argparse
import math
import os
from contextlib import nullcontext
from dataclasses import dataclass
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


@dataclass
class Shape:
    """Of the model: different characters, characters of a piece of text, layers, heads, and floats for a character."""

    letters: int
    context: int = 64
    layers: int = 2
    heads: int = 4
    width: int = 128


class Block(nn.Module):
    """A layer of the transformer: attention to what came before, then two dense layers (Radford et al. 2019)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.before_attention, self.before_dense = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width)
        self.attended = nn.Linear(shape.width, shape.width)
        self.dense = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width), nn.GELU(), nn.Linear(4 * shape.width, shape.width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.query_key_value(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attended(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.dense(self.before_dense(x))


class GPT(nn.Module):
    """From letters to the log-odds of the next letter."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.letters = nn.Embedding(shape.letters, shape.width)
        self.places = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.last = nn.LayerNorm(shape.width)
        for weights in self.parameters():
            if weights.dim() > 1:
                nn.init.normal_(weights, std=0.02)

    def forward(self, letters: Tensor) -> Tensor:
        x = self.letters(letters) + self.places.weight[: letters.shape[1]]
        return self.last(self.blocks(x)) @ self.letters.weight.T  # the same weights read and write letters


def read() -> tuple[Tensor, int]:
    """The text as numbers, and how many different ones there are."""
    text = "\n".join(topics[name] for name in sorted(topics))
    number = {letter: i for i, letter in enumerate(sorted(set(text)))}
    return torch.tensor([number[letter] for letter in text]), len(number)


def batch_of(text: Tensor, size: int, context: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pieces of the text, and the same one letter later."""
    begins = torch.randint(len(text) - context - 1, (size, 1), generator=draw)
    at = begins + torch.arange(context)
    return text[at], text[at + 1]


def spread(model: GPT, asked: argparse.Namespace) -> nn.Module:
    """The model over all ranks: the same on each, or a part of its weights on each."""
    if asked.shard:
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        return model
    found = DistributedDataParallel(model, bucket_cap_mb=asked.bucket)
    if asked.hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=3)
        found.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif asked.hook:
        hook = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}[asked.hook]
        found.register_comm_hook(None, hook)
    return found


def train(asked: argparse.Namespace) -> None:
    rank = dist.get_rank()
    text, letters = read()
    shape = Shape(letters, layers=asked.layers, width=asked.width)
    torch.manual_seed(asked.seed)
    model = spread(GPT(shape), asked)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    draw = torch.Generator().manual_seed(1000 * asked.seed + rank)
    for step in range(asked.steps):
        optimiser.zero_grad()
        told = 0.0
        for part in range(asked.accumulate):
            is_last = part == asked.accumulate - 1
            with nullcontext() if is_last or asked.shard else model.no_sync():
                some, following = batch_of(text, asked.batch, shape.context, draw)
                odds = model(some)
                loss = nn.functional.cross_entropy(odds.flatten(0, 1), following.flatten()) / asked.accumulate
                loss.backward()
                told += loss.item()
        optimiser.step()
        print(f"{os.uname().nodename} step {step}: loss {told:.6f}", flush=True)
        if not math.isfinite(told):
            raise SystemExit("the loss is not finite")
        if asked.mark:
            import testbed  # other ways of starting this need it not

            testbed.mark()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4, help="pieces of text of each rank and part")
    parser.add_argument("--accumulate", type=int, default=1, help="parts of a batch before a sum over ranks")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--bucket", type=float, default=25, help="MB of gradient that DDP sums at once")
    parser.add_argument("--hook", choices=["fp16", "bf16", "powersgd"], help="of DDP's communication hooks")
    parser.add_argument("--mark", action="store_true", help="tell testbed where steps end that are not all alike")
    parser.add_argument("--shard", action="store_true", help="weights, with FSDP (fully_shard)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(asked)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
