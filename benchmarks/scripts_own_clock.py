"""What is told of a script's waiting, beside the script's own clock around the same collectives; on loopback.

    python benchmarks/scripts_own_clock.py                # ring, PS and Gloo, arrays of 200 KB and 4 MB; a minute

Three ranks compute for 10 ms, make an ``all_reduce``, compute again, and make a ``reduce_scatter``. Each takes the time
before and after every collective. *Exposed* is the metric ``exposed_s`` over the median of the ranks' own mean, and
*listed* the time in the table of collectives over the median, by the ranks' own clocks, from the last rank that asks to
the last one that goes on. What is left of *exposed* is PyTorch's own code around the backend.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are

from testbed.execution import rank_lines
from testbed.workloads.kinds.script.account import account
from tests.workloads.kinds.script.backend.ranks import Ranks

ARMS = (("ring", ""), ("ps", ""), ("gloo", "gloo"))
SIZES_BYTES = (200_000, 4_000_000)
ITERATIONS = 40
COMPUTES_S = 0.01
NAMES = ("allreduce", "reduce_scatter")
Moments = list[tuple[float, float, float, float]]


def main() -> int:
    if len(sys.argv) > 1:
        rank(Path(sys.argv[1]), int(sys.argv[2]))
        return 0
    for nbytes in SIZES_BYTES:
        for scheme, library in ARMS:
            with tempfile.TemporaryDirectory() as folder:
                row(Path(folder), scheme, library, nbytes)
    return 0


def row(folder: Path, scheme: str, library: str, nbytes: int) -> None:
    """Measure, and print a row."""
    ranks = Ranks(folder, "star(hosts=3)", scheme)
    ranks.library = library
    for status, said in ranks.fork(Path(__file__), str(folder), str(nbytes)):
        if status:
            sys.exit(said)
    names = [ranks.plan.nodes[node] for node in ranks.plan.workers]
    told = [rank_lines.rows(rank_lines.read(ranks.samples(name)), i, i) for i, name in enumerate(names)]
    found = account(ranks.plan, ranks.network, [one for one in told if one is not None], 1)
    own: list[Moments] = [json.loads((folder / f"own{i}").read_text()) for i in range(len(names))]
    turns = list(zip(*own, strict=True))
    exposed_s = statistics.median(statistics.mean(b - a + d - c for a, b, c, d in turn) for turn in turns[1:])
    measured_s = found.metrics["exposed_s"]
    assert measured_s is not None
    text = f"{scheme:5} {nbytes:>9,} B  exposed {1e3 * measured_s:7.2f} of {1e3 * exposed_s:7.2f} ms"
    text += f" ({measured_s / exposed_s - 1:+.1%})"
    for i, name in enumerate(NAMES):
        times_s = [max(one[2 * i + 1] for one in turn) - max(one[2 * i] for one in turn) for turn in turns]
        (listed_s,) = (one["median_s"] for one in found.collectives if one["op"] == name)
        middle_s = statistics.median(times_s)
        text += f"  {name} listed {1e3 * listed_s:6.2f} of {1e3 * middle_s:6.2f} ms ({listed_s / middle_s - 1:+.1%})"
    print(text, flush=True)


def rank(folder: Path, nbytes: int) -> None:
    """One rank; writes its own moments."""
    import time

    import torch
    import torch.distributed as dist

    def compute() -> None:
        end_s = time.monotonic() + COMPUTES_S
        while time.monotonic() < end_s:
            whole.mul_(1.0)

    dist.init_process_group("gloo")
    part, moments = nbytes // 4 // dist.get_world_size(), []
    whole, out = torch.ones(part * dist.get_world_size()), torch.empty(part)
    for _ in range(ITERATIONS):
        compute()
        first_s = time.monotonic()
        dist.all_reduce(whole)
        second_s = time.monotonic()
        compute()
        third_s = time.monotonic()
        dist.reduce_scatter_single(out, whole)
        moments.append((first_s, second_s, third_s, time.monotonic()))
    (folder / f"own{dist.get_rank()}").write_text(json.dumps(moments))
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
