"""LightGBM that learns to rank, data-parallel: each rank has rows of its own.

testbed run experiments/collectives/lightgbm.yaml

LightGBM finds its rank by its address in the list of all machines, which TESTBED_MACHINES is. Left alone, each rank
would cut columns into bins by its own rows, and thresholds would differ between ranks. So all ranks take the bins of
one data set, which each draws from the same seed. In the end, all ranks must predict the same for its rows.
"""

import argparse
import hashlib
import os
import sys
import time
from multiprocessing.connection import Client, Listener

import numpy as np

for package in ("pandas", "sklearn"):  # LightGBM does without, and saves each rank a second of a core
    sys.modules.setdefault(package, None)
try:
    import lightgbm
except ModuleNotFoundError:
    from testbed.base.extras import install

    raise SystemExit(f"lambdarank.py needs the package lightgbm\n  fix: {install('lightgbm')}") from None

SHARED = 0
"""Seed of the data set that all ranks draw; rank r draws its own rows from seed r + 1."""
ROWS_A_QUERY = 20
TELLING = 8
"""Columns on which relevance depends; all others are noise."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=600, help=f"of each rank, {ROWS_A_QUERY} for each query")
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--bins", type=int, default=63, help="of each column; 16 bytes of each are summed for a split")
    parser.add_argument("--leaves", type=int, default=15)
    parser.add_argument("--trees", type=int, default=5)
    asked = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank:
        predicted = train(asked, rank, os.environ["TESTBED_MACHINES"])
        with Client(address) as first:
            first.send_bytes(predicted)
        return
    with Listener(address, backlog=world) as others:  # before training, which no rank ends before rank 0 has begun
        agree(train(asked, rank, os.environ["TESTBED_MACHINES"]), others, world)


def train(asked: argparse.Namespace, rank: int, machines: str) -> bytes:
    """Train with all other ranks, tell how long each tree takes, and return the digest of what is predicted for the
    shared rows."""
    table, relevance, queries = draw(SHARED, asked)
    settings = {"max_bin": asked.bins, "num_threads": 1, "verbosity": -1}
    shared = lightgbm.Dataset(table, relevance, group=queries, params=settings).construct()
    own, own_relevance, own_queries = draw(rank + 1, asked)
    rows = lightgbm.Dataset(own, own_relevance, group=own_queries, reference=shared, params=settings).construct()
    booster = lightgbm.Booster(
        {
            **settings,
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": 10,
            "num_leaves": asked.leaves,
            "tree_learner": "data",
            "machines": machines,
            "local_listen_port": int(machines.split(",")[rank].rpartition(":")[2]),
        },
        rows,
    )
    for tree in range(asked.trees):
        begun_s = time.monotonic()
        booster.update()
        print(f"tree {tree}: {time.monotonic() - begun_s:.4f} s", flush=True)
    booster.add_valid(shared, "shared")
    print(f"ndcg {booster.eval_valid()[0][2]:.4f}", flush=True)
    return hashlib.sha256(booster.predict(table, num_threads=1)).digest()


def draw(seed: int, asked: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return a table float32[rows, columns], the relevance int64[rows] from 0 to 3, and the rows of each query."""
    random = np.random.default_rng(seed)
    table = random.standard_normal((asked.rows, asked.columns), dtype=np.float32)
    score = table[:, :TELLING].mean(axis=1) * TELLING**0.5 + 0.3 * random.standard_normal(asked.rows)
    return table, np.digitize(score, (-0.5, 0.5, 1.5)), [ROWS_A_QUERY] * (asked.rows // ROWS_A_QUERY)


def agree(predicted: bytes, others: Listener, world: int) -> None:
    """Compare the digest of rank 0 with those that all other ranks send.

    Raises:
        SystemExit: some rank predicts otherwise.
    """
    differ = 0
    for _ in range(world - 1):
        with others.accept() as other:
            differ += other.recv_bytes(len(predicted)) != predicted
    if differ:
        raise SystemExit(f"{differ} of {world} ranks predict otherwise than rank 0: their trees are not the same")
    print(f"all {world} ranks predict the same", flush=True)


if __name__ == "__main__":
    main()
