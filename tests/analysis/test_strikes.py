"""What is said of perturbations that strike by chance."""

from __future__ import annotations

from testbed.analysis.strikes import Strikes, never, strikes_of

NONE = Strikes("straggle", 0, 4, "iterations of h1")
SOME = Strikes("C1", 2, 12, "iterations of 3 workers")
TOLD = "straggle strikes 0 of 4 iterations of h1, so it changes nothing; take more iterations, another seed or a higher"


def test_what_strikes_nobody_in_some_trial_is_told_once_with_the_trials() -> None:
    trials = [(f"ring-r{number}", [SOME, NONE if number < 6 else SOME]) for number in range(1, 9)]
    (told,) = never(trials)
    assert told == f"ring-r1, ring-r2, ring-r3 and 2 more: {TOLD} probability"


def test_jobs_of_a_trial_are_one_trial() -> None:
    assert never([("a", [NONE]), ("a", [NONE])]) == [f"all trials: {TOLD} probability"]


def test_what_strikes_is_not_told_and_older_records_say_nothing() -> None:
    assert never([("a", [SOME]), ("b", strikes_of({}))]) == []


def test_a_later_version_may_write_more() -> None:
    entry = {"perturbation": "C1", "struck": 2, "chances": 12, "of": "iterations of 3 workers", "since": 3}
    assert strikes_of({"strikes": [entry]}) == (SOME,)
