"""Small models for the tests of strategies."""

from __future__ import annotations

from testbed.workloads.parallel.operators import Model, Operator, model

MB = 1_000_000

CHAIN = model(
    Model(
        "chain",
        (
            Operator("a", (), (40 * MB,), 2 * MB, 3000),
            Operator("b", ("a",), (4 * MB,), 9 * MB, 1000),
            Operator("c", ("b",), (6 * MB, 2 * MB), MB // 2, 10),
        ),
        256,
    )
)
"""Three operators, one after another."""

TABLES = model(
    Model(
        "tables",
        (
            *(Operator(f"e{i}", (), (10 * (i + 1) * MB,), 64, 64, 64) for i in range(4)),
            Operator("dense", ("e0", "e1", "e2", "e3"), (3 * MB,), 2 * MB, 1),
        ),
        512,
    )
)
"""Four embedding tables of 10 to 40 MB, and a dense part."""
