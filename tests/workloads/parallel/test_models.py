"""TopoOpt's models against the numbers that its text and tables give."""

from __future__ import annotations

from math import prod

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from testbed.base.errors import SpecError
from testbed.workloads.models import model as trained
from testbed.workloads.parallel.models import NAMES, operators_of
from testbed.workloads.parallel.operators import Model, Operator, cut, model
from testbed.workloads.profiles import profile
from tests.workloads.parallel.small import CHAIN, TABLES


@pytest.mark.parametrize("name", NAMES)
def test_models_make_sense_and_say_what_they_assume(name: str) -> None:
    found = operators_of(name)
    assert found.name == name
    assert found.source
    assert found.assumed
    assert found.samples > 0


@pytest.mark.parametrize(
    ("name", "samples", "columns", "tables"), [("dlrm_dedicated", 128, 128, 64), ("dlrm_shared", 256, 256, 16)]
)
def test_tables_of_table_2(name: str, samples: int, columns: int, tables: int) -> None:
    found = operators_of(name)
    assert found.samples == samples
    sizes = {operator.weight_bytes for operator in found.operators if operator.columns}
    assert sizes == {columns * 10**7 * 4}
    assert sum(operator.columns > 0 for operator in found.operators) == tables
    top = found.operators[found.index["dense0"]]
    assert len(top.inputs) == tables + 1


def test_a_table_of_section_2_2_has_20_gb_and_sends_32_mib_a_server() -> None:
    found = operators_of("dlrm")
    table = found.operators[0]
    assert table.weight_bytes == 512 * 10**7 * 4
    assert found.samples * table.output_bytes == 32 * 2**20


def test_layers_of_a_profile_keep_all_weights_and_multiply_adds() -> None:
    layers = profile("resnet50").layers
    operators = operators_of("resnet50_testbed").operators
    assert sum(one.weight_bytes for one in operators) == 4 * sum(layer.floats for layer in layers)
    assert sum(one.multiply_adds for one in operators) == sum(layer.macs for layer in layers)
    outputs = {one.name: one.output_floats for one in operators}
    assert outputs["conv1"] == 64 * 112 * 112
    assert outputs["layer4.2"] == 2048 * 7 * 7
    assert outputs["fc"] == 1000


def test_a_block_of_bert_has_twelve_times_the_square_of_its_hidden_size() -> None:
    found = operators_of("bert_dedicated")
    block = [one for one in found.operators if one.name.startswith("block3.")]
    assert sum(one.weight_bytes for one in block) == 4 * 12 * 1024**2
    assert len(found.operators) == 2 + 2 * 12


def test_dlrm_tiny_has_eight_tables_and_a_dense_part() -> None:
    operators = operators_of("dlrm_tiny").operators
    tables = [one for one in operators if one.columns]
    assert [(one.name, one.weight_bytes) for one in tables] == [(f"e{i}", 4 * 10_000 * 32) for i in range(8)]
    assert sum(one.weight_bytes for one in operators if not one.columns) == pytest.approx(4 * 0.35e6, rel=0.01)


@pytest.mark.parametrize("name", ["dlrm_tiny", "candle_tiny"])
def test_operators_are_those_of_the_module_that_is_trained(name: str) -> None:
    """Layer by layer the same weights, and as many multiply-adds as PyTorch counts."""
    net, operators = trained(name), operators_of(name).operators
    for layer, operator in zip(net.layers, operators, strict=True):
        assert [4 * prod(shape) for _, shape in layer] == list(operator.tensors)
        assert {tensor.split(".")[0] for tensor, _ in layer} == {operator.name}
    with FlopCounterMode(display=False) as counted:
        net.build()(torch.zeros(5, *net.input_shape))
    assert counted.get_total_flops() == 2 * 5 * sum(one.multiply_adds for one in operators if not one.columns)


def test_cut_tables_have_all_rows_and_a_part_of_the_columns() -> None:
    pieces = cut(TABLES, 4)
    assert [one.name for one in pieces.operators][:5] == ["e0.0", "e0.1", "e0.2", "e0.3", "e1.0"]
    assert pieces.operators[-1].inputs == tuple(f"e{i}.{j}" for i in range(4) for j in range(4))
    for quantity in ("weight_bytes", "multiply_adds", "output_floats", "columns"):
        assert sum(getattr(one, quantity) for one in pieces.operators) == sum(
            getattr(one, quantity) for one in TABLES.operators
        )
    assert cut(TABLES, 1) == TABLES


@pytest.mark.parametrize(
    ("whole", "parts", "said"), [(TABLES, 5, "64 columns"), (CHAIN, 2, "0 tables"), (TABLES, 0, "4 tables")]
)
def test_cuts_that_make_no_sense(whole: Model, parts: int, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        cut(whole, parts)


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        ((), "0 operators"),
        ((Operator("a", (), (), 0, 1), Operator("a", (), (), 0, 1)), "named like another"),
        ((Operator("rest", (), (), 0, 1),), "named like another"),
        ((Operator("a", ("b",), (), 0, 1), Operator("b", (), (), 0, 1)), "a takes the output of 'b'"),
        ((Operator("a", (), (), 0, 1), Operator("b", ("a", "a"), (), 0, 1)), "does not come before it once"),
        ((Operator("a", (), (-4,), 0, 1),), "a size below 0"),
        ((Operator("a", (), (4,), 0, 0),), "no output"),
    ],
)
def test_models_that_make_no_sense(operators: tuple[Operator, ...], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        model(Model("mine", operators, 1))


def test_an_unknown_model_is_told_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean 'dlrm_shared'"):
        operators_of("dlrm_sharde")
