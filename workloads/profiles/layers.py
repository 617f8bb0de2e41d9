"""Layers, with which architectures are written: the shapes of their tensors, and the cost of a forward pass in each.

A :class:`Layers` is filled in the order of the forward pass. Its methods take the size of what flows in and return the
size of what flows out, so that no number has to be written that follows from others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

Size = tuple[int, int, int]
"""Channels, height and width of the data that flows between layers."""
Pair = tuple[int, int]


@dataclass(frozen=True)
class Layer:
    """A module with parameters: its tensors' names and shapes, and multiply-adds of one sample's forward pass."""

    name: str
    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    macs: int

    @property
    def floats(self) -> int:
        """Number of parameters."""
        return sum(prod(shape) for _, shape in self.tensors)


class Layers:
    """Layers, in the order in which a forward pass computes them."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    def add(self, name: str, macs: int, **shapes: tuple[int, ...]) -> None:
        """Add a layer whose tensors are ``name.weight``, ``name.bias``, ..."""
        self.layers.append(Layer(name, tuple((f"{name}.{part}", shape) for part, shape in shapes.items()), macs))

    def conv(
        self,
        name: str,
        size: Size,
        out: int,
        kernel: int | Pair,
        *,
        stride: int = 1,
        pad: int | Pair = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> Size:
        """Add a convolution."""
        (channels, *_), (tall, wide) = size, _pair(kernel)
        after = pool(size, kernel, stride, pad, channels=out)
        shape = (out, channels // groups, tall, wide)
        biases: dict[str, tuple[int, ...]] = {"bias": (out,)} if bias else {}
        self.add(name, prod(shape) * after[1] * after[2], weight=shape, **biases)
        return after

    def norm(self, name: str, size: Size) -> Size:
        """Add batch normalisation: a scale and a shift for each channel; nobody sums running statistics."""
        self.add(name, prod(size), weight=(size[0],), bias=(size[0],))
        return size

    def linear(self, name: str, inputs: int, outputs: int, *, times: int = 1) -> int:
        """Add a fully connected layer with bias, applied ``times`` a sample (to each token); return ``outputs``."""
        self.add(name, times * inputs * outputs, weight=(outputs, inputs), bias=(outputs,))
        return outputs


def pool(size: Size, kernel: int | Pair, stride: int, pad: int | Pair = 0, *, channels: int | None = None) -> Size:
    """Compute the size after a window has moved over it: floor((n + 2 pad - kernel) / stride) + 1 each way."""
    tall, wide = ((n + 2 * p - k) // stride + 1 for n, k, p in zip(size[1:], _pair(kernel), _pair(pad), strict=True))
    return channels or size[0], tall, wide


def joined(*sizes: Size) -> Size:
    """Compute the size of the channels of several branches together."""
    return sum(channels for channels, *_ in sizes), *sizes[0][1:]


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int) else value
