"""Synchronous data-parallel SGD: the choice of samples, the gradient, and the step.

A replica keeps weights and gradient each in one flat float32 buffer that the module's tensors view, so that a sync
scheme can send and receive any span of the gradient without copying it.
"""

from __future__ import annotations

import ctypes
import gc
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from testbed.base.errors import SpecError
from testbed.workloads.data import datasets
from testbed.workloads.data.datasets import Dataset
from testbed.workloads.job import Training
from testbed.workloads.learning.sketch import Sketch
from testbed.workloads.models import Model, model
from testbed.workloads.own import is_own_data, is_own_model, placed

Floats = NDArray[np.float32]

LAST_LAYER = 0.1
"""Initial weights of the last layer, as a share of what He et al. give hidden layers."""
MOST_CLASSIFIED = 128
"""Limit on the test samples that are classified at once. The memory that LeNet-5 and BERT-Tiny keep for 512 is given
and taken back by the kernel each time, which makes them 1.4 and 1.2 times as long; ResNet-18 keeps 80 MB for so
many."""


@lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(count)


def global_batch(seed: int, iteration: int, size: int, count: int, shift: int = 0) -> NDArray[np.int64]:
    """Return positions, in a training set of ``count``, of the ``size`` samples that all ranks together take.

    Iterations read one endless stream, each epoch of which is a new permutation of the training set. A batch may
    therefore straddle epochs, and one larger than the training set holds some samples more than once. ``shift`` is how
    many samples earlier iterations have read beyond ``size`` each, where there were more ranks.
    """
    stream = np.arange(iteration * size, (iteration + 1) * size) + shift
    epochs = range(stream[0] // count, stream[-1] // count + 1)
    return np.concatenate([_permutation(seed, e, count)[stream[stream // count == e] - e * count] for e in epochs])


def rank_batch(
    seed: int, iteration: int, batch: int, world: int, rank: int, count: int, shift: int = 0
) -> NDArray[np.int64]:
    """Return positions of the ``batch`` samples that ``rank`` takes: its contiguous slice of the global batch."""
    return global_batch(seed, iteration, world * batch, count, shift)[rank * batch : (rank + 1) * batch]


def initial_weights(net: Model, seed: int) -> Floats:
    """Draw float32[parameters] in gradient order: weights uniform after He et al. 2015 (eq. 10, fan in), biases zero,
    scales of normalisations one.

    The last layer starts at ``LAST_LAYER`` of that, so that no class is favoured and the first steps are small: the
    loss then falls smoothly, and rounding (sums in another order) stays rounding instead of growing.
    """
    random = np.random.default_rng(seed)
    last_layer = {name for name, _ in net.layers[-1]}
    flat = np.zeros(net.floats(), np.float32)
    start = 0
    for name, shape in net.tensors():
        stop = start + prod(shape)
        if len(shape) > 1:
            gain = LAST_LAYER if name in last_layer else 1.0
            limit = np.float32(gain * np.sqrt(6 / prod(shape[1:])))
            random.random(out=flat[start:stop], dtype=np.float32)
            flat[start:stop] *= 2 * limit
            flat[start:stop] -= limit
        elif name.endswith(".weight"):
            flat[start:stop] = 1
        start = stop
    return flat


def network(training: Training) -> Model:
    """Return the model that is trained.

    Raises:
        SpecError: there is no such model.
    """
    return placed.network(training) if is_own_model(training.model) else model(training.model)


def first_weights(training: Training) -> Floats:
    """Return the weights that training begins with: a user's module has its own, see :func:`initial_weights` for ours.

    Raises:
        SpecError: there is no such model.
    """
    if is_own_model(training.model):
        return placed.weights(training)
    return initial_weights(model(training.model), training.seed)


def data_of(training: Training, net: Model) -> Dataset:
    """Return the data set that the model is trained on.

    Raises:
        SpecError: unknown data set, or one that does not fit. A user's own was tried with its model before.
    """
    if is_own_data(training.dataset):
        return placed.dataset(training)
    data = datasets.load(training.dataset, training.seed)
    if not is_own_model(training.model):
        _check_fit(net, data)
    return data


_made_before_the_fork: dict[tuple[str, int], Floats] = {}
"""Initial weights by model and seed, see :func:`expect`. A forked process takes them for its own: the kernel copies
their pages at the first step, not while 64 workers start at once."""
_computed: set[tuple[str, str, int]] = set()
"""Keys of the trainings of which :func:`expect` computed a gradient."""


def views(tensors: Iterable[tuple[str, tuple[int, ...]]], whole: Tensor) -> dict[str, Tensor]:
    """View each tensor, by name, in a flat one that holds them in this order."""
    start, found = 0, dict[str, Tensor]()
    for name, shape in tensors:
        stop = start + prod(shape)
        found[name] = whole[start:stop].view(shape)
        start = stop
    return found


class Replica:
    """One copy of the model, its gradient and its optimiser.

    Attributes:
        weights, gradient: float32[parameters] in gradient order; the module's tensors view them.
        buckets: spans (start, stop) of ``gradient``, of whole layers, in the order in which they become ready.
        shift: samples that earlier iterations took beyond those of this world, see :func:`global_batch`.
        sketch: of the gradient that :meth:`compute` makes, if somebody wants one.
        is_warm: as :attr:`testbed.workloads.learning.compute.Model.is_warm`.
        on_ready: called with a bucket's index, during :meth:`compute`, as soon as that bucket and those before it are
            complete.
    """

    _device = torch.device("cpu")
    """The device of the module."""

    def __init__(self, training: Training, buckets: Sequence[tuple[int, int]] | None = None) -> None:
        """Set up; ``buckets`` are as in :func:`testbed.workloads.learning.buckets.gradient`; None takes one a layer.

        Raises:
            SpecError: unknown model or data set, or the two do not fit.
        """
        net = network(training)
        self.data: Dataset = data_of(training, net)
        self.training = training
        known = _made_before_the_fork.pop((net.name, training.seed), None)
        self.weights = first_weights(training) if known is None else known
        self.gradient = self._room(net.floats())
        self.velocity: Floats = np.zeros(net.floats(), np.float32)  # costs no memory until the first step
        self.is_warm = self._device.type == "cpu" and not _starts_gpus() and _kernels(training) in _computed
        self.shift = 0
        self.buckets = net.buckets() if buckets is None else list(buckets)
        self.sketch: Sketch | None = None
        self.on_ready: Callable[[int], None] = lambda _bucket: None
        self._missing = [0] * len(self.buckets)
        self._next = 0
        self.module = self._viewing_module(net)

    def _room(self, floats: int) -> Floats:
        """Make zeros, for the gradient that is sent."""
        return np.zeros(floats, np.float32)

    def _flat(self) -> tuple[Tensor, Tensor]:
        """Return the flat tensors that the module's weights and gradients view."""
        return torch.from_numpy(self.weights), torch.from_numpy(self.gradient)

    def _viewing_module(self, net: Model) -> nn.Module:
        """Build the network with weights and ``.grad`` viewing the flat buffers, and a hook on every tensor."""
        weights, gradients = (views(net.tensors(), flat) for flat in self._flat())
        module = self._module(net, weights)
        ends = [stop for _, stop in self.buckets]
        bucket_of = {name: bisect_left(ends, stop) for name, stop in zip(gradients, self._stops(net), strict=True)}
        self._sizes = [list(bucket_of.values()).count(bucket) for bucket in range(len(ends))]
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            parameter.grad = gradients[name]
            hook = self._counter(bucket_of[name])
            parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        return module

    def _module(self, net: Model, weights: dict[str, Tensor]) -> nn.Module:
        """Build the network with its weights in place."""
        if is_own_model(self.training.model):
            module = net.build().to(self._device)
            for name, parameter in module.named_parameters():
                if name in weights:
                    parameter.data = weights[name]  # in place, for parts of the module may share it
            return module
        with torch.device("meta"):  # shapes only: the default initialisation would cost 30 ms and be overwritten
            module = net.build()
        module.load_state_dict(weights, assign=True)
        return module

    def _counter(self, bucket: int) -> Callable[[Tensor], None]:
        def hook(_parameter: Tensor) -> None:
            self._missing[bucket] -= 1
            while self._next < len(self._missing) and self._missing[self._next] == 0:
                self._next += 1
                self._complete(self._next - 1)

        return hook

    def _complete(self, bucket: int) -> None:
        if self.sketch:
            self.sketch.add(bucket)
        self.on_ready(bucket)

    @staticmethod
    def _stops(net: Model) -> list[int]:
        """Return where each tensor ends in the flat gradient."""
        return list(accumulate(prod(shape) for _, shape in net.tensors()))

    def samples(self, iteration: int, rank: int, world: int) -> tuple[Tensor, Tensor]:
        """Return the samples that ``rank`` takes in ``iteration``: images float32[batch, ...] and labels int64[batch],
        or rows of words int64[batch, 32] and labels of the same shape. The random draws of :meth:`compute` belong to
        them from now on."""
        job = self.training
        self.draw(iteration, rank)
        positions = rank_batch(job.seed, iteration, job.batch, world, rank, len(self.data.train), self.shift)
        return self._placed(*self.data.select(self.data.train[positions]))

    def draw(self, iteration: int, rank: int) -> None:
        """Make random draws in a user's module, as in dropout, the same wherever this rank's gradient is computed."""
        if is_own_model(self.training.model):
            state = np.random.SeedSequence([self.training.seed, iteration, rank]).generate_state(1, np.uint64)
            torch.manual_seed(int(state[0]))

    @contextmanager
    def statistics_of(self, rank: int) -> Iterator[None]:
        """Compute the gradient of this rank in this context. As in PyTorch's DDP, the values that a module keeps
        besides its weights, such as the running statistics of batch normalisation, are rank 0's."""
        before = [one.clone() for one in self.module.buffers()] if rank else []
        yield
        self.take_statistics(before)

    def take_statistics(self, values: Sequence[Tensor]) -> None:
        """Put these values in place of those that the module keeps besides its weights."""
        for one, value in zip(self.module.buffers(), values, strict=False):
            one.copy_(value)

    def _placed(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the samples on the module's device."""
        return images, labels

    def compute(self, images: Tensor, labels: Tensor) -> float:
        """Overwrite ``gradient`` with that of the mean loss over the samples; return the loss.

        Raises:
            SpecError: a part of a user's module got no gradient, as it did when the trial was planned.
        """
        self._clear()  # in place: setting .grad to None would lose the view
        self._missing[:] = self._sizes
        self._next = 0
        if self.sketch:
            self.sketch.begin()
        loss = cross_entropy(self.module(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._next < len(self.buckets):
            raise SpecError(
                f"model {self.training.model!r} does not use all of its parameters for these samples",
                fix="use the same ones in every forward pass",
            )
        return float(loss.detach())

    def _clear(self) -> None:
        self.gradient.fill(0)

    def fetch(self) -> None:
        """Bring ``weights`` and ``velocity`` up to date if those that are trained are elsewhere."""

    def put(self) -> None:
        """Train on from ``weights`` and ``velocity``, which were written to."""

    def step(self, world: int) -> None:
        """Take one step of the optimiser (:func:`descend`), with the sum over ``world`` ranks in ``gradient``."""
        descend(self.training, self.weights, self.velocity, self.gradient, world)

    def evaluate(self) -> tuple[float, float]:
        """Return the share of test images (masked words) that are classified right, and the mean test loss."""
        right, loss, count = 0, 0.0, 0
        modes = [(one, one.training) for one in self.module.modules()]  # a user's may keep parts of it in eval mode
        self.module.eval()
        with torch.no_grad():
            for part in np.split(self.data.test, range(MOST_CLASSIFIED, len(self.data.test), MOST_CLASSIFIED)):
                images, labels = self._placed(*self.data.select(part))
                scores, known = self.module(images), labels >= 0
                right += int((scores.argmax(1) == labels)[known].sum())
                loss += float(cross_entropy(scores, labels)) * int(known.sum())
                count += int(known.sum())
        for one, training in modes:
            one.training = training
        return right / count, loss / count


def use_one_thread() -> None:
    """Have PyTorch compute in the calling thread only: a worker is given one core's worth."""
    torch.set_num_threads(1)


def descend(training: Training, weights: Floats, velocity: Floats, gradient: Floats, world: int) -> None:
    """Take one step of SGD with momentum, in place; ``gradient`` counts 1 / ``world``.

    velocity = momentum * velocity + gradient / world; weights -= learning_rate * velocity. With ``nesterov`` weights
    lose learning_rate * (gradient / world + momentum * velocity), for the gradient after it is likely to be taken
    there (Nesterov 1983, as PHub's optimiser, PHub thesis, section 6.1.2). Both are as torch.optim.SGD.
    """
    descend_by(training, torch.from_numpy(weights), torch.from_numpy(velocity), torch.from_numpy(gradient), world)


def descend_by(training: Training, weights: Tensor, velocity: Tensor, gradient: Tensor, world: int) -> None:
    """Take the step of :func:`descend` on tensors of any device."""
    rate, momentum = training.learning_rate, training.momentum
    velocity.mul_(momentum).add_(gradient, alpha=1 / world)
    if training.optimiser == "nesterov":
        weights.sub_(velocity, alpha=rate * momentum).sub_(gradient, alpha=rate / world)
    else:
        weights.sub_(velocity, alpha=rate)


def descend_together(
    training: Training,
    weights: Floats,
    velocity: Floats,
    sums: tuple[Floats, Floats],
    history: tuple[float, float],
    world: int,
) -> None:
    """Take several steps of SGD, as :func:`descend` does, in one, in place, with gradients that were summed for the
    weights and for the velocity with the factors of each in them (:mod:`testbed.workloads.kinds.fabric.sums`).

    ``history`` is what the velocity counts in the change of the weights, and in the velocity itself.
    """
    moved, changed = torch.from_numpy(velocity), torch.from_numpy(weights)
    changed.sub_(moved, alpha=training.learning_rate * history[0])
    changed.sub_(torch.from_numpy(sums[0]), alpha=training.learning_rate / world)
    moved.mul_(history[1]).add_(torch.from_numpy(sums[1]), alpha=1 / world)


def _check_fit(net: Model, data: Dataset) -> None:
    if (net.input_shape, net.outputs) != (data.input_shape, data.outputs):
        raise SpecError(
            f"model {net.name!r} takes {net.input_shape} and knows {net.outputs} classes, "
            f"dataset {data.name!r} has {data.input_shape} and {data.outputs}",
            fix="choose a model and a dataset that fit each other",
        )


def warm_up() -> None:
    """Do once, in a process that will fork workers, what each worker would else do for itself: imports, and
    :func:`expect` for the model that is trained most."""
    use_one_thread()
    expect([Training("lenet5", "digits", batch=16, iterations=1, learning_rate=0.0, momentum=0.0, seed=1)])


def expect(works: Collection[Training]) -> None:
    """Make once, in a process that will fork workers of these trainings, what each worker would else make for itself:
    data, initial weights, and oneDNN's generated kernels. A user's own code runs in workers only.

    One thread only: a forked child has none of its parent's threads, and would wait for them. Where PyTorch is built
    for GPUs, a backward pass would start a thread for each that it finds, after which PyTorch refuses to compute in a
    child.

    Raises:
        SpecError: unknown model or data set, or the two do not fit.
    """
    ours = [work for work in works if not is_own_model(work.model) and not is_own_data(work.dataset)]
    for key in _made_before_the_fork.keys() - {(work.model, work.seed) for work in ours}:
        del _made_before_the_fork[key]
    missing = [work for work in dict.fromkeys(ours) if not _is_ready(work)]
    for work in missing:
        replica = Replica(work)
        if _starts_gpus():
            replica.evaluate()
        elif _kernels(work) not in _computed:
            replica.compute(*replica.samples(0, 0, 1))
        _computed.add(_kernels(work))
        _made_before_the_fork[work.model, work.seed] = replica.weights
        del replica
    if missing:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # a child that reuses a freed block would first have to copy its pages
        gc.freeze()  # so that a child's collector does not write to, and thereby copy, the pages shared with us


def _starts_gpus() -> bool:
    """Whether a backward pass starts a thread for each GPU that PyTorch finds."""
    return bool(torch.backends.cuda.is_built())  # type: ignore[no-untyped-call]


def _is_ready(work: Training) -> bool:
    return _kernels(work) in _computed and (work.model, work.seed) in _made_before_the_fork


def _kernels(work: Training) -> tuple[str, str, int]:
    """Return the key of oneDNN's kernels for a training."""
    return work.model, work.dataset, work.batch
