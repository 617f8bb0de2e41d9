"""Trains a small model with DistributedDataParallel over Gloo. Nothing in here knows of testbed."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    steps = parser.parse_args().steps
    dist.init_process_group("gloo")
    train(steps)
    dist.destroy_process_group()


def train(steps: int) -> None:
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        inputs, labels = torch.randn(32, 512), torch.randint(10, (32,))
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        print(f"rank {dist.get_rank()} step {step}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
