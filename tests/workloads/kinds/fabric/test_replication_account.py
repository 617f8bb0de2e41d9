"""What a replica tells that does not fit the server's account is found out, and so is one that is too far behind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.checks import judge_divergence
from testbed.workloads.kinds.fabric.distance import apart, lines
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.fates import lines as journal_lines
from testbed.workloads.kinds.fabric.plan import Fabric, Options, fabric
from testbed.workloads.kinds.fabric.replication_account import Replicated, replicated, with_behind

DIRECT, SUM, DROPPED, LATE, _ = (int(fate) for fate in Fate)
ALONE = [[1.0, 1.0]]
JOURNAL = [
    [DIRECT, [0], [0], [[0.5, 0.5]]],
    [DROPPED, [2], [1], ALONE],
    [SUM, [1, 4], [0, 1], [[1.5, 0.5], [1.0, 1.0]]],
    [LATE, [3], [1], ALONE],
]
"""Of two workers, with momentum 0.5."""
COPIED = [
    [DROPPED, [2], [1], ALONE],
    [SUM, [0, 1], [0, 0], [[0.75, 0.25], [1.0, 1.0]]],
    [DIRECT, [4], [1], ALONE],
    [LATE, [3], [1], ALONE],
]
NORMS = [[0, 4.0], [1, 2.0], [2, 9.0], [3, 9.0], [4, 1.0]]
WEIGHTS = [1.0] * 9


def plan(**options: Any) -> Fabric:
    return fabric(build("star(hosts=5)", rate_bps=10**8), "mlfabric_a", Options(**options), 0)


def found(
    copied: list[list[Any]] = COPIED,
    weights: list[float] = WEIGHTS,
    bound: Mapping[str, Any] = MappingProxyType({"divergence_bound": 2.0}),
    **changes: Any,
) -> Replicated:
    server = {"leads": [0, 0, 1, 3], "norms": NORMS, "momentum": 0.5, "lines": WEIGHTS} | changes
    return replicated(plan(**bound), server, journal_lines(JOURNAL, 2), journal_lines(copied, 2), weights)


def test_how_far_the_replica_was_behind_follows_from_the_norms() -> None:
    told = found()
    assert told.wrong == ""
    summed = (2, pytest.approx((0.5 * 2 + 2) + (0.5 * 3 + 1)))
    assert told.behind == {(0, 0): (1, 2.0), (1, 0): summed, (0, 2): summed, (1, 1): (1, 0.0)}
    most = {"divergence_max": pytest.approx(5.5), "replica_behind_max": 2.0}
    assert told.metrics == {**most, "divergence_allowed": 2.0, "divergence_breaches": 1.0, "replica_error": 0.0}


@pytest.mark.parametrize(
    ("bound", "changes", "breaches"),
    [
        ({"divergence_bound": 1.9}, {}, 2.0),
        ({"divergence_bound": 1.9}, {"leads": [0, 0, 1, 1]}, 2.0),  # the late update changed nothing
        ({"divergence_bound": 2.0 - 1e-12}, {}, 1.0),
        ({"divergence_bound": 5.5}, {}, 0.0),
        ({"divergence_updates": 1}, {}, None),
    ],
)
def test_commits_that_went_beyond_the_bound_are_counted(
    bound: dict[str, Any], changes: dict[str, Any], breaches: float | None
) -> None:
    """The first one, by 2, and that of a sum, by 5.5."""
    assert found(bound=bound, **changes).metrics.get("divergence_breaches") == breaches


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"copied": COPIED[:-1]}, "update 3 was .* and None to the replica"),
        ({"copied": [*COPIED, [DIRECT, [5], [3], ALONE]]}, "update 4 was None to the server"),
        ({"copied": [COPIED[2], COPIED[1], COPIED[3]]}, "update 0 was .* to the server"),
        ({"copied": [*COPIED[:3], [DIRECT, [3], [1], ALONE]]}, "update 3 was .*False"),
        ({"copied": [[SUM, [0, 1], [0, 0], [[1.5, 0.5], [1.0, 1.0]]], *COPIED[2:]]}, "0 counted 0.5 .* and 1.0 at"),
        ({"leads": [0, 0, 1]}, "is said to have had"),
        ({"leads": [0, 1, 0, 3]}, "is said to have had"),
        ({"leads": [0, 0, 1, 5]}, "is said to have had"),
        ({"weights": [1.0, *[1.1] * 8]}, r"end 0\.[01][0-9]* of their norm away"),
    ],
)
def test_a_replica_that_has_done_something_else_is_found_out(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        assert found(**changes).wrong == ""


def test_samples_tell_by_how_much_the_replica_was_behind() -> None:
    samples = pd.DataFrame({"rank": [0, 0, 1], "iteration": [0, 1, 0]})
    told = with_behind(samples, found())
    assert told["behind"].tolist()[::2] == [1, 2]
    assert math.isnan(told["divergence"][1]), "it was dropped"
    assert with_behind(samples, Replicated()) is samples


@pytest.mark.parametrize(
    ("options", "rows", "ok"),
    [
        ({"divergence_updates": 2}, [(2, 9.0)], True),
        ({"divergence_updates": 2}, [(3, 0.1)], False),
        ({"divergence_bound": 2.0}, [(7, 2.0), (0, 0.0)], True),
        ({"divergence_bound": 2.0}, [(2, 2.1)], False),
        ({"divergence_bound": 2.0}, [(1, 2.1), (2, 1.0)], True),
    ],
)
def test_only_a_single_update_may_be_beyond_the_bound(
    options: dict[str, Any], rows: list[tuple[int, float]], ok: bool
) -> None:
    made = judge_divergence(pd.DataFrame(rows, columns=["behind", "divergence"]), plan(**options))
    assert made.ok is ok
    assert ("a single update beyond that" in made.detail) is ("divergence_bound" in options)


def test_a_few_numbers_tell_how_far_weights_are_apart() -> None:
    random = np.random.default_rng(1)
    weights = random.standard_normal(200_000).astype(np.float32)
    assert apart(lines(weights), lines(weights.copy())) == 0
    other = weights + np.float32(1e-3) * random.standard_normal(len(weights)).astype(np.float32)
    true = float(np.linalg.norm(weights - other) / np.linalg.norm(weights))
    assert true / 2 < apart(lines(weights), lines(other)) < 2 * true
    moved = np.roll(weights, 1)
    assert apart(lines(weights), lines(moved)) > 0.5
