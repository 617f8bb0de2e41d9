"""LeNet-5 with 3,274,634 parameters: the network of TensorFlow's MNIST tutorial, which BML trained (section 5).

Two 5x5 convolutions with "same" padding, each followed by 2x2 max pooling, then two fully connected layers. Pooling
comes before ReLU; both orders give the same values (the maximum and ReLU commute) and this one computes a quarter.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

INPUT_SHAPE = (1, 28, 28)
OUTPUTS = 10
LAYERS = (
    (("conv1.weight", (32, 1, 5, 5)), ("conv1.bias", (32,))),
    (("conv2.weight", (64, 32, 5, 5)), ("conv2.bias", (64,))),
    (("fc1.weight", (1024, 3136)), ("fc1.bias", (1024,))),
    (("fc2.weight", (10, 1024)), ("fc2.bias", (10,))),
)


def build() -> nn.Module:
    """Build the module: float32 images [batch, 1, 28, 28] to class scores [batch, 10]."""
    from torch import nn

    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(1, 32, 5, padding=2),
            pool1=nn.MaxPool2d(2),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 64, 5, padding=2),
            pool2=nn.MaxPool2d(2),
            relu2=nn.ReLU(),
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * 7 * 7, 1024),
            relu3=nn.ReLU(),
            fc2=nn.Linear(1024, OUTPUTS),
        )
    )
