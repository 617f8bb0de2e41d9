"""Training on a GPU where PyTorch sees one: the model lives there, and the gradients that are sent live on the host.

Problem: the engine, and every library in its place, sends the gradient from one contiguous buffer of the host's memory
and sums into it. A module on a GPU has its weights and gradients there.

Chosen: flat buffers there, which the module's tensors view as they do on a CPU, and the host's buffer beside them. A
bucket is copied as soon as the backward pass has completed it, so that it can leave while the pass goes on; the sum is
copied back before the step, which is made there. Weights and velocity come here only where somebody reads them: at the
end, and where a worker gives them to another. With a CPU for the device all of it is the same, copies included.

A worker takes a GPU only to compute in real time (``compute: {mode: real}``): a pace is held by a CPU as well, and none
computes nothing. Workers on one machine take its GPUs in turn. Nothing here is called before a worker is forked, since
CUDA does not survive a fork.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from testbed.base.errors import SpecError
from testbed.workloads.job import Compute, Training
from testbed.workloads.learning.training import Floats, Replica, descend_by
from testbed.workloads.own import placed


def device_for(compute: Compute, rank: int) -> torch.device | None:
    """Return the GPU that a worker trains on; None for the CPU."""
    if compute.mode != "real" or not torch.cuda.is_available():
        return None
    return torch.device("cuda", rank % torch.cuda.device_count())


def replica_on(
    device: torch.device | None, training: Training, buckets: Sequence[tuple[int, int]] | None = None
) -> Replica:
    """Make a replica that trains on a device.

    Raises:
        SpecError: as :class:`Replica`; or a user's module draws by chance, and other numbers there than on a CPU.
    """
    if device is not None and device.type == "cuda" and training.own and placed.facts(training)["random"]:
        raise SpecError(
            f"model {training.model!r} draws by chance, as dropout does, and a GPU draws other numbers than the "
            "process that repeats the training",
            fix="leave chance out of the model, or write compute: {mode: paced, ...}, for which workers take the CPU",
        )
    return Replica(training, buckets) if device is None else DeviceReplica(training, buckets, device)


def name(device: torch.device | None) -> str:
    """Name a device: ``cpu``, or ``cuda:0 (NVIDIA A100)``."""
    if device is None or device.type != "cuda":
        return "cpu"
    return f"{device} ({torch.cuda.get_device_name(device)})"


class DeviceReplica(Replica):
    """A replica whose module is on a device: ``gradient`` is the host's copy, page-locked if the device is a GPU, so
    that it is copied at once; ``weights`` and ``velocity`` are as :meth:`fetch` last copied them."""

    def __init__(self, training: Training, buckets: Sequence[tuple[int, int]] | None, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":  # float32 means float32: the weights are held against a CPU's
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.deterministic = True
        super().__init__(training, buckets)

    def _room(self, floats: int) -> Floats:
        self._host = torch.zeros(floats, dtype=torch.float32, pin_memory=self._device.type == "cuda")
        found: Floats = self._host.numpy()
        return found

    def _flat(self) -> tuple[Tensor, Tensor]:
        self._weights = torch.from_numpy(self.weights).to(self._device, copy=True)
        self._velocity = torch.from_numpy(self.velocity).to(self._device, copy=True)
        self._gradient = self._host.to(self._device, copy=True)
        return self._weights, self._gradient

    def _complete(self, bucket: int) -> None:
        start, stop = self.buckets[bucket]
        self._host[start:stop].copy_(self._gradient[start:stop])  # waits for it
        super()._complete(bucket)

    def _clear(self) -> None:
        self._gradient.zero_()

    def _placed(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return images.to(self._device), labels.to(self._device)

    def step(self, world: int) -> None:
        self._gradient.copy_(self._host)
        descend_by(self.training, self._weights, self._velocity, self._gradient, world)

    def fetch(self) -> None:
        torch.from_numpy(self.weights).copy_(self._weights)
        torch.from_numpy(self.velocity).copy_(self._velocity)

    def put(self) -> None:
        self._weights.copy_(torch.from_numpy(self.weights))
        self._velocity.copy_(torch.from_numpy(self.velocity))
