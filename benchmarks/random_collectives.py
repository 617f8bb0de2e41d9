"""Random collectives of four ranks over a scheme, and ranks that are killed in the middle of them.

    python benchmarks/random_collectives.py                         # 10,000 over a ring, then 20 ranks killed
    python benchmarks/random_collectives.py --scheme ps --seed 7

Every rank draws the same collectives (``random_calls.py`` of the tests): kind, type, size up to a million numbers,
group, and whether it waits at once or for several together, in whatever order. It knows the numbers of all ranks, so
each result is looked at. Then a rank is killed while they make collectives: the scripts of the others must have its
name in an error within 2 s. (Python and PyTorch take up to 3 s more to end a process on a busy machine.)
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from collectives_vs_gloo import free_port, start_rank

from testbed.topologies.build import build as build_topology
from testbed.workloads import kinds
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build

SCRIPT = Path(__file__).parents[1] / "tests/workloads/kinds/script/backend/random_calls.py"
LARGEST = 10**6
PATIENCE_S = 3600.0
ENDS_S = 2.0
BEFORE_S = (0.0, 2.0)
"""After the first collective, when a rank is killed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scheme", default="ring")
    parser.add_argument("--network", default="star(hosts=4)")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    forest = build(asked.scheme, build_topology(asked.network, rate_bps=10**9), [1])
    assert isinstance(forest, Forest)
    is_right = asked.count == 0 or collectives(forest, asked.count, asked.seed)
    draw = random.Random(asked.seed)
    latest_s = 0.0
    for number in range(asked.kills):
        ended_s, problem = kill(forest, draw.randrange(len(forest.workers)), draw.uniform(*BEFORE_S), number)
        latest_s = max(latest_s, ended_s)
        if problem:
            print(f"kill {number}: {problem}", flush=True)
            is_right = False
    if asked.kills:
        print(f"{asked.kills} ranks killed; the last other one heard of it {latest_s:.2f} s after (target {ENDS_S})")
    return 0 if is_right and latest_s <= ENDS_S else 1


def collectives(forest: Forest, count: int, seed: int) -> bool:
    """Whether all are right."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        ranks = start(Path(folder), forest, [str(count), str(seed), "0", str(LARGEST)])
        said = [one.communicate(timeout=PATIENCE_S)[0] for one in ranks]
    for text in said:
        if not text.endswith("all right\n"):
            print(text, file=sys.stderr)
    is_right = all(text.endswith("all right\n") for text in said)
    print(
        f"{count:,} collectives: {'all right' if is_right else 'WRONG'}, {time.monotonic() - began_s:.0f} s", flush=True
    )
    return is_right


def kill(forest: Forest, victim: int, after_s: float, seed: int) -> tuple[float, str]:
    """Seconds until the scripts of all others have an error, and what is wrong with it."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = start(Path(folder), forest, [str(10**6), str(seed), "0"])
        for rank in range(len(ranks)):
            while b'"call"' not in (Path(folder) / f"{rank}.jsonl").read_bytes():
                time.sleep(0.05)
        time.sleep(after_s)
        ranks[victim].kill()
        killed_s = time.monotonic()
        others = [Path(folder) / f"{rank}.jsonl" for rank in range(len(ranks)) if rank != victim]
        while time.monotonic() < killed_s + 60 and not all(b'"error"' in one.read_bytes() for one in others):
            time.sleep(0.01)
        took_s = time.monotonic() - killed_s
        for one in ranks:
            one.wait(60)
        said = [one.communicate()[0] for one in ranks]
    name = forest.nodes[forest.workers[victim]]
    for rank, text in enumerate(said):
        if rank != victim and f"lost the connection to {name}" not in text:
            return took_s, f"rank {rank} did not name {name}: {text[-500:]}"
    return took_s, ""


def start(folder: Path, forest: Forest, arguments: list[str]) -> list[subprocess.Popen[str]]:
    kinds.save(scripted(forest), folder / "plan")
    for rank in range(len(forest.workers)):
        (folder / f"{rank}.jsonl").touch()
    master = free_port()
    command = [sys.executable, str(SCRIPT), *arguments]
    return [start_rank(folder, forest, rank, master, command, is_heard=True) for rank in range(len(forest.workers))]


if __name__ == "__main__":
    sys.exit(main())
