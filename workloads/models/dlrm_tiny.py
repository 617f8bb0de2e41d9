"""A small DLRM (Naumov et al. 2019; TopoOpt, section 2.2): eight embedding tables of 10,000 x 32, 2,560,000 floats,
and a dense part of 349,282.

As in :mod:`testbed.workloads.parallel.models`, the first dense layer takes what the feature layers make and all rows,
side by side.
"""

from __future__ import annotations

from functools import partial

from testbed.workloads.models import operators
from testbed.workloads.models.operators import Operator, Table, head, stack

FEATURES, TABLES, ROWS, COLUMNS = 16, 8, 10_000, 32
INPUT_SHAPE = (FEATURES + TABLES,)
"""Shape of a sample: dense features, and a row's number for each table."""
OUTPUTS = 2
_WIDTH = 256

_TABLES = tuple(Table(f"e{place}", FEATURES + place, ROWS, COLUMNS) for place in range(TABLES))
_BOTTOM = stack("feature", (), (FEATURES, _WIDTH, _WIDTH))
_TAKEN = (_BOTTOM[-1].name, *(table.name for table in _TABLES))
OPERATORS: tuple[Operator, ...] = (*_TABLES, *_BOTTOM, *head(_TAKEN, (_WIDTH + TABLES * COLUMNS, 512, 32, OUTPUTS)))
LAYERS = tuple(operator.tensors for operator in OPERATORS)
build = partial(operators.build, OPERATORS)
"""The module: float32 samples [batch, 24] to scores [batch, 2] of "not clicked" and "clicked"."""
