"""The computing of one server, with PyTorch: the operators that it holds, for the samples that it serves.

Every edge between operators cuts autograd, also one within a server: an output is copied to where its consumer reads
it, as a leaf of the consumer's own graph, and the leaf's gradient comes back into the producer's backward pass.

Buffers of boundary tensors stay where they are, so that messages are sent from them and received into them. Nothing has
to be acknowledged. Between two messages of one number there is always one from their receiver, which it sends after it
has used the first: a gradient for an output, and the next output for a gradient.

The gradient is that of the sum over all servers of the mean loss of each server's batch, as in data parallelism with
one rank a server. So the sum of an operator's gradients over its holders is that of one process, whoever holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from testbed.workloads.job import Training
from testbed.workloads.kinds.hybrid.exchange import Buffers
from testbed.workloads.kinds.hybrid.program.layout import layout, saved
from testbed.workloads.kinds.hybrid.program.steps import Ends, Message, Step, messages, served, steps
from testbed.workloads.learning import training
from testbed.workloads.parallel.models import operators_of
from testbed.workloads.parallel.strategy import Strategy

Floats = NDArray[np.float32]


@dataclass
class _Held:
    """An operator that this server holds.

    Attributes:
        servers: those whose samples it serves.
        inputs: by producer, float32[samples, floats] of its outputs.
        gradients: by consumer, float32[samples, floats] of this operator's output.
        leaves: the inputs as tensors of this iteration.
        output: of this iteration, or the loss if nobody takes the output.
    """

    module: nn.Module
    servers: range
    inputs: dict[int, Floats]
    gradients: dict[int, Floats]
    leaves: list[Tensor]
    output: Tensor

    def rows(self, batch: int, servers: range) -> slice:
        """Return the rows in which the samples of some of its servers lie."""
        return slice((servers.start - self.servers.start) * batch, (servers.stop - self.servers.start) * batch)


class Server:
    """The program of one server: it runs its :attr:`steps` in any order in which their messages are there.

    Attributes:
        steps: of each iteration.
        messages: all of them, by number; also those between other servers.
        buffers: where its messages are sent from and received into.
        weights, gradient, velocity: float32[all weights], as :attr:`layout` says; other servers' parts are untouched.
        loss: mean over the samples for which this server found it in this iteration; None if it finds none.
    """

    def __init__(self, task: Training, strategy: Strategy, number: int, first: Floats) -> None:
        """Set up; ``first`` are the weights that training begins with, in gradient order. Their type is that of
        everything: tests train in float64.

        Raises:
            SpecError: the model has no operators or no module, or does not fit the data set.
        """
        self.model = replace(operators_of(task.model), samples=task.batch)
        self._net = training.network(task)
        self._data = training.data_of(task, self._net)
        self._task, self._strategy, self._number = task, strategy, number
        self.messages = messages(self.model, strategy)
        self.steps = steps(self.model, strategy, number, Ends(self.messages))
        self.layout = layout(self.model, strategy)
        self.weights, self.gradient, self.velocity = (np.zeros(self.layout.floats, first.dtype) for _ in range(3))
        self.loss: float | None = None
        self._iteration = -1
        held = [place for place, holders in enumerate(strategy.holders) if number in holders]
        for place, (start, stop) in enumerate(reversed(self._net.buckets())):  # one layer an operator
            if place in held:
                part = slice(*self.layout.operators[place])
                self.weights[part] = first[start:stop]
                self.velocity[part] = 0.0  # memory comes when first written to: not in a step of SGD
        modules = self._modules(held)
        self._held = {place: self._hold(place, modules[place]) for place in held}
        moved = [message for message in self.messages if not message.is_local]
        self._out = {one.number: self._room(one) for one in moved if one.src == number}
        self.buffers = Buffers(
            {one.number: (one.dst, self.outgoing(one)) for one in moved if one.src == number},
            {one.number: (one.src, self.incoming(one)) for one in moved if one.dst == number},
        )

    def _room(self, message: Message) -> Floats:
        floats = self.model.operators[message.producer].output_floats
        return np.zeros((len(message.servers) * self.model.samples, floats), self.weights.dtype)

    def _modules(self, held: list[int]) -> dict[int, nn.Module]:
        """Build the modules of operators, with weights and ``.grad`` viewing the flat buffers."""
        with torch.device("meta"):
            whole = self._net.build()
        weights, gradients = (
            {
                name: tensor
                for place in held
                for name, tensor in training.views(
                    self._net.layers[place], torch.from_numpy(flat[slice(*self.layout.operators[place])])
                ).items()
            }
            for flat in (self.weights, self.gradient)
        )
        whole.load_state_dict(weights, assign=True, strict=False)
        for name, parameter in whole.named_parameters():
            if name in gradients:
                parameter.grad = gradients[name]
        return {place: whole.get_submodule(self.model.operators[place].name) for place in held}

    def _hold(self, place: int, module: nn.Module) -> _Held:
        servers = served(self._strategy, self._strategy.holders[place], self._number)
        samples = len(servers) * self.model.samples

        def room(one: int) -> Floats:
            return np.zeros((samples, self.model.operators[one].output_floats), self.weights.dtype)

        inputs = {producer: room(producer) for producer in self.model.inputs[place]}
        gradients = {consumer: room(place) for consumer in self.model.consumers[place]}
        return _Held(module, servers, inputs, gradients, [], torch.empty(0))

    def warm_up(self) -> None:
        """Compute each step once, so that PyTorch's work at the first call is in no iteration."""
        self.begin(0)
        for step in self.steps:
            self.compute(step)
        self.gradient[:] = 0

    def begin(self, iteration: int) -> None:
        """Begin an iteration: the steps that follow are of it."""
        self._iteration, self.loss = iteration, None

    def incoming(self, message: Message) -> Floats:
        """Return the floats into which a message is to be written: contiguous, as many bytes as it has."""
        if message.phase == "forward":
            held = self._held[message.consumer]
            return held.inputs[message.producer][held.rows(self.model.samples, message.servers)]
        held = self._held[message.producer]
        return held.gradients[message.consumer][held.rows(self.model.samples, message.servers)]

    def outgoing(self, message: Message) -> Floats:
        """Return the floats of a message that a step has given; they stay until that step is run again."""
        return self._out[message.number]

    def compute(self, step: Step) -> None:
        """Compute a step whose messages are all there."""
        held = self._held[step.place]
        if step.phase == "forward":
            self._forward(held, step)
            made = {consumer: held.output.detach() for consumer in held.gradients}
        else:
            self._backward(held, step)
            made = {place: _gradient(leaf) for place, leaf in zip(held.inputs, held.leaves, strict=True)}
        for message in step.gives:
            other = message.consumer if step.phase == "forward" else message.producer
            room = self.incoming(message) if message.is_local else self._out[message.number]
            room[:] = made[other][held.rows(self.model.samples, message.servers)].numpy()

    def _forward(self, held: _Held, step: Step) -> None:
        held.leaves = [torch.from_numpy(values).requires_grad_() for values in held.inputs.values()]
        held.output = held.module(*(held.leaves or [self._samples(step.servers)[0]]))
        if step.ends:
            labels = self._samples(step.servers)[1]
            held.output = cross_entropy(held.output, labels, reduction="sum") / self.model.samples
            self.loss = float(held.output.detach()) / len(step.servers)

    def _backward(self, held: _Held, step: Step) -> None:
        self.gradient[slice(*self.layout.operators[step.place])] = 0
        if step.ends:
            held.output.backward()  # type: ignore[no-untyped-call]
        else:
            first, *others = held.gradients.values()
            gradient = sum(map(torch.from_numpy, others), torch.from_numpy(first))
            held.output.backward(gradient)  # type: ignore[no-untyped-call]

    def _samples(self, servers: range) -> tuple[Tensor, Tensor]:
        """Return samples and labels of some servers in this iteration: float32[n, values], int64[n]."""
        batch, train = self.model.samples, self._data.train
        size = batch * self._strategy.servers
        positions = training.global_batch(self._task.seed, self._iteration, size, len(train))
        samples, labels = self._data.select(train[positions[servers.start * batch : servers.stop * batch]])
        return samples.to(torch.from_numpy(self.weights[:0]).dtype), labels

    def descend(self, place: int) -> None:
        """Take a step of SGD of one operator, whose gradient is the sum over its holders by now; the others need not
        be. Its backward pass has used the weights by then."""
        span = slice(*self.layout.operators[place])
        parts = self.weights[span], self.velocity[span], self.gradient[span]
        training.descend(self._task, *parts, self._strategy.servers)

    def saved(self) -> Floats:
        """Return the weights that it holds, see :func:`testbed.workloads.kinds.hybrid.program.layout.saved`."""
        return saved(self._strategy, self._number, self.layout, self.weights)


def _gradient(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad
