"""ResNet-8: He et al. 2016, section 4.2, with n = 1: three stages of one block, 16, 32 and 64 channels, 6n + 2 layers.
The first convolution takes every second pixel, for the digits' 28 x 28 are enlarged from 8 x 8.

Group normalisation (Wu and He 2018) stands where theirs normalises by batch: statistics of a batch would be those of
one worker's part of it, so that many workers would not compute what one computes with all samples, and running
statistics would differ between workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

INPUT_SHAPE = (1, 28, 28)
OUTPUTS = 10
GROUPS = 4
STAGES = ((16, 16, 1), (16, 32, 2), (32, 64, 2))
"""Channels in, channels out, stride."""

Layer = tuple[tuple[str, tuple[int, ...]], ...]


def _layers() -> tuple[Layer, ...]:
    def conv(name: str, inputs: int, outputs: int, kernel: int = 3) -> Layer:
        return ((f"{name}.weight", (outputs, inputs, kernel, kernel)),)

    def norm(name: str, channels: int) -> Layer:
        return ((f"{name}.weight", (channels,)), (f"{name}.bias", (channels,)))

    found = [conv("conv", 1, STAGES[0][0]), norm("norm", STAGES[0][0])]
    for i, (inputs, outputs, stride) in enumerate(STAGES):
        if stride > 1:
            found.append(conv(f"blocks.{i}.shortcut", inputs, outputs, 1))
        found += [conv(f"blocks.{i}.conv1", inputs, outputs), norm(f"blocks.{i}.norm1", outputs)]
        found += [conv(f"blocks.{i}.conv2", outputs, outputs), norm(f"blocks.{i}.norm2", outputs)]
    return (*found, (("fc.weight", (OUTPUTS, STAGES[-1][1])), ("fc.bias", (OUTPUTS,))))


LAYERS = _layers()


def build() -> nn.Module:
    """Build the module: float32 images [batch, 1, 28, 28] to class scores [batch, 10]."""
    from torch import nn
    from torch.nn.functional import relu

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
            self.norm1 = nn.GroupNorm(GROUPS, outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
            self.norm2 = nn.GroupNorm(GROUPS, outputs)

        def forward(self, images: Tensor) -> Tensor:
            past: Tensor = self.shortcut(images)
            return relu(past + self.norm2(self.conv2(relu(self.norm1(self.conv1(images))))))

    class ResNet8(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, STAGES[0][0], 3, stride=2, padding=1, bias=False)
            self.norm = nn.GroupNorm(GROUPS, STAGES[0][0])
            self.blocks = nn.Sequential(*(Block(*stage) for stage in STAGES))
            self.fc = nn.Linear(STAGES[-1][1], OUTPUTS)

        def forward(self, images: Tensor) -> Tensor:
            scores: Tensor = self.fc(self.blocks(relu(self.norm(self.conv(images)))).mean((2, 3)))
            return scores

    return ResNet8()
