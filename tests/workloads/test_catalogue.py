"""The list of models: each once, with the sizes of what would really be sent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from testbed.base.errors import SpecError
from testbed.workloads.catalogue import TRAINED_ON, check_dataset, models, tensor_sizes
from testbed.workloads.data.datasets import DATASETS, load
from testbed.workloads.models import MODELS, model
from testbed.workloads.played import played
from testbed.workloads.profiles import profiles


def test_every_model_is_listed_once() -> None:
    names = [one.name for one in models()]
    assert len(set(names)) == len(names)
    assert set(names) == MODELS.keys() | played().keys()


def test_sizes_are_those_of_the_tensors() -> None:
    for one in models():
        sizes = tensor_sizes(one.name)
        assert (one.parameters, one.tensors) == (sum(floats for _, floats in sizes), len(sizes))
        assert one.bytes == 4 * one.parameters


def test_a_model_that_is_both_has_one_size() -> None:
    assert sum(layer.floats for layer in profiles()["lenet5"].layers) == model("lenet5").floats()


def test_every_model_that_can_be_trained_fits_its_data() -> None:
    assert TRAINED_ON.keys() == MODELS.keys()
    assert {name for names in TRAINED_ON.values() for name in names} == DATASETS.keys()
    for name, datasets in TRAINED_ON.items():
        for dataset in datasets:
            data = load(dataset, 1)
            assert (data.input_shape, data.outputs) == (model(name).input_shape, model(name).outputs)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_a_plan_refuses_just_the_data_on_which_training_would_fail(name: str, dataset: str) -> None:
    data, net = load(dataset, 1), model(name)
    if (data.input_shape, data.outputs) == (net.input_shape, net.outputs):
        check_dataset(dataset, name)
        return
    with pytest.raises(SpecError, match=f"model '{name}' cannot be trained on '{dataset}'"):
        check_dataset(dataset, name)


def test_an_unknown_model_is_answered_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="unknown model 'resnet51'"):
        tensor_sizes("resnet51")


def test_listing_does_not_need_torch() -> None:
    code = "import sys, testbed.workloads.catalogue as c; c.models(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
