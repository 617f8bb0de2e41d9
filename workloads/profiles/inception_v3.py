"""Inception V3 without its auxiliary classifier, for images of 3 x 299 x 299.

Source: Szegedy et al. 2016, Table 1 and figures 5 to 7, with the channels of the authors' code (TensorFlow,
slim/nets/inception_v3.py), which MXNet's symbols/inception-v3.py repeats. Every convolution has batch normalisation and
no bias.
"""

from __future__ import annotations

from testbed.workloads.profiles.convnets import CLASSES
from testbed.workloads.profiles.layers import Layer, Layers, Size, joined, pool

Step = tuple[int, int | tuple[int, int], int, int | tuple[int, int]]
"""One convolution: channels, kernel, stride, padding."""
ROW, COLUMN = (1, 7), (7, 1)


def inception_v3() -> list[Layer]:
    """Describe the whole network."""
    net = Layers()
    size = _chain(net, "stem1", (3, 299, 299), (32, 3, 2, 0), (32, 3, 1, 0), (64, 3, 1, 1))
    size = _chain(net, "stem2", pool(size, 3, 2), (80, 1, 1, 0), (192, 3, 1, 0))
    size = pool(size, 3, 2)
    for name, proj in (("5b", 32), ("5c", 64), ("5d", 64)):
        size = _figure5(net, f"mixed{name}", size, proj)
    size = _smaller35(net, "mixed6a", size)
    for name, inner in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        size = _figure6(net, f"mixed{name}", size, inner)
    size = _smaller17(net, "mixed7a", size)
    for name in ("7b", "7c"):
        size = _figure7(net, f"mixed{name}", size)
    net.linear("fc", size[0], CLASSES)
    return net.layers


def _chain(net: Layers, name: str, size: Size, *steps: Step) -> Size:
    """Add convolutions one after another."""
    for i, (out, kernel, stride, pad) in enumerate(steps, 1):
        conv = net.conv(f"{name}.{i}.conv", size, out, kernel, stride=stride, pad=pad)
        size = net.norm(f"{name}.{i}.bn", conv)
    return size


def _figure5(net: Layers, name: str, size: Size, proj: int) -> Size:
    """Add a block at 35 x 35: the 5x5 branch of GoogLeNet beside two 3x3."""
    return joined(
        [
            _chain(net, f"{name}.1x1", size, (64, 1, 1, 0)),
            _chain(net, f"{name}.5x5", size, (48, 1, 1, 0), (64, 5, 1, 2)),
            _chain(net, f"{name}.3x3", size, (64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 1, 1)),
            _chain(net, f"{name}.pool", size, (proj, 1, 1, 0)),
        ]
    )


def _smaller35(net: Layers, name: str, size: Size) -> Size:
    """Add a block from 35 x 35 to 17 x 17."""
    return joined(
        [
            _chain(net, f"{name}.3x3", size, (384, 3, 2, 0)),
            _chain(net, f"{name}.double", size, (64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 2, 0)),
            pool(size, 3, 2),
        ]
    )


def _figure6(net: Layers, name: str, size: Size, inner: int) -> Size:
    """Add a block at 17 x 17: 7x7 as 1x7 and 7x1."""
    row, column = (0, 3), (3, 0)
    return joined(
        [
            _chain(net, f"{name}.1x1", size, (192, 1, 1, 0)),
            _chain(net, f"{name}.7x7", size, (inner, 1, 1, 0), (inner, ROW, 1, row), (192, COLUMN, 1, column)),
            _chain(
                net,
                f"{name}.double",
                size,
                (inner, 1, 1, 0),
                (inner, COLUMN, 1, column),
                (inner, ROW, 1, row),
                (inner, COLUMN, 1, column),
                (192, ROW, 1, row),
            ),
            _chain(net, f"{name}.pool", size, (192, 1, 1, 0)),
        ]
    )


def _smaller17(net: Layers, name: str, size: Size) -> Size:
    """Add a block from 17 x 17 to 8 x 8."""
    seven: tuple[Step, ...] = ((192, ROW, 1, (0, 3)), (192, COLUMN, 1, (3, 0)))
    return joined(
        [
            _chain(net, f"{name}.3x3", size, (192, 1, 1, 0), (320, 3, 2, 0)),
            _chain(net, f"{name}.7x7", size, (192, 1, 1, 0), *seven, (192, 3, 2, 0)),
            pool(size, 3, 2),
        ]
    )


def _figure7(net: Layers, name: str, size: Size) -> Size:
    """Add a block at 8 x 8: 3x3 as 1x3 beside 3x1."""
    three = _chain(net, f"{name}.3x3", size, (384, 1, 1, 0))
    double = _chain(net, f"{name}.double", size, (448, 1, 1, 0), (384, 3, 1, 1))
    branches = [_chain(net, f"{name}.1x1", size, (320, 1, 1, 0))]
    for branch, before in ((f"{name}.3x3", three), (f"{name}.double", double)):
        branches.append(_chain(net, f"{branch}.row", before, (384, (1, 3), 1, (0, 1))))
        branches.append(_chain(net, f"{branch}.column", before, (384, (3, 1), 1, (1, 0))))
    return joined([*branches, _chain(net, f"{name}.pool", size, (192, 1, 1, 0))])
