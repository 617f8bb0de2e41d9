"""Shapes and sizes of the models against the published numbers and against the real modules."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from testbed.base.errors import SpecError
from testbed.workloads.catalogue import tensor_sizes
from testbed.workloads.models import MODELS, model


def test_lenet5_has_the_parameters_that_bml_states() -> None:
    sizes = tensor_sizes("lenet5")
    assert sum(floats for _, floats in sizes) == 3_274_634
    layers = [sum(f for name, f in sizes if name.startswith(layer)) for layer in ("conv1", "conv2", "fc1", "fc2")]
    assert layers == [832, 51_264, 3_212_288, 10_250]


def test_tensors_are_in_gradient_order() -> None:
    names = [name for name, _ in tensor_sizes("lenet5")]
    assert names[:3] == ["fc2.weight", "fc2.bias", "fc1.weight"]
    assert names[-2:] == ["conv1.weight", "conv1.bias"]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_declared_shapes_are_those_of_the_module(name: str) -> None:
    net = model(name)
    module = net.build()
    assert dict(net.tensors()) == {key: tuple(value.shape) for key, value in module.state_dict().items()}
    samples = torch.zeros(2, *net.input_shape, dtype=torch.int64 if name == "bert_tiny" else torch.float32)
    places = net.input_shape if name == "bert_tiny" else ()
    assert module(samples).shape == (2, net.outputs, *places)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_line_about_a_model_has_its_size(name: str) -> None:
    assert f"{model(name).floats():,} parameters" in model(name).doc


@pytest.mark.parametrize("name", sorted(MODELS))
def test_buckets_cover_the_buffer_layer_by_layer(name: str) -> None:
    net = model(name)
    spans = net.buckets()
    assert len(spans) == len(net.layers)
    assert [start for start, _ in spans] == [0] + [stop for _, stop in spans[:-1]]
    assert spans[-1][1] == net.floats() == sum(floats for _, floats in tensor_sizes(name))


def test_sizes_do_not_need_torch() -> None:
    code = "import sys, testbed.workloads.models as m; m.model('lenet5').tensors(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(SpecError) as caught:
        model("lenet")
    assert str(caught.value) == (
        "unknown model 'lenet'; there is bert_tiny, candle_tiny, dlrm_tiny, lenet5, resnet8\n"
        "  fix: did you mean 'lenet5'?"
    )


def test_unknown_model_far_from_any_lists_them() -> None:
    with pytest.raises(SpecError) as caught:
        model("gpt")
    assert str(caught.value) == (
        "unknown model 'gpt'\n  fix: use one of: bert_tiny, candle_tiny, dlrm_tiny, lenet5, resnet8"
    )
