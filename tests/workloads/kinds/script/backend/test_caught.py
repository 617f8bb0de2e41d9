"""Errors of ours that a script's ``except RuntimeError`` catches."""

from __future__ import annotations

import pickle

from testbed.base.errors import SpecError, TrialTimeoutError
from testbed.workloads.kinds.script.backend.caught import caught


def test_an_error_keeps_its_words_and_all_of_a_kind_have_one_class() -> None:
    first, second = (caught(TrialTimeoutError(f"late by {count} s", fix="wait")) for count in (1, 2))
    assert isinstance(first, TrialTimeoutError)
    assert isinstance(first, RuntimeError)
    assert str(first) == str(TrialTimeoutError("late by 1 s", fix="wait"))
    assert type(first) is type(second), "or each error would leave a class behind"
    assert caught(first) is first


def test_an_error_goes_to_another_process() -> None:
    """As queues and loaders of data hand it on."""
    error = caught(SpecError("two types", fix="give one"))
    vars(error)["told"] = True
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, vars(again)) == (type(error), error.args, vars(error))
