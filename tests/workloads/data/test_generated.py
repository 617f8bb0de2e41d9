"""Generated data sets: always the same, with labels that can be learnt and not be known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from testbed.workloads.data.datasets import CLICKED, SAMPLES, clicks, responses
from testbed.workloads.models import dlrm_tiny


@pytest.mark.parametrize(("generated", "share"), [(clicks, CLICKED), (responses, 0.5)])
def test_the_same_samples_come_each_time(generated: Callable[[], tuple[Tensor, Tensor]], share: float) -> None:
    samples, labels = generated()
    again = generated.__wrapped__()  # type: ignore[attr-defined]
    assert torch.equal(samples, again[0])
    assert torch.equal(labels, again[1])
    assert samples.dtype == torch.float32
    assert len(samples) == len(labels) == SAMPLES
    assert float(labels.float().mean()) == pytest.approx(share, abs=0.02)


def test_a_few_rows_are_in_most_samples_and_all_are_in_their_tables() -> None:
    rows = clicks()[0][:, dlrm_tiny.FEATURES :].long()
    assert int(rows.min()) == 0
    assert int(rows.max()) < dlrm_tiny.ROWS
    for column in rows.T:
        counts = np.sort(np.bincount(column.numpy()))[::-1]
        assert counts[:10].sum() > 0.7 * SAMPLES
        assert np.count_nonzero(counts) > 1000
