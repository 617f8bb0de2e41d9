"""Step time of a script in an arm ``gloo`` over plain PyTorch, and of a compiled one under ``ring``; on loopback.

    python benchmarks/steps_of_scripts.py              # three minutes
    python benchmarks/steps_of_scripts.py --ranks 4 --rounds 40

Each rank trains a network of 1.6 million parameters with DistributedDataParallel. The ranks of all arms are there
together, and arms take turns of some steps, so that a slow moment of the machine meets all alike. The time of a turn is
the median of its steps, by the first rank's clock. The figure is the median over rounds of the ratio to plain PyTorch's
turn of the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are

from testbed.workloads.sync.chunk_size import CHUNK_BYTES
from tests.workloads.kinds.script.backend.ranks import PLAIN, Ranks, fork

IMPORTS = "torch._dynamo torch._dynamo.backends.debugging"
STEPS = 10
PATIENCE_S = 60.0
"""Time for the turns of all other arms, the first of which compile."""
WARM_UP = 2
"""Rounds that do not count: DDP builds its buckets, and the compiler compiles."""
CASES = ((False, "gloo", 0.99, 1.01), (True, "gloo", 0.99, 1.01), (True, "ring", 0.0, 1.0))
"""Whether the model is compiled, the arm, and the least and the most that are asked for."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--compiled", action="store_true", help="only compiled models")
    asked = parser.parse_args()
    is_met = True
    for is_compiled in (True,) if asked.compiled else (False, True):
        arms = [PLAIN, *(arm for compiled, arm, *_ in CASES if compiled == is_compiled)]
        with tempfile.TemporaryDirectory() as folder:
            times_s = measured(Path(folder), arms, asked.ranks, asked.rounds + WARM_UP, is_compiled=is_compiled)
        plain = times_s[PLAIN][WARM_UP:]
        for compiled, arm, least, most in CASES:
            if compiled == is_compiled:
                ratios = sorted(own / base for own, base in zip(times_s[arm][WARM_UP:], plain, strict=True))
                middle, quarter = statistics.median(ratios), len(ratios) // 4
                is_met &= least <= round(middle, 2) <= most
                print(
                    f"{'torch.compile(DDP)' if compiled else 'DDP':18} {arm:4} over plain: {middle:.3f} "
                    f"(half of the rounds {ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}), asked {least:g} to "
                    f"{most:g}; plain {1e3 * statistics.median(plain):.1f} ms a step",
                    flush=True,
                )
    return 0 if is_met else 1


def measured(folder: Path, arms: list[str], world: int, rounds: int, *, is_compiled: bool) -> dict[str, list[float]]:
    """Time of a step (s) by arm, in each round."""
    several = []
    for arm in arms:
        (own := folder / arm).mkdir()
        ranks = Ranks(own, f"star(hosts={world})", "ring")
        ranks.library = "" if arm == "ring" else arm
        ranks.chunk_bytes = CHUNK_BYTES[0]
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
    some, times_s = torch.ones(64, 512), []
    arm = ports.index(os.environ["MASTER_PORT"])
    for turn in range(rounds):
        end_s = time.monotonic() + PATIENCE_S
        while not (folder / f"turn{turn * len(ports) + arm}").exists():
            time.sleep(0.002)
            if time.monotonic() > end_s:
                sys.exit("the other arms are gone")
        steps_s = []
        for _ in range(STEPS):
            began_s = time.monotonic()
            optimiser.zero_grad()
            model(some).square().mean().backward()
            optimiser.step()
            steps_s.append(time.monotonic() - began_s)
        dist.barrier()
        times_s.append(statistics.median(steps_s))
        if dist.get_rank() == 0:
            (folder / f"turn{turn * len(ports) + arm + 1}").touch()
    print(json.dumps(times_s), flush=True)
    os._exit(0)  # an arm that leaves early takes nobody's time


if __name__ == "__main__":
    if sys.argv[1:2] == ["--turns"]:
        member(Path(sys.argv[2]), sys.argv[3].split(","), int(sys.argv[4]), is_compiled="compiled" in sys.argv[5:])
    sys.exit(main())
