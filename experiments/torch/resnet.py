"""A residual network that learns scikit-learn's digits, with DistributedDataParallel, and tells testbed how it goes.

torchrun --nproc-per-node 4 resnet.py        # on one machine: testbed.mark() and testbed.log() do nothing there
testbed run experiments/torch/resnet.yaml    # a rank a host, under each scheme of the spec
"""

import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import testbed


class Residual(nn.Module):
    """Two convolutions whose result is added to their input (He et al. 2016)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.GroupNorm(4, channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.GroupNorm(4, channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.inner(x))


def network(channels: int, blocks: int) -> nn.Module:
    """From images of 8 x 8 pixels to the log-odds of ten digits."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        *(Residual(channels) for _ in range(blocks)),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * channels, 10),
    )


def train(epochs: int, batch: int, channels: int, blocks: int) -> None:
    torch.manual_seed(0)
    images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    data = TensorDataset(images.float().view(-1, 1, 8, 8) / 16, labels)
    sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, batch, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(network(channels, blocks))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for some, wanted in loader:
            loss = nn.functional.cross_entropy(model(some), wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            testbed.log(loss=loss, samples=len(some))
            testbed.mark()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(asked.epochs, asked.batch, asked.channels, asked.blocks)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
