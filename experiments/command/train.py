"""A model trained on handwritten digits with DistributedDataParallel over Gloo; nothing in here knows of testbed.

torchrun --nproc-per-node 4 train.py         # on one machine
testbed run experiments/command/ddp.yaml     # a rank a host, on the network of each arm
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=512, help="of the two hidden layers")
    asked = parser.parse_args()
    dist.init_process_group("gloo")
    train(asked.steps, asked.width)
    dist.destroy_process_group()  # with the model gone, whose last work Gloo's threads may hold until then


def train(steps: int, width: int) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    images, labels = images[rank::world].float() / 16, labels[rank::world]
    layers = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(width, 10)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        batch = torch.arange(32) + 32 * step
        loss = nn.functional.cross_entropy(model(images[batch % len(images)]), labels[batch % len(labels)])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if rank == 0:
            print(f"{os.uname().nodename} step {step}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
