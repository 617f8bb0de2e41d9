"""A model of one's own: ResNet-18 for images of 32 x 32 pixels (He et al. 2016, with the first layer of section 4.2).

A model is a class, or a function, that gives a torch.nn.Module from a batch of inputs to scores [batch, classes].
Arguments are its own: ``./net.py:ResNet18(classes=100)``.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels, and the stride of the first of two blocks."""


class Block(nn.Module):
    """Two convolutions, added to what came in."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, images: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(relu(self.norm1(self.conv1(images)))))
        return relu(inner + self.shortcut(images))


class ResNet18(nn.Module):
    """float32 images [batch, 3, 32, 32] to class scores [batch, classes]; 11,173,962 parameters for 10 classes."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(64)
        blocks, inputs = [], 64
        for outputs, stride in STAGES:
            blocks += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.fc(self.blocks(relu(self.norm(self.conv(images)))).mean((2, 3)))
        return scores
