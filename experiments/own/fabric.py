"""Asynchronous SGD over MLfabric: logistic regression on handwritten digits, in a program of one's own.

testbed run experiments/own/fabric.yaml    # a process a host: workers, a server, its replica, a scheduler

Any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT can start it, too.
"""

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.kinds.fabric import api

BATCH = 32
PIXELS = 64
CLASSES = 10
Floats = NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=400, help="of all workers together")
    parser.add_argument("--rate", type=float, default=100e6, help="of a host's link, in bit/s")
    parser.add_argument("--learning-rate", type=float, default=0.4)
    asked = parser.parse_args()
    params = api.Params(
        floats=(PIXELS + 1) * CLASSES,
        updates=asked.updates,
        rate_bps=asked.rate,
        delay_bound=8,
        divergence_bound=2.0,  # updates are 0.1 to 0.6 long
        aggregators=1,
        window_s=0.05,
    )
    role = api.role(params)
    if role == "worker":
        work(params, asked.learning_rate)
    elif role == "server":
        serve(params)
    elif role == "replica":
        replicate(params)
    else:
        api.run_scheduler(params)


def work(params: api.Params, learning_rate: float) -> None:
    """Push the step that each batch asks for, and go on from the weights that come back."""
    images, labels = digits()
    weights = np.zeros(params.floats, np.float32)
    place = api.Place.from_environment()
    random = np.random.default_rng(place.rank)
    print(f"rank {place.rank}: loss {loss(weights, images, labels):.3f} before the first update", flush=True)
    samples = 0
    with api.register_as_worker(params) as worker:
        begun_s = time.monotonic()
        while worker.goes_on:
            batch = random.integers(len(images), size=BATCH)
            update = -np.float32(learning_rate) * gradient(weights, images[batch], labels[batch])
            worker.push(worker.server, update, float(np.linalg.norm(update)))
            worker.get(worker.server, weights)
            samples += BATCH
        rate = samples / (time.monotonic() - begun_s)
    found = loss(weights, images, labels)
    print(f"rank {place.rank}: loss {found:.3f} after {worker.version} updates, {rate:,.0f} samples/s", flush=True)


def serve(params: api.Params) -> None:
    """Keep the weights, and add what comes: one update, or a sum of several."""

    def step(weights: Floats, update: Floats, count: int) -> None:
        counts.append(count)
        weights += update

    counts: list[int] = []
    server = api.register_as_server(params)
    server.register_update_callback(step)
    applied = server.serve(np.zeros(params.floats, np.float32))
    print(f"server: {applied} of {params.updates} updates were applied, in {len(counts)} steps", flush=True)


def replicate(params: api.Params) -> None:
    """Keep a copy of the weights of the server, which is the rank before this one."""
    server = api.name_of(api.Place.from_environment().rank - 1)
    applied = api.register_as_replica(server, params).serve(np.zeros(params.floats, np.float32))
    print(f"replica: has {applied} updates", flush=True)


def digits() -> tuple[Floats, NDArray[np.intp]]:
    """1,797 images of 8 x 8 pixels from 0 to 1, each with a constant, and their labels."""
    from sklearn.datasets import load_digits  # which the server and the scheduler do not need

    found = load_digits()
    images = np.column_stack([found.data / 16, np.ones(len(found.data))]).astype(np.float32)
    return images, found.target


def probabilities(weights: Floats, images: Floats) -> Floats:
    scores = images @ weights.reshape(-1, CLASSES)
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = exponentials / exponentials.sum(axis=1, keepdims=True)
    return shares


def loss(weights: Floats, images: Floats, labels: NDArray[np.intp]) -> float:
    """The cross-entropy, of all images."""
    right = probabilities(weights, images)[np.arange(len(labels)), labels]
    return float(-np.log(right + 1e-12).mean())


def gradient(weights: Floats, images: Floats, labels: NDArray[np.intp]) -> Floats:
    """Of the loss of a batch."""
    off = probabilities(weights, images)
    off[np.arange(len(labels)), labels] -= 1
    found: Floats = (images.T @ off / np.float32(len(labels))).ravel()
    return found


if __name__ == "__main__":
    main()
