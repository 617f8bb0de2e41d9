"""Convolutional networks of the papers, for images of 3 x 224 x 224 (Inception V3: 299 x 299) and 1,000 classes."""

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
    """Describe GoogLeNet (:data:`INCEPTION`) without its two auxiliary classifiers, as in MXNet's
    symbols/googlenet.py."""
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
        size = joined(branches)
    net.linear("fc", size[0], CLASSES)
    return net.layers


def resnet(depth: int) -> list[Layer]:
    """Describe a ResNet (:data:`RESNET`): two 3x3 convolutions a block at depth 18, else bottlenecks."""
    return _residual(depth, bottleneck=depth >= 50, width=1, groups=1)


def resnext(depth: int) -> list[Layer]:
    """Describe ResNeXt 32x4d: bottlenecks of twice the width whose 3x3 convolution has 32 groups (Xie et al. 2017,
    Table 1)."""
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
