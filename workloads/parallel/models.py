"""The models of TopoOpt as operators: section 2.2, Table 2 (sections 5.3 and 5.4) and Table 4 (section 6).

The tables give numbers of layers, their sizes and batches. What else is needed is assumed, and each model says what
(``assumed``). A server is one GPU, so a batch of so many samples a GPU is as many a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import groupby
from math import prod

from testbed.workloads.models import candle_tiny, dlrm_tiny
from testbed.workloads.models import operators as trained
from testbed.workloads.parallel.operators import FLOAT_BYTES, Model, Operator, model
from testbed.workloads.profiles import profile
from testbed.workloads.profiles.layers import Layer
from testbed.workloads.registry import lookup

ROWS = 10**7
"""Rows of each embedding table (section 2.2; Table 2)."""
_GIB = 2**30
_WORDS = 30_522
_DOUBLES_512 = 1024
"""Floats that take as many bytes as 512 doubles."""


@cache
def operators_of(name: str) -> Model:
    """Return the model called ``name``.

    Raises:
        SpecError: there is none of that name.
    """
    return model(lookup("model", name, _BUILDERS)())


def _dlrm_2_2() -> Model:
    tables = tuple(_table(place, 512, _DOUBLES_512) for place in range(4))
    floats = 4 * _GIB * 16 // 30 // FLOAT_BYTES
    dense = _part("dense", tables, floats, 1)
    return Model(
        "dlrm",
        (*tables, dense),
        8192,
        "section 2.2, with the batch of Appendix B",
        (
            "a table's 512 columns have 4 bytes each in memory (20 GB, section 2.2), and 8 on the wire (Appendix B)",
            "all else has the gradient whose AllReduce transfers are 4 GiB on 16 servers, and a multiply-add a weight",
        ),
    )


def _candle_2_2() -> Model:
    towers = [_part(name, (), _GIB, _DOUBLES_512) for name in ("drug", "cell")]
    dense = _part("dense", towers, _GIB // FLOAT_BYTES, 1)
    return Model(
        "candle",
        (*towers, dense),
        8192,
        "section 2.2",
        (
            "batch and activations are those of the DLRM in Appendix B",
            "all else has 1 GiB, and each weight one multiply-add",
        ),
    )


def _dlrm(name: str, source: str, samples: int, layers: Sequence[tuple[int, int]], tables: tuple[int, int]) -> Model:
    """Build a DLRM: number and size of dense and of feature layers; number and columns of tables."""
    (dense, dense_size), (features, feature_size) = layers
    count, columns = tables
    found = [_table(place, columns, columns) for place in range(count)]
    bottom = _layers("feature", (), feature_size, (feature_size,) * features)
    top = _layers("dense", (bottom[-1], *found), feature_size + count * columns, (dense_size,) * dense)
    return Model(
        name,
        (*found, *bottom, *top),
        samples,
        source,
        (
            "a sample has as many dense features as a feature layer is wide, and one row of each table",
            "the first dense layer takes the last feature layer's output and all rows, side by side",
        ),
    )


def _candle(name: str, source: str, samples: int, layers: Sequence[tuple[int, int]]) -> Model:
    """Build a CANDLE; ``layers`` are number and size of dense layers and of dense feature layers."""
    (dense, dense_size), (features, feature_size) = layers
    towers = [_layers(tower, (), feature_size, (feature_size,) * (features // 2)) for tower in ("drug", "cell")]
    top = _layers("dense", [tower[-1] for tower in towers], 2 * feature_size, (dense_size,) * dense)
    return Model(
        name,
        (*towers[0], *towers[1], *top),
        samples,
        source,
        (
            "half of the feature layers are a tower for drugs, the others one for cells (section 2.2 has two)",
            "a tower's first layer takes as many features as it is wide",
        ),
    )


def _bert(name: str, source: str, samples: int, blocks: tuple[int, int], text: tuple[int, int]) -> Model:
    """Build a BERT: number and hidden size of blocks; length of a sequence and size of an embedding."""
    (count, hidden), (tokens, embedding) = blocks, text
    words = Operator("words", (), (_floats(_WORDS * embedding),), tokens * embedding, tokens * embedding, embedding)
    found = [words, _each_token("project", words, tokens, embedding * hidden, hidden)]
    for block in range(count):
        scores = 2 * tokens * tokens * hidden
        attention = _each_token(f"block{block}.attention", found[-1], tokens, 4 * hidden * hidden, hidden, scores)
        found += [attention, _each_token(f"block{block}.inner", attention, tokens, 8 * hidden * hidden, hidden)]
    return Model(
        name,
        tuple(found),
        samples,
        source,
        (
            "the words are BERT's 30,522, and a layer makes hidden states of their embeddings",
            "a block's inner layer is four times as wide as its hidden states; biases, norms and heads are left out",
        ),
    )


def _each_token(
    name: str, taken: Operator, tokens: int, weights: int, outputs: int, multiply_adds: int = 0
) -> Operator:
    """Build an operator whose weights are applied to every token; ``multiply_adds`` come on top."""
    return Operator(name, (taken.name,), (_floats(weights),), tokens * weights + multiply_adds, tokens * outputs)


def _profiled(name: str, source: str, samples: int, network: str, assumed: str) -> Model:
    """Build the model of a network of :mod:`testbed.workloads.profiles`: a chain of layers, or of blocks of them."""
    found: list[Operator] = []
    for block, group in groupby(profile(network).layers, lambda layer: ".".join(layer.name.split(".")[:2])):
        layers = list(group)
        tensors = tuple(_floats(layer.floats) for layer in layers)
        inputs = (found[-1].name,) if found else ()
        found.append(Operator(block, inputs, tensors, sum(one.macs for one in layers), _output_floats(layers[-1])))
    pooling = "a pooling belongs to the layer after it"
    return Model(name, tuple(found), samples, source, (assumed, pooling))


def _output_floats(layer: Layer) -> int:
    """Count a layer's outputs: each takes as many multiply-adds as a weight has entries for one channel."""
    (_, shape), *_ = layer.tensors
    return layer.macs // prod(shape[1:])


def _table(place: int, columns: int, output_floats: int) -> Operator:
    """Build an embedding table. A look-up adds each float of a row once."""
    return Operator(f"e{place}", (), (_floats(ROWS * columns),), output_floats, output_floats, columns)


def _part(name: str, inputs: Sequence[Operator], floats: int, output_floats: int) -> Operator:
    """Build a part of a model of which only the size is known."""
    return Operator(name, tuple(one.name for one in inputs), (_floats(floats),), floats, output_floats)


def _layers(name: str, inputs: Sequence[Operator], features: int, sizes: Sequence[int]) -> list[Operator]:
    """Build fully connected layers with biases; the first takes ``features`` floats of ``inputs``."""
    found: list[Operator] = []
    for place, size in enumerate(sizes):
        taken = tuple(one.name for one in (found[-1:] or inputs))
        tensors = (_floats(features * size), _floats(size))
        found.append(Operator(f"{name}{place}", taken, tensors, features * size, size))
        features = size
    return found


def _trained(name: str, operators: Sequence[trained.Operator], assumed: str) -> Model:
    """Build a model that we train ourselves."""
    found = (
        Operator(
            one.name,
            one.inputs,
            tuple(_floats(prod(shape)) for _, shape in one.tensors),
            one.multiply_adds,
            one.output_floats,
            one.columns,
        )
        for one in operators
    )
    return Model(name, tuple(found), 64, "section 2.2, small enough to be trained here", (assumed,))


def _floats(count: int) -> int:
    return count * FLOAT_BYTES


_TABLE_2 = ("Table 2, upper row (section 5.3)", "Table 2, lower row (section 5.4)")
_TABLE_4 = "Table 4 (section 6)"
_VGG16 = "it is VGG-16 for images of 224 x 224 and 1,000 classes (section 5.4 names VGG16)"
_RESNET50 = "images of CIFAR10 are scaled to 224 x 224, and there are 1,000 classes"

_BUILDERS: dict[str, Callable[[], Model]] = {
    "dlrm": _dlrm_2_2,
    "candle": _candle_2_2,
    "vgg_dedicated": partial(_profiled, "vgg_dedicated", _TABLE_2[0], 64, "vgg16", _VGG16),
    "bert_dedicated": partial(_bert, "bert_dedicated", _TABLE_2[0], 16, (12, 1024), (64, 512)),
    "dlrm_dedicated": partial(_dlrm, "dlrm_dedicated", _TABLE_2[0], 128, ((8, 2048), (16, 4096)), (64, 128)),
    "candle_dedicated": partial(_candle, "candle_dedicated", _TABLE_2[0], 256, ((8, 16384), (16, 16384))),
    "vgg_shared": partial(_profiled, "vgg_shared", _TABLE_2[1], 64, "vgg16", _VGG16),
    "bert_shared": partial(_bert, "bert_shared", _TABLE_2[1], 16, (6, 768), (256, 512)),
    "dlrm_shared": partial(_dlrm, "dlrm_shared", _TABLE_2[1], 256, ((8, 1024), (16, 2048)), (16, 256)),
    "candle_shared": partial(_candle, "candle_shared", _TABLE_2[1], 256, ((8, 4096), (16, 4096))),
    "resnet50_testbed": partial(_profiled, "resnet50_testbed", _TABLE_4, 20, "resnet50", _RESNET50),
    "bert_testbed": partial(_bert, "bert_testbed", _TABLE_4, 2, (4, 768), (64, 512)),
    "candle_testbed": partial(_candle, "candle_testbed", _TABLE_4, 10, ((4, 4096), (8, 4096))),
    "dlrm_tiny": partial(_trained, "dlrm_tiny", dlrm_tiny.OPERATORS, "8 tables of 10,000 rows, and all other sizes"),
    "candle_tiny": partial(_trained, "candle_tiny", candle_tiny.OPERATORS, "all sizes"),
}
"""Builders of the models, by name: section 2.2, clusters of 5.3 and 5.4, the prototype (6), and ours."""
NAMES = tuple(_BUILDERS)
