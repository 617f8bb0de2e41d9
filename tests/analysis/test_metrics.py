"""Two workers, three iterations, every number worked out by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from testbed.analysis import metrics
from testbed.base.errors import OutputError

COLUMNS = ["rank", "iteration", "start_s", "ready_s", "sum_s", "end_s"]


@pytest.fixture
def samples() -> pd.DataFrame:
    rows = [
        # rank 0 is early in iteration 0, late in iteration 1
        (0, 0, 0.0, 1.0, 1.75, 2.0),
        (0, 1, 2.0, 4.0, 4.25, 4.5),
        (0, 2, 4.5, 5.5, 6.5, 6.75),
        (1, 0, 0.25, 1.25, 1.5, 1.75),
        (1, 1, 1.75, 3.0, 4.5, 4.75),
        (1, 2, 4.75, 5.75, 6.25, 7.0),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def test_gst_runs_from_the_last_gradient_to_the_last_sum(samples: pd.DataFrame) -> None:
    # 1.75 - 1.25, 4.5 - 4.0, 6.5 - 5.75
    assert metrics.gst_s(samples).to_dict() == {0: 0.5, 1: 0.5, 2: 0.75}


def test_gst_leaves_out_the_warm_up_and_keeps_iteration_numbers(samples: pd.DataFrame) -> None:
    assert metrics.gst_s(samples, skip=2).to_dict() == {2: 0.75}


def test_a_median_of_means_leaves_out_the_warm_up(samples: pd.DataFrame) -> None:
    waited = samples.assign(wait_s=[9.0, 1.0, 2.0, 7.0, 3.0, 4.0])
    assert metrics.median_of_means(waited, "wait_s") == 3.0  # of 8, 2 and 3
    assert metrics.median_of_means(waited, "wait_s", skip=1) == 2.5


def test_gst_does_not_depend_on_the_order_of_rows(samples: pd.DataFrame) -> None:
    assert metrics.gst_s(samples.iloc[::-1]).to_dict() == {0: 0.5, 1: 0.5, 2: 0.75}


def test_a_rank_waits_from_its_own_gradient_to_the_slowest_ones(samples: pd.DataFrame) -> None:
    waits = metrics.waits_s(samples)
    assert waits[0].tolist() == [0.25, 0.0, 0.25]
    assert waits[1].tolist() == [0.0, 1.0, 0.0]
    assert metrics.waits_s(samples, skip=2).index.tolist() == [2]


def test_jct_runs_from_the_first_start_to_the_last_end(samples: pd.DataFrame) -> None:
    assert metrics.jct_s(samples) == 7.0


def test_compute_and_sync_are_the_whole_jct(samples: pd.DataFrame) -> None:
    # compute: 1.25 - 0, 4.0 - 2.0, 5.75 - 4.75; sync: 2.0 - 1.25, 4.75 - 4.0, 7.0 - 5.75
    assert metrics.compute_s(samples) == 4.25
    assert metrics.sync_s(samples) == 2.75


def test_times_do_not_depend_on_where_the_clock_starts(samples: pd.DataFrame) -> None:
    moved = samples.assign(**{name: samples[name] + 1024 for name in COLUMNS[2:]})
    assert metrics.jct_s(moved) == 7.0
    assert metrics.compute_s(moved) == 4.25


def test_throughput_counts_every_worker(samples: pd.DataFrame) -> None:
    assert metrics.throughput_sps(samples, trained=2 * 14 * 3) == 2 * 14 * 3 / 7.0


def test_an_iteration_has_as_many_workers_as_there_were(samples: pd.DataFrame) -> None:
    fewer = samples.drop(index=5).assign(world=[2, 2, 1, 2, 2])
    assert metrics.gst_s(fewer).to_dict() == {0: 0.5, 1: 0.5, 2: 1.0}
    with pytest.raises(OutputError, match="iteration 1 has samples of 1 of 2 workers"):
        metrics.gst_s(fewer.drop(index=4))


@pytest.fixture
def updates() -> pd.DataFrame:
    """Of two workers, of which the second is slow; the first is held back once."""
    rows = [
        # rank, iteration, start, ready, sum, end, update, version, staleness, held
        (0, 0, 0.0, 1.0, 1.5, 1.5, 0, 0, 0, 0.0),
        (0, 1, 1.5, 2.5, 5.0, 5.0, 1, 1, 0, 2.0),
        (0, 2, 5.0, 6.0, 6.5, 7.0, 3, 3, 0, 0.0),
        (1, 0, 0.0, 4.0, 4.75, 4.75, 2, 0, 2, 0.0),
    ]
    return pd.DataFrame(rows, columns=[*COLUMNS, "update", "version", "staleness", "held_s"])


def test_updates_have_a_gst_of_their_own(updates: pd.DataFrame) -> None:
    gst = metrics.gst_s(updates)
    assert list(gst.items()) == [(0, 0.5), (1, 0.5), (0, 0.75), (2, 0.5)]  # by iteration, in the order of updates
    assert list(metrics.gst_s(updates, skip=1).items()) == [(1, 0.5), (2, 0.5)]


def test_times_of_an_asynchronous_trial_are_the_workers_own(updates: pd.DataFrame) -> None:
    assert metrics.jct_s(updates) == 7.0
    assert metrics.sync_s(updates) == (0.5 + 2.5 + 1.0 + 0.75) / 2
    assert metrics.compute_s(updates) + metrics.sync_s(updates) == 7.0
    waits = metrics.waits_s(updates)
    assert waits[0].tolist() == [0.0, 2.0, 0.0]
    assert waits[1].tolist()[:1] == [0.0]
    assert waits[1].isna().sum() == 2


def test_staleness_is_each_updates_in_their_order(updates: pd.DataFrame, samples: pd.DataFrame) -> None:
    found = metrics.staleness(updates)
    assert found is not None
    assert found.tolist() == [0, 0, 2, 0]
    later = metrics.staleness(updates, skip=1)
    assert later is not None
    assert later.tolist() == [0, 0]
    assert metrics.staleness(samples) is None


def test_a_round_is_as_many_updates_as_workers(updates: pd.DataFrame, samples: pd.DataFrame) -> None:
    rounds = metrics.rounds(updates)
    assert rounds["update"].tolist() == [0, 1, 2, 3]
    assert rounds["iteration"].tolist() == [0, 0, 1, 1]
    assert rounds["end_s"].tolist() == [1.5, 3.0, 4.75, 7.0]  # the second would have gone on at 3, had it not been held
    assert metrics.rounds(samples) is samples


def test_bandwidths_follow_nccl_tests() -> None:
    assert metrics.algbw_bps(1_000_000, 0.5) == 16e6
    assert metrics.busbw_bps(1_000_000, 0.5, world=4) == 24e6


def test_an_iteration_that_a_worker_lacks_is_an_error(samples: pd.DataFrame) -> None:
    with pytest.raises(OutputError, match="iteration 2 has samples of 1 of 2 workers"):
        metrics.gst_s(samples.iloc[:-1])


def test_no_iteration_at_all_is_an_error(samples: pd.DataFrame) -> None:
    with pytest.raises(OutputError, match="hold no iteration"):
        metrics.jct_s(samples.iloc[:0])
