"""Simulated probes of clouds."""

from __future__ import annotations

import numpy as np

from testbed.analysis.theory.probed_cloud import Cloud
from testbed.workloads.locality.distances import paia


def test_without_noise_distances_are_those_of_the_places() -> None:
    cloud = Cloud(2, 2, 2, 0.0)
    probed = cloud.probed_ms(0)
    assert probed[0].tolist() == [0, 0.15, 2.15, 2.15, 4.15, 4.15, 4.15, 4.15]
    assert np.array_equal(probed, probed.T)
    assert paia(cloud.places, probed) == 1


def test_noise_and_outliers() -> None:
    extra = Cloud(1, 4, 4, 0.5).probed_ms(1) - Cloud(1, 4, 4, 0.0).probed_ms(1)
    assert 0.4 < extra[np.triu_indices(16, 1)].mean() < 0.6
    far = Cloud(1, 4, 4, 0.0, outliers=3).probed_ms(1)
    assert np.count_nonzero(far > 50) == 6
