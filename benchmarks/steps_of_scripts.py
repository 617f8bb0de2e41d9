"""Step time of a script in an arm ``gloo`` over plain PyTorch, and of a compiled one under ``ring``; on loopback.

    python benchmarks/steps_of_scripts.py              # six minutes
    python benchmarks/steps_of_scripts.py --ranks 4 --rounds 40

Each rank trains a network of 1.6 million parameters with DistributedDataParallel. The ranks of all arms are there
together, and arms take turns of some steps, in an order that is drawn for each round, so that a slow moment of the
machine meets all alike. The time of a turn is the median of its steps, by the first rank's clock. The figure is the
median over rounds of the ratio to plain PyTorch's turn of the same round, with its 95 % interval (bootstrap). Ranks are
started several times, since where the kernel puts their memory makes them 1 % faster or slower. A second plain arm says
what the figure can tell. The ratio of processor times is less noisy, and stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are

from testbed.workloads.sync.chunk_size import CALL_BYTES
from tests.workloads.kinds.script.backend.ranks import PLAIN, Ranks, fork

IMPORTS = "torch._dynamo torch._dynamo.backends.debugging"
STEPS = 6
PATIENCE_S = 60.0
"""Time for the turns of all other arms, the first of which compile."""
WARM_UP = 2
"""Rounds that do not count: DDP builds its buckets, and the compiler compiles."""
AGAIN = "plain again"
CASES = (
    (False, AGAIN, 0.99, 1.01),
    (False, "gloo", 0.99, 1.01),
    (True, AGAIN, 0.99, 1.01),
    (True, "gloo", 0.99, 1.01),
    (True, "ring", 0.0, 1.0),
)
"""Whether the model is compiled, the arm, and the least and the most that are asked for."""
SAMPLES = 2000
"""Samples of the bootstrap."""
Times = dict[str, list[tuple[float, float]]]
"""By arm and round, the time of a step (s), and its processor time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60, help="of each start")
    parser.add_argument("--starts", type=int, default=3, help="how often ranks are started")
    parser.add_argument("--compiled", action="store_true", help="only compiled models")
    asked = parser.parse_args()
    is_met = True
    for is_compiled in (True,) if asked.compiled else (False, True):
        cases = [case for case in CASES if case[0] == is_compiled]
        times: Times = defaultdict(list)
        for _ in range(asked.starts):
            with tempfile.TemporaryDirectory() as folder:
                arms = [PLAIN, *(arm for _, arm, *_ in cases)]
                more = measured(Path(folder), arms, asked.ranks, asked.rounds + WARM_UP, is_compiled=is_compiled)
            for arm, turns in more.items():
                times[arm] += turns[WARM_UP:]
        name = "torch.compile(DDP)" if is_compiled else "DDP"
        for _, arm, least, most in cases:
            steps, work = (
                [own[i] / base[i] for own, base in zip(times[arm], times[PLAIN], strict=True)] for i in (0, 1)
            )
            is_met &= least <= round(statistics.median(steps), 2) <= most
            print(
                f"{name:18} {arm:11} over plain: {described(steps)}, asked {least:g} to {most:g}; processor time "
                f"{described(work)}; plain {1e3 * statistics.median(base for base, _ in times[PLAIN]):.1f} ms a step",
                flush=True,
            )
    return 0 if is_met else 1


def described(ratios: Sequence[float]) -> str:
    """Their median, with its 95 % interval."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(SAMPLES))
    return f"{statistics.median(ratios):.3f} ({medians[SAMPLES // 40]:.3f} to {medians[-SAMPLES // 40]:.3f})"


def order(arms: int, rounds: int) -> list[int]:
    """The arm of each turn; the same in all ranks."""
    draw = random.Random(0)
    return [arm for _ in range(rounds) for arm in draw.sample(range(arms), arms)]


def measured(folder: Path, arms: list[str], world: int, rounds: int, *, is_compiled: bool) -> Times:
    """Times of one start, by arm and round."""
    several = []
    for arm in arms:
        (own := folder / arm.replace(" ", "_")).mkdir()
        ranks = Ranks(own, f"star(hosts={world})", "ring")
        ranks.library = {"ring": "", AGAIN: PLAIN}.get(arm, arm)
        ranks.chunk_bytes = CALL_BYTES  # as on all links of 3.4 Gbit/s and more
        several.append(ranks)
    ports = ",".join(str(ranks.master) for ranks in several)
    words = ["--turns", str(folder), ports, str(rounds), *(["compiled"] if is_compiled else [])]
    (folder / "turn0").touch()
    ended = fork(several, Path(__file__), *words, imports=IMPORTS)
    if failed := [said for status, said in ended if status]:
        sys.exit("\n".join(failed))
    return {arm: json.loads(ended[i * world][1].splitlines()[-1]) for i, arm in enumerate(arms)}


def member(folder: Path, ports: list[str], rounds: int, *, is_compiled: bool) -> None:
    """One rank; the first one of each arm prints its times."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    torch.manual_seed(0)
    layers = [part for _ in range(6) for part in (nn.Linear(512, 512), nn.ReLU())]
    model: Any = DistributedDataParallel(nn.Sequential(*layers))
    if is_compiled:
        model = torch.compile(model, backend="aot_eager")
    optimiser = torch.optim.SGD(model.parameters(), 0.001)
    some, times = torch.ones(64, 512), []
    own = ports.index(os.environ["MASTER_PORT"])
    for turn, arm in enumerate(order(len(ports), rounds)):
        if arm != own:
            continue
        end_s = time.monotonic() + PATIENCE_S
        while not (folder / f"turn{turn}").exists():
            time.sleep(0.002)
            if time.monotonic() > end_s:
                sys.exit("the other arms are gone")
        steps_s, before_s = [], time.process_time()
        for _ in range(STEPS):
            began_s = time.monotonic()
            optimiser.zero_grad()
            model(some).square().mean().backward()
            optimiser.step()
            steps_s.append(time.monotonic() - began_s)
        times.append((statistics.median(steps_s), (time.process_time() - before_s) / STEPS))
        dist.barrier()
        if dist.get_rank() == 0:
            (folder / f"turn{turn + 1}").touch()
    print(json.dumps(times), flush=True)
    os._exit(0)  # an arm that leaves early takes nobody's time


if __name__ == "__main__":
    if sys.argv[1:2] == ["--turns"]:
        member(Path(sys.argv[2]), sys.argv[3].split(","), int(sys.argv[4]), is_compiled="compiled" in sys.argv[5:])
    sys.exit(main())
