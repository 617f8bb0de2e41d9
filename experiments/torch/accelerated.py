"""The GPT of gpt.py, trained with the package accelerate: it starts the process group, spreads model and data over the
ranks, and adds up the gradients of several parts of a batch.

accelerate launch --cpu --num_processes 4 accelerated.py    # on one machine
testbed run experiments/torch/accelerate.yaml               # a rank a host, under each scheme of the spec
"""

import argparse
import os

import torch
from gpt import GPT, Shape, read
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    from accelerate import Accelerator
    from accelerate.utils import set_seed
except ModuleNotFoundError as error:
    if error.name != "accelerate":
        raise
    raise SystemExit("accelerated.py needs the package accelerate\n  fix: pip install 'accelerate>=1.10'") from None


def train(asked: argparse.Namespace) -> None:
    accelerator = Accelerator(gradient_accumulation_steps=asked.accumulate)
    set_seed(asked.seed)
    text, letters = read()
    shape = Shape(letters)
    pieces = text[: len(text) // shape.context * shape.context].view(-1, shape.context)
    loader = DataLoader(TensorDataset(pieces), batch_size=asked.batch, shuffle=True, drop_last=True)
    model = GPT(shape)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model, optimiser, loader = accelerator.prepare(model, optimiser, loader)
    for part, (some,) in zip(range(asked.steps * asked.accumulate), loader, strict=False):
        with accelerator.accumulate(model):
            odds = model(some[:, :-1])
            loss = nn.functional.cross_entropy(odds.flatten(0, 1), some[:, 1:].flatten())
            accelerator.backward(loss)
            optimiser.step()
            optimiser.zero_grad()
        if accelerator.sync_gradients:
            print(f"{os.uname().nodename} step {part // asked.accumulate}: loss {loss.item():.6f}", flush=True)
    accelerator.end_training()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4, help="pieces of text of each rank and part")
    parser.add_argument("--accumulate", type=int, default=2, help="parts of a batch before a sum over ranks")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    train(asked)


if __name__ == "__main__":
    main()
