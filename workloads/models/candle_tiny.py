"""A small CANDLE (TopoOpt, section 2.2): a tower of layers for features of drugs, one for those of cells, and dense
layers that take both, 280,322 parameters.
"""

from __future__ import annotations

from functools import partial

from testbed.workloads.models import operators
from testbed.workloads.models.operators import Operator, head, stack

FEATURES = 32
"""Number of features of a drug, and of a cell."""
INPUT_SHAPE = (2 * FEATURES,)
OUTPUTS = 2
_WIDTH = 256

_DRUG = stack("drug", (), (FEATURES, _WIDTH, _WIDTH))
_CELL = stack("cell", (), (FEATURES, _WIDTH, _WIDTH), at=FEATURES)
OPERATORS: tuple[Operator, ...] = (*_DRUG, *_CELL, *head((_DRUG[-1].name, _CELL[-1].name), (2 * _WIDTH, 256, OUTPUTS)))
LAYERS = tuple(operator.tensors for operator in OPERATORS)
build = partial(operators.build, OPERATORS)
"""The module: float32 samples [batch, 64] to scores [batch, 2] of "no response" and "response"."""
