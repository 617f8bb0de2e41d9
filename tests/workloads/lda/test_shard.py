"""Shards, the process that repeats all of them, and updates that are dropped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import MissingToolError, SpecError
from testbed.workloads.job import TopicModel
from testbed.workloads.lda import files, likelihood, reference
from testbed.workloads.lda.corpus import Documents
from testbed.workloads.lda.gibbs import Prior
from testbed.workloads.lda.reference import Shard, first_counts
from testbed.workloads.learning.parts import merged
from testbed.workloads.learning.updates import Step, Update
from testbed.workloads.tasks.lda import Counts

from ..kinds.asynchronous.test_ledger import Trial, played

WORLD = 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TopicModel:
    """Of twenty small documents in UCI's format."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(1)
    rows = [f"{d} {w} {random.integers(1, 4)}" for d in range(1, 21) for w in range(1, 9) if random.random() < 0.6]
    (folder / "docword.txt").write_text("\n".join(["20", "8", str(len(rows)), *rows, ""]))
    made = files.prepare(folder, files.Asked("./docword.txt", None, 1, 1.0, 0.2, 1), 4)
    made.place(folder / "placed")
    return TopicModel(8, 4, 0.1, 0.01, 5, 1, own=made.names(folder / "placed"))


def total(model: TopicModel) -> int:
    return len(files.load(model).train.words)


@given(st.integers(1, 6))
def test_all_shards_together_have_the_counts(model: TopicModel, world: int) -> None:
    parts = reference.shards(model, world)
    counts = first_counts(parts, model.floats)
    words = np.bincount(files.load(model).train.words, minlength=model.words)
    for iteration in range(3):
        changes = [np.empty_like(counts) for _ in parts]
        for part, change in zip(parts, changes, strict=True):
            part.sample(iteration, counts)
            part.change(change)
            assert (change.reshape(model.words, model.topics).sum(axis=1) == 0).all()
            part.settle(is_common=True)
        counts += np.sum(changes, axis=0)
        assert counts.min() >= 0
        assert (counts.reshape(model.words, model.topics).sum(axis=1) == words).all()
        assert (counts == first_counts(parts, model.floats)).all()


def test_sampling_may_be_repeated_until_it_settles(model: TopicModel) -> None:
    (part, *_), change, again = reference.shards(model, WORLD), np.zeros(model.floats, np.float32), None
    counts = first_counts(reference.shards(model, WORLD), model.floats)
    for _ in range(2):
        loss = part.sample(0, counts)
        part.change(change)
        assert again is None or again == (loss, change.tolist())
        again = loss, change.tolist()


@given(st.lists(st.tuples(st.integers(0, WORLD - 1), st.booleans()), min_size=1, max_size=12))
@settings(max_examples=30)
def test_a_dropped_update_stays_in_the_next(model: TopicModel, sent: list[tuple[int, bool]]) -> None:
    """Workers take turns in any order, and any of their updates are dropped: what was drawn is never lost, and one
    process comes to the same counts."""
    workers = [Counts(model, rank, WORLD) for rank in range(WORLD)]
    server, versions, done = workers[0].weights.copy(), [0] * WORLD, [0] * WORLD
    order: list[Step] = []
    for rank, is_dropped in sent:
        worker = workers[rank]
        worker.compute(done[rank])
        order.append(Step((Update(rank, done[rank], versions[rank]),), is_dropped=is_dropped))
        done[rank] += 1
        if is_dropped:
            worker.is_dropped = True
        else:
            server += worker.gradient
        worker.weights[:] = server
        worker.put()
        versions[rank] = sum(not one.is_dropped for one in order)
        assert server.min() >= 0
        assert server.sum() == total(model)
    found = reference.asynchronous(model, WORLD, order)
    applied = sum(not step.is_dropped for step in order)
    assert [round_ for round_, _ in found.curve] == list(range(-(-applied // WORLD)))
    assert (found.last == server).all()
    assert reference.judged(server, model, WORLD, order)["training_error"] == 0
    for worker in workers:  # one more round, of which nothing is dropped
        worker.compute(99)
        server += worker.gradient
        worker.put()
    assert (server == sum(worker._shard.counts for worker in workers)).all()


def test_synchronous_workers_come_to_the_repeated_counts(model: TopicModel) -> None:
    workers = [Counts(model, rank, WORLD) for rank in range(WORLD)]
    for iteration in range(model.iterations):
        losses = [worker.compute(iteration) for worker in workers]
        summed = np.sum([worker.gradient for worker in workers], axis=0)
        for worker in workers:
            worker.gradient[:] = summed + np.float32(0.1)  # as fixed point may leave it
            worker.step(WORLD)
    found = reference.judged(workers[1].weights, model, WORLD, ())
    assert all(0 < loss < 5 for loss in losses)
    assert found["training_error"] == found["weights_error"] == 0
    assert found["log_likelihood"] == found["curve"][-1][1]
    assert [iteration for iteration, _ in found["curve"]] == list(range(model.iterations))
    wrong = workers[1].weights.copy()
    wrong[3] += 1
    found = reference.judged(wrong, model, WORLD, ())
    assert found["training_error"] > 0
    assert found["curve"] is None
    assert reference.judged(-wrong, model, WORLD, ())["log_likelihood"] is None


def test_other_seeds_and_ranks_draw_others(model: TopicModel) -> None:
    first = reference.synchronous(model, WORLD).last
    assert (reference.synchronous(replace(model, seed=2), WORLD).last != first).any()
    documents = files.load(model).train
    assert (Shard(model, 0, documents).counts != Shard(model, 1, documents).counts).any()


def test_the_likelihood_of_known_topics() -> None:
    """One topic: a token is as likely as its word, whatever is known of the document. Two that share no word: what is
    known decides."""
    counts = np.array([[6.0], [2.0]], np.float32)
    test = Documents(np.array([0, 1, 0, 0]), np.array([4]))
    assert likelihood.per_token(counts, test, Prior(0.1, 1e-9)) == pytest.approx(np.log(0.75))
    apart = np.array([[4, 0], [0, 4]], np.float32)
    sure = likelihood.per_token(apart, Documents(np.array([0, 0, 0, 0]), np.array([4])), Prior(1e-6, 1e-9))
    assert sure == pytest.approx(0, abs=1e-5)
    wrong = likelihood.per_token(apart, Documents(np.array([0, 0, 1, 1]), np.array([4])), Prior(0.1, 0.01))
    assert wrong == pytest.approx(np.log(0.1 / 2.2), abs=0.1)


def asked(name: str, **keys: float) -> files.Asked:
    return files.Asked(name, None, int(keys.get("least", 2)), keys.get("most", 0.5), keys.get("held_out", 0.1), seed=1)


@pytest.mark.parametrize("name", ["python_reference", "lee"])
def test_corpora_that_come_with_software(name: str, tmp_path: Path) -> None:
    try:
        made = files.prepare(tmp_path, asked(name), 10)
    except MissingToolError as error:
        assert name == "lee"
        pytest.skip(error.problem)
    assert made.documents > 200
    assert made.sizes()[0][0] > 10 * 1000
    assert files.prepare(tmp_path, asked(name), 10).digest == made.digest
    assert files.prepare(tmp_path, asked(name, held_out=0.2), 10).digest != made.digest


def test_gensim_is_found_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name that would fail if it were imported."""
    data = tmp_path / "gensim" / "test" / "test_data"
    data.mkdir(parents=True)
    (tmp_path / "gensim" / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingToolError, match="which comes without it here"):
        files.prepare(tmp_path, asked("lee"), 2)
    (data / "lee_background.cor").write_text("the cat sat\nthe dog sat, too\n" * 3)
    (data / "lee.cor").write_bytes("the £5 fish\n".encode("latin-1"))
    made = files.prepare(tmp_path, asked("lee", most=0.9, least=1), 2)
    assert (made.documents, made.sizes()) == (6, [[2 * 5]])  # cat, dog, fish, sat, too


@pytest.mark.parametrize(
    ("name", "keys", "problem"),
    [
        ("leee", {}, "unknown corpus 'leee'"),
        ("python_reference", {"least": 10_000}, "has 0 documents with words that are frequent enough"),
        ("./absent.txt", {}, "cannot be read: no such file"),
    ],
)
def test_what_is_no_corpus(tmp_path: Path, name: str, keys: dict[str, float], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        files.prepare(tmp_path, asked(name, **keys), 2)


@given(st.integers(0, 2**32))
@settings(max_examples=5)
def test_the_updates_of_several_servers_are_repeated_on_the_same_mix_of_counts(model: TopicModel, seed: int) -> None:
    """Of two servers with the same order, as if there were one. With orders of their own, no word is lost."""
    orders = played(Trial(WORLD, 3 * WORLD, None, 2, seed))
    alone = reference.asynchronous(model, WORLD, orders[0])
    both = merged([orders[0], [replace(one, server=1) for one in orders[0]]])
    again = reference.asynchronous(model, WORLD, both)
    assert np.array_equal(again.last, alone.last)
    assert again.curve == alone.curve
    mixed = reference.asynchronous(model, WORLD, merged(orders)).last.reshape(model.words, model.topics)
    assert mixed.min() >= 0
    assert (mixed.sum(axis=1) == np.bincount(files.load(model).train.words, minlength=model.words)).all()
