"""Parameter server, colocated and sharded: every worker is also a server of a part of the gradient.

BML section 2 calls this the peer-to-peer placement of the parameter server: with N machines each one aggregates 1/N of
the gradient and sends the sum to all others, so GST >= 2(N-1)/N x T_F on a non-blocking network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from testbed.errors import SchemeError
from topologies.model import Topology
from workloads.sync.forest import ABSENT, ROOT, Forest


def ps(topology: Topology, tensor_sizes: Sequence[int], *, place: Literal["chunk", "tensor"] = "chunk") -> Forest:
    """Parameter server on every worker; placed by chunk (equal shares) or by whole tensor.

    ``place=chunk``: N classes of equal share, class c summed at worker c.
    ``place=tensor``: one class a tensor; tensor i is summed at worker i mod N, in order of creation. That is what
    TensorFlow's ``tf.compat.v1.train.replica_device_setter`` does by default (round-robin over the PS tasks), and it
    leaves the servers as unequal as the tensors are.

    Source: BML section 2; TensorFlow, tensorflow/python/training/device_setter.py.
    """
    count = topology.host_count
    if place == "tensor":
        if not tensor_sizes:
            raise SchemeError("ps(place=tensor) needs the sizes of the tensors, and there are none", fix="use ps")
        share = np.asarray(tensor_sizes, dtype=np.int64)
    else:
        share = np.ones(count, dtype=np.int64)
    servers = np.arange(len(share)) % count
    trees = np.full((len(share), len(topology.nodes)), ABSENT, dtype=np.int32)
    trees[:, :count] = servers[:, None]
    trees[np.arange(len(share)), servers] = ROOT
    return Forest(
        scheme="ps",
        nodes=tuple(node.name for node in topology.nodes),
        workers=tuple(topology.hosts),
        share=share,
        reduce=trees,
        broadcast=trees,
        aligned=place == "tensor",
    )
