"""The kind of workload ``lda``."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from testbed.base.errors import SpecError
from testbed.base.groups import Number, Share, Whole, listed, refuse
from testbed.spec.workload.base import ComputeTime, Synchronised, mode_alone
from testbed.workloads.job import Task, TopicModel
from testbed.workloads.lda.corpus import too_few
from testbed.workloads.lda.files import Asked, PreparedCorpus, prepare
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.own.prepared import OwnError, Prepared

MOST_TOPICS = 1000
"""The most topics. Published models of collections of this size have a few hundred."""
MOST_FLOATS = 2**27
"""The most floats of the counts: 512 MiB, of which a worker has four tables."""
SHARD = 1
"""Number of the only batch: the whole shard."""


class SweepTime(ComputeTime):
    """The time that a worker takes to sample its shard once. ``pace`` may be a time alone."""

    mode: Literal["real", "paced"] = "real"
    """``real``: the processor's own time. ``paced``: the time that ``pace`` gives."""


def _of_shard(value: object) -> object:
    """Convert a pace that is a time alone: it is that of the one batch that there is."""
    if isinstance(value, dict) and isinstance(value.get("pace"), str):
        return {**value, "pace": {SHARD: value["pace"]}}
    return mode_alone(value)


def _whole_shard(value: Any) -> list[object]:
    if (found := listed(value)) != [SHARD]:
        raise refuse(f"batch {value!r:.40}: each worker of lda samples its whole shard", "remove batch")
    return found


class Lda(Synchronised):
    """Each worker samples the topics of its documents (latent Dirichlet allocation) and sends by how much that changed
    the counts of words and topics. All sums are exact."""

    is_trained: ClassVar[bool] = True
    is_sketched: ClassVar[bool] = False
    is_resumable: ClassVar[bool] = False

    kind: Literal["lda"]
    model: Literal["lda"] = "lda"
    """There is one model."""
    batch: Annotated[list[int], BeforeValidator(_whole_shard)] = Field([SHARD])
    """A worker samples its whole shard in each iteration, so there is one batch, which has the number 1."""
    corpus: str = Field(examples=["python_reference"])
    """The documents: ``lee``, news that come with the package gensim; ``python_reference``, the text of Python's own
    ``help()``; or a file in UCI's format: ``./docword.kos.txt``."""
    topics: Whole = Field(20, ge=2, le=MOST_TOPICS)
    """The number of topics. The gradient has a number for each word and topic."""
    alpha: Number = Field(0.1, gt=0, le=1e6)
    """Concentration of the prior of a document's topics. With less, a document has fewer topics."""
    beta: Number = Field(0.01, gt=0, le=1e6)
    """Concentration of the prior of a topic's words. With less, a topic has fewer words."""
    documents: Whole | None = Field(None, ge=2, examples=["10000"])
    """Take only so many documents, the first ones. The default is all."""
    least_documents: Whole = Field(2, ge=1)
    """Leave out words that fewer documents have."""
    most_documents: Share = Field(0.5, gt=0, le=1, examples=["50 %"])
    """Leave out words that a larger share of the documents has."""
    held_out: Share = Field(0.1, gt=0, lt=1, examples=["10 %"])
    """The share of the documents that no worker has. The likelihood is of their words."""
    compute: Annotated[SweepTime, BeforeValidator(_of_shard)] = SweepTime()
    """The time that sampling a shard takes: this machine's own, or ``{mode: paced, pace: 0.2 s}``."""
    overlap: Literal["none"] = "none"
    """A worker sends when it has the whole update."""
    priority: Literal["none"] = "none"
    """There are no layers, of which one could be sent before others."""

    @property
    def scale(self) -> float:
        """Scale 1: counts have their own size."""
        return 1.0

    def needs(self, seed: int) -> Hashable:
        return self._asked(seed), self.topics

    def _asked(self, seed: int) -> Asked:
        kept = (self.documents, self.least_documents, self.most_documents)
        return Asked(self.corpus, *kept, self.held_out, seed)

    def prepare(self, folder: Path, seed: int) -> Prepared:
        try:
            found = prepare(folder, self._asked(seed), self.topics)
        except SpecError as error:
            raise CorpusError(error.problem, fix=error.fix) from None
        floats = found.sizes()[0][0]
        if floats > MOST_FLOATS:
            raise TopicsError(
                f"{self.topics:,} topics of {floats // self.topics:,} words are {floats:,} counts; {MOST_FLOATS:,} are "
                "allowed",
                fix=f"give at most {MOST_FLOATS * self.topics // floats:,} topics, or a larger least_documents",
            )
        return found

    def refuse(self, own: Prepared | None, world: int) -> None:
        assert isinstance(own, PreparedCorpus)
        if own.documents < world:
            raise too_few(own.documents, world)

    def largest(self, own: Prepared | None) -> int | None:
        assert isinstance(own, PreparedCorpus)
        return own.most_of_a_word

    def task(self, batch: int, seed: int, gradient: Gradient, rounding: float) -> Task:  # noqa: ARG002
        words = gradient.floats // self.topics
        return TopicModel(words, self.topics, self.alpha, self.beta, self.iterations, seed)

    @model_validator(mode="after")
    def _pace_known(self) -> Self:
        if self.compute.mode == "paced" and SHARD not in self.compute.pace_s:
            raise refuse("mode 'paced' needs a pace", "add the time of a sweep, such as pace: 0.3 s")
        return self


class CorpusError(OwnError):
    """The documents cannot be used."""

    key = "corpus"


class TopicsError(OwnError):
    """The topics are too many for the documents' words."""

    key = "topics"
