"""GPT-2 of the package transformers learns the text of Python's help(), with DistributedDataParallel. It is made from a
configuration, so nothing is downloaded.

torchrun --nproc-per-node 4 gpt2.py          # on one machine
testbed run experiments/torch/gpt2.yaml      # a rank a host, under each scheme of the spec
"""

import argparse
import os

import torch
import torch.distributed as dist
from gpt import batch_of, read
from torch.nn.parallel import DistributedDataParallel

try:
    from transformers import GPT2Config, GPT2LMHeadModel
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise SystemExit("gpt2.py needs the package transformers\n  fix: pip install 'transformers>=4.57'") from None


def train(asked: argparse.Namespace) -> None:
    text, letters = read()
    torch.manual_seed(asked.seed)
    shape = GPT2Config(
        vocab_size=letters,
        n_positions=asked.context,
        n_embd=asked.width,
        n_layer=asked.layers,
        n_head=4,
        bos_token_id=0,  # the model's own are beyond so few letters
        eos_token_id=0,
    )
    model = DistributedDataParallel(GPT2LMHeadModel(shape), bucket_cap_mb=asked.bucket)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    draw = torch.Generator().manual_seed(1000 * asked.seed + dist.get_rank())
    for step in range(asked.steps):
        some, _ = batch_of(text, asked.batch, asked.context, draw)
        loss = model(input_ids=some, labels=some).loss  # the model shifts the labels by one
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        print(f"{os.uname().nodename} step {step}: loss {loss.item():.6f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4, help="pieces of text of each rank")
    parser.add_argument("--context", type=int, default=64, help="letters of a piece")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--bucket", type=float, default=25, help="MB of gradient that DDP sums at once")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(asked)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
