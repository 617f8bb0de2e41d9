"""How long forests for 1,024 workers take to make and to verify, and the most memory this process ever had.

python benchmarks/forest_scale.py

The BML forest of BCube(32,2), 2,048 classes, several times; then every scheme once, on the network of about 1,024
workers that suits it; then a ring of 4,096 workers, with its cost; then all messages of a ring of 1,024, one after the
other, and the memory that they take beside a list of all.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
import tracemalloc
from collections import Counter
from itertools import islice

from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology
from testbed.workloads.sync.chunks import whole
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.flows import flows
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.messages import messages
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.verify import verify

TOPOLOGY = "bcube(n=32,k=2)"
TARGET_S = 5.0
REPETITIONS = 5

RACKS = "spine_leaf(racks=32,hosts_per_rack=32,spines=4)"
SCHEMES = {
    "ps": RACKS,
    "ps(servers=1)": RACKS,
    "ps(place=lpt)": RACKS,
    "ps(colocated=false,servers=16)": "spine_leaf(racks=32,hosts_per_rack=33,spines=4)",
    "ring": RACKS,
    "multi_ring(strides=[1,3,9,27,81,243])": RACKS,
    "halving_doubling": "star(hosts=1023)",
    "halving_doubling(remainder=fold)": "star(hosts=1023)",
    "bcube(base=4)": RACKS,
    "tree(fanout=32)": RACKS,
    "double_binary_tree": RACKS,
    "hierarchical_ps(across=ring)": RACKS,
    "two_level": RACKS,
    "h_ar": RACKS,
    "hierarchical": "fat_tree(k=16)",
    "bml": TOPOLOGY,
    "switchml": "fat_tree(k=16,ina=all)",
    "atp": "fat_tree(k=16,ina=50%)",
    "atp(servers=0)": "fat_tree(k=16,ina=all)",
    "rina": "fat_tree(k=16,ina=64)",
    "gloo": RACKS,
    "openmpi(algorithm=rabenseifner)": RACKS,
}
SCHEME_TARGET_S, TARGET_BYTES = 10.0, 1 << 30
MANY, MESSAGES_TARGET_BYTES = "star(hosts=1024)", 128 << 20
LARGEST, LARGEST_TARGET_S = "star(hosts=4096)", 20.0
TENSORS = [1_000_003 // (i + 1) for i in range(500)]  # as a large model has: many, and of unlike sizes


def main() -> int:
    topology = build_topology(TOPOLOGY, rate_bps=10**9)
    timed = [_timed("bml", topology) for _ in range(REPETITIONS)]
    forest = timed[0][0]
    medians = {
        "generate": statistics.median(generate_s for _, generate_s, _ in timed),
        "verify": statistics.median(verify_s for _, _, verify_s in timed),
    }
    total_s = sum(medians.values())
    print(f"bml on {TOPOLOGY}: {len(topology.hosts)} servers, {forest.classes} classes, median of {REPETITIONS}")
    for step, seconds in medians.items():
        print(f"  {step:8} {seconds:6.2f} s")
    print(f"  {'total':8} {total_s:6.2f} s   target {TARGET_S:.2f} s or less")
    del timed, forest
    slow = _every_scheme() + _largest()
    slow += _messages()
    memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"most memory {memory / 2**20:.0f} MiB, target {TARGET_BYTES >> 20} MiB or less")
    return 0 if total_s <= TARGET_S and not slow and memory <= TARGET_BYTES else 1


def _timed(scheme: str, topology: Topology) -> tuple[Forest, float, float]:
    """The forest, and the seconds that making and verifying it took."""
    began = time.perf_counter()
    forest = build(scheme, topology, TENSORS)
    made = time.perf_counter()
    verify(forest, topology)
    return forest, made - began, time.perf_counter() - made


def _every_scheme() -> list[str]:
    """A line a scheme; those that took too long."""
    slow = []
    print(f"\n{'scheme':40} {'network':48} workers classes generate  verify   total, target {SCHEME_TARGET_S:.0f} s")
    for scheme, network in SCHEMES.items():
        forest, generate_s, verify_s = _timed(scheme, build_topology(network, rate_bps=10**9))
        total_s = generate_s + verify_s
        slow += [scheme] if total_s > SCHEME_TARGET_S else []
        sizes = f"{len(forest.workers):7} {forest.classes:7}"
        print(f"{scheme:40} {network:48} {sizes} {generate_s:6.2f} s {verify_s:6.2f} s {total_s:6.2f} s")
    return slow


def _largest() -> list[str]:
    topology = build_topology(LARGEST, rate_bps=10**9)
    forest, generate_s, verify_s = _timed("ring", topology)
    began = time.perf_counter()
    cost(forest, topology, 4e6)
    cost_s = time.perf_counter() - began
    total_s = generate_s + verify_s + cost_s
    steps = f"generate {generate_s:.2f} s, verify {verify_s:.2f} s, cost {cost_s:.2f} s"
    print(f"\nring on {LARGEST}: {steps}, total {total_s:.2f} s, target {LARGEST_TARGET_S:.0f} s or less")
    return ["ring"] if total_s > LARGEST_TARGET_S else []


def _messages() -> list[str]:
    """Time and memory of all messages of a ring, without a list of them."""
    topology = build_topology(MANY, rate_bps=10**9)
    forest = build("ring", topology, TENSORS)
    table = whole(forest, 10**6)
    began = time.perf_counter()
    count_bytes = Counter[tuple[int, int]]()
    count = 0
    for message in messages(forest, table):
        count += 1
        count_bytes[message.src, message.dst] += message.bytes
    took_s = time.perf_counter() - began
    began = time.perf_counter()
    expected = {(src, dst): each for src, dst, each in flows(forest, 4e6)}
    edges_s = time.perf_counter() - began
    off = max(abs(count_bytes[pair] / expected[pair] - 1) for pair in expected)
    tracemalloc.start()
    some = list(islice(messages(forest, table), 20_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    each = sum(sys.getsizeof(one) + sys.getsizeof(one.what) + sys.getsizeof(one.after) for one in some) / len(some)
    print(f"\nring on {MANY}: {count:,} messages in {took_s:.1f} s; their sums by edges take {edges_s:.2f} s")
    print(f"  bytes by edge differ by {off:.1e} at most; 1 % for whole floats is allowed")
    print(
        f"  20,000 of them with all else take {peak / 2**20:.0f} MiB, target {MESSAGES_TARGET_BYTES >> 20} MiB or less;"
    )
    print(f"  a list of all would take {count * each / 2**20:.0f} MiB at least")
    return ["messages"] if off > 0.01 or peak > MESSAGES_TARGET_BYTES else []


if __name__ == "__main__":
    sys.exit(main())
