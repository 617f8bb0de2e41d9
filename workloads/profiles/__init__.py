"""Profiles of published models: the layers of their gradients, computed from the architecture, and measured times.

Nothing of them is trained: a trial plays a profile back with random values (:mod:`testbed.workloads.learning.replay`).
Times are those of the PHub thesis, Table 6.1: forward and backward pass of one batch on a GTX 1080 Ti.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod

from testbed.workloads.models import MODELS
from testbed.workloads.profiles.bert import bert_base
from testbed.workloads.profiles.convnets import alexnet, googlenet, inception_v3, resnet, resnext, vgg
from testbed.workloads.profiles.layers import Layer
from testbed.workloads.registry import lookup

TABLE_6_1 = "PHub thesis, Table 6.1"


@dataclass(frozen=True)
class Profile:
    """A published model.

    Attributes:
        doc: what it is and where it is from, in one line.
        build: makes its layers.
        times_s: by batch, the time of a forward and backward pass (:data:`TABLE_6_1`).
    """

    name: str
    doc: str
    build: Callable[[], Sequence[Layer]]
    times_s: dict[int, float] = field(default_factory=dict)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Its layers in the order of the forward pass."""
        return tuple(self.build())


def profiles() -> dict[str, Profile]:
    """Return every profile, by name."""
    return {profile.name: profile for profile in _PROFILES}


def profile(name: str) -> Profile:
    """Return the profile called ``name``.

    Raises:
        SpecError: there is none of that name.
    """
    return lookup("model", name, profiles())


def _lenet5() -> list[Layer]:
    """Return the LeNet-5 that can be trained; multiply-adds are weights times the places they are applied at."""
    places = {"conv1": 28 * 28, "conv2": 14 * 14, "fc1": 1, "fc2": 1}
    found = []
    for tensors in MODELS["lenet5"].layers:
        (weight, shape), _ = tensors
        name = weight.removesuffix(".weight")
        found.append(Layer(name, tensors, places[name] * prod(shape)))
    return found


_PROFILES = (
    Profile("lenet5", "LeNet-5 as BML trained it (BML section 5)", _lenet5),
    Profile("alexnet", "AlexNet on one GPU (Krizhevsky et al. 2012), as MXNet has it", alexnet, {32: 0.016}),
    Profile("vgg11", "VGG, 11 layers (Simonyan and Zisserman 2015)", partial(vgg, 11), {32: 0.121}),
    Profile("vgg16", "VGG, 16 layers (Simonyan and Zisserman 2015)", partial(vgg, 16)),
    Profile("vgg19", "VGG, 19 layers (Simonyan and Zisserman 2015)", partial(vgg, 19), {32: 0.268}),
    Profile("googlenet", "GoogLeNet without auxiliary heads (Szegedy et al. 2015)", googlenet, {32: 0.100}),
    Profile("inception_v3", "Inception V3 without auxiliary head (Szegedy et al. 2016)", inception_v3, {32: 0.225}),
    Profile("resnet18", "ResNet, 18 layers (He et al. 2016)", partial(resnet, 18), {32: 0.054}),
    Profile("resnet50", "ResNet, 50 layers (He et al. 2016)", partial(resnet, 50), {32: 0.161}),
    Profile("resnet101", "ResNet, 101 layers (He et al. 2016)", partial(resnet, 101)),
    Profile("resnet152", "ResNet, 152 layers (He et al. 2016)", partial(resnet, 152)),
    Profile("resnet269", "ResNet, 269 layers, as MXNet has it", partial(resnet, 269), {16: 0.350}),
    Profile("resnext269", "ResNeXt 32x4d, 269 layers, as MXNet has it", partial(resnext, 269), {8: 0.386}),
    Profile("bert_base", "BERT-base without heads (Devlin et al. 2019)", bert_base),
)
