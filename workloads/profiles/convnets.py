"""Convolutional networks of the papers, for images of 3 x 224 x 224 (Inception V3: 299 x 299) and 1,000 classes.

Inception V3 is without its auxiliary classifier: Szegedy et al. 2016, Table 1 and figures 5 to 7, with the channels of
the authors' code (TensorFlow, slim/nets/inception_v3.py), which MXNet's symbols/inception-v3.py repeats. Every
convolution of it has batch normalisation and no bias.
"""

from __future__ import annotations

from math import prod

from testbed.workloads.profiles.layers import Layer, Layers, Size, joined, pool

CLASSES = 1000
IMAGE: Size = (3, 224, 224)

VGG = {
    11: ((64,), (128,), (256, 256), (512, 512), (512, 512)),
    16: ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3),
    19: ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4),
}
"""Simonyan and Zisserman 2015, Table 1, columns A, D and E: channels of the convolutions before each pooling."""

RESNET = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 269: (3, 30, 48, 8)}
"""Number of blocks in each stage: He et al. 2016, Table 1; 269 as MXNet's
example/image-classification/symbols/resnet.py, which the thesis trained (6.1.2)."""

INCEPTION = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Szegedy et al. 2015, Table 1: channels of 1x1, 3x3's reduction, 3x3, 5x5's reduction, 5x5, and behind the pooling."""


def alexnet() -> list[Layer]:
    """Describe AlexNet on one GPU, without groups: MXNet's symbols/alexnet.py, which the thesis trained (6.1.2)."""
    net = Layers()
    size = pool(net.conv("conv1", IMAGE, 96, 11, stride=4, bias=True), 3, 2)
    size = pool(net.conv("conv2", size, 256, 5, pad=2, bias=True), 3, 2)
    for name, out in (("conv3", 384), ("conv4", 384), ("conv5", 256)):
        size = net.conv(name, size, out, 3, pad=1, bias=True)
    return _classify(net, prod(pool(size, 3, 2)))


def vgg(depth: int) -> list[Layer]:
    """Describe a VGG (:data:`VGG`), without batch normalisation."""
    net, size = Layers(), IMAGE
    for stage, channels in enumerate(VGG[depth], 1):
        for i, out in enumerate(channels, 1):
            size = net.conv(f"conv{stage}_{i}", size, out, 3, pad=1, bias=True)
        size = pool(size, 2, 2)
    return _classify(net, prod(size))


def googlenet() -> list[Layer]:
    """Describe GoogLeNet (:data:`INCEPTION`) without auxiliary classifiers, as MXNet's symbols/googlenet.py."""
    net = Layers()
    size = pool(net.conv("conv1", IMAGE, 64, 7, stride=2, pad=3, bias=True), 3, 2, 1)
    size = net.conv("conv2.reduce", size, 64, 1, bias=True)
    size = pool(net.conv("conv2", size, 192, 3, pad=1, bias=True), 3, 2, 1)
    for name, (one, red3, three, red5, five, proj) in INCEPTION.items():
        if name in ("4a", "5a"):
            size = pool(size, 3, 2, 1)
        reduced3 = net.conv(f"inception{name}.3x3_reduce", size, red3, 1, bias=True)
        reduced5 = net.conv(f"inception{name}.5x5_reduce", size, red5, 1, bias=True)
        branches = [
            net.conv(f"inception{name}.1x1", size, one, 1, bias=True),
            net.conv(f"inception{name}.3x3", reduced3, three, 3, pad=1, bias=True),
            net.conv(f"inception{name}.5x5", reduced5, five, 5, pad=2, bias=True),
            net.conv(f"inception{name}.pool_proj", size, proj, 1, bias=True),
        ]
        size = joined(*branches)
    net.linear("fc", size[0], CLASSES)
    return net.layers


def resnet(depth: int) -> list[Layer]:
    """Describe a ResNet (:data:`RESNET`): two 3x3 convolutions a block at depth 18, else bottlenecks."""
    return _residual(depth, bottleneck=depth >= 50, width=1, groups=1)


def resnext(depth: int) -> list[Layer]:
    """Describe ResNeXt 32x4d: bottlenecks of twice the width, and 32 groups (Xie et al. 2017, Table 1)."""
    return _residual(depth, bottleneck=True, width=2, groups=32)


def _residual(depth: int, *, bottleneck: bool, width: int, groups: int) -> list[Layer]:
    net = Layers()
    size = pool(net.norm("bn1", net.conv("conv1", IMAGE, 64, 7, stride=2, pad=3)), 3, 2, 1)
    for stage, blocks in enumerate(RESNET[depth]):
        inner = 64 * 2**stage
        out = 4 * inner if bottleneck else inner
        for i in range(blocks):
            stride = 2 if stage and i == 0 else 1
            name = f"layer{stage + 1}.{i}"
            if bottleneck:
                after = _conv_norm(net, f"{name}.1", size, width * inner, 1)
                after = _conv_norm(net, f"{name}.2", after, width * inner, 3, stride, 1, groups)
                after = _conv_norm(net, f"{name}.3", after, out, 1)
            else:
                after = _conv_norm(net, f"{name}.1", size, inner, 3, stride, 1)
                after = _conv_norm(net, f"{name}.2", after, inner, 3, 1, 1)
            if size != after:
                _conv_norm(net, f"{name}.shortcut", size, out, 1, stride)
            size = after
    net.linear("fc", size[0], CLASSES)
    return net.layers


def _conv_norm(
    net: Layers,
    name: str,
    size: Size,
    out: int,
    kernel: int | tuple[int, int],
    stride: int = 1,
    pad: int | tuple[int, int] = 0,
    groups: int = 1,
) -> Size:
    """Add a convolution without bias, and batch normalisation."""
    return net.norm(f"{name}.bn", net.conv(f"{name}.conv", size, out, kernel, stride=stride, pad=pad, groups=groups))


def _classify(net: Layers, features: int) -> list[Layer]:
    """Add the three fully connected layers of AlexNet and VGG."""
    hidden = net.linear("fc6", features, 4096)
    net.linear("fc8", net.linear("fc7", hidden, 4096), CLASSES)
    return net.layers


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
        _chain(net, f"{name}.1x1", size, (64, 1, 1, 0)),
        _chain(net, f"{name}.5x5", size, (48, 1, 1, 0), (64, 5, 1, 2)),
        _chain(net, f"{name}.3x3", size, (64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 1, 1)),
        _chain(net, f"{name}.pool", size, (proj, 1, 1, 0)),
    )


def _smaller35(net: Layers, name: str, size: Size) -> Size:
    """Add a block from 35 x 35 to 17 x 17."""
    return joined(
        _chain(net, f"{name}.3x3", size, (384, 3, 2, 0)),
        _chain(net, f"{name}.double", size, (64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 2, 0)),
        pool(size, 3, 2),
    )


def _figure6(net: Layers, name: str, size: Size, inner: int) -> Size:
    """Add a block at 17 x 17: 7x7 as 1x7 and 7x1."""
    row, column = (0, 3), (3, 0)
    return joined(
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
    )


def _smaller17(net: Layers, name: str, size: Size) -> Size:
    """Add a block from 17 x 17 to 8 x 8."""
    seven: tuple[Step, ...] = ((192, ROW, 1, (0, 3)), (192, COLUMN, 1, (3, 0)))
    return joined(
        _chain(net, f"{name}.3x3", size, (192, 1, 1, 0), (320, 3, 2, 0)),
        _chain(net, f"{name}.7x7", size, (192, 1, 1, 0), *seven, (192, 3, 2, 0)),
        pool(size, 3, 2),
    )


def _figure7(net: Layers, name: str, size: Size) -> Size:
    """Add a block at 8 x 8: 3x3 as 1x3 beside 3x1."""
    three = _chain(net, f"{name}.3x3", size, (384, 1, 1, 0))
    double = _chain(net, f"{name}.double", size, (448, 1, 1, 0), (384, 3, 1, 1))
    branches = [_chain(net, f"{name}.1x1", size, (320, 1, 1, 0))]
    for branch, before in ((f"{name}.3x3", three), (f"{name}.double", double)):
        branches.append(_chain(net, f"{branch}.row", before, (384, (1, 3), 1, (0, 1))))
        branches.append(_chain(net, f"{branch}.column", before, (384, (3, 1), 1, (1, 0))))
    return joined(*branches, _chain(net, f"{name}.pool", size, (192, 1, 1, 0)))
