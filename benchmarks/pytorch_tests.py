"""PyTorch's own tests of collectives, from its wheel, with our backend in place of Gloo: ``distributed_test.py``.

    python benchmarks/pytorch_tests.py                      # over a ring; about fifteen minutes
    python benchmarks/pytorch_tests.py --scheme bml --network "bcube(n=2,k=2)"
    python benchmarks/pytorch_tests.py --gloo               # with Gloo itself, for comparison
    python benchmarks/pytorch_tests.py --only test_all_to_all

It takes the package ``expecttest``, which PyTorch's tests import (``pip install expecttest``). Ranks run one test after
the other in the same processes, which are started again when a test has failed, hangs, or has left no group.
``pytorch_tests.txt`` has those that fail, with the reason of each; one that fails and is not in it makes the exit code
1, and so does one in it that passes. Tests for GPUs skip themselves, but for some that fail with Gloo, too, and that
the file has under "it takes GPUs": none of these is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collectives_vs_gloo import free_port, start_rank

from testbed.topologies.build import build as build_topology
from testbed.workloads import kinds
from testbed.workloads.kinds.script.plan import scripted
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build

KNOWN = Path(__file__).with_suffix(".txt")
GPU = "it takes GPUs"
"""With this the reason begins of a test that does not apply to CPUs, and does not skip itself."""
HANGS_S = 90.0
"""A test that takes longer hangs."""
LOOK_S = 0.1
_QUIET = {"PYTORCH_PRINT_REPRO_ON_FAILURE": "0", "KINETO_LOG_LEVEL": "5"}


@dataclass(frozen=True)
class Outcome:
    """Of one test: ``passed``, ``skipped`` or ``failed``, and why."""

    how: str
    why: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scheme", default="ring")
    parser.add_argument("--network", default="star(hosts=4)")
    parser.add_argument("--gloo", action="store_true")
    parser.add_argument("--only", default="", help="tests whose names contain this")
    asked = parser.parse_args()
    network = build_topology(asked.network, rate_bps=10**9)
    forest = build(asked.scheme, network, [1])
    assert isinstance(forest, Forest)
    names = [name for name in _names() if asked.only in name]
    found: dict[str, Outcome] = {}
    while len(found) < len(names):
        left = [name for name in names if name not in found]
        with tempfile.TemporaryDirectory() as folder:
            found |= _run(Path(folder), forest, left, is_gloo=asked.gloo)
    return _report(found, known={} if asked.gloo else _known())


def _report(found: dict[str, Outcome], known: dict[str, str]) -> int:
    ran = {name: one for name, one in found.items() if one.how != "skipped"}
    passed = [name for name, one in ran.items() if one.how == "passed"]
    new = {name: one.why for name, one in ran.items() if one.how == "failed" and name not in known}
    mended = [name for name in passed if name in known]
    for name, one in ran.items():
        if one.how == "failed":
            print(f"failed{' (known)' if name in known else ''}: {name}: {' '.join(one.why.split())[:250]}")
    for name in mended:
        print(f"passes, and is known to fail: {name}")
    ours = [name for name in ran if not known.get(name, "").startswith(GPU)]
    share = 100 * len(passed) / max(1, len(ours))
    print(f"{len(passed)} of {len(ours)} pass ({share:.1f} %); {len(found) - len(ours)} are not for CPUs")
    return 1 if new or mended else 0


def _known() -> dict[str, str]:
    lines = KNOWN.read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def _names() -> list[str]:
    command = [sys.executable, __file__, "--names"]
    done = subprocess.run(command, env={**os.environ, **_environment(4, Path("/tmp"))}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"cannot list the tests: {done.stderr.splitlines()[-1]}\n  fix: pip install expecttest")
    return done.stdout.split()


def _environment(world: int, folder: Path) -> dict[str, str]:
    return {"BACKEND": "gloo", "WORLD_SIZE": str(world), "TEMP_DIR": str(folder), "INIT_METHOD": "env://"} | _QUIET


def _run(folder: Path, forest: Forest, names: Sequence[str], *, is_gloo: bool) -> dict[str, Outcome]:
    """Start ranks and let them run these tests, until one has failed or has left no group."""
    kinds.save(scripted(forest), folder / "plan")
    (folder / "names").write_text("\n".join(names))
    (folder / "barrier").mkdir()
    (folder / "test_dir").mkdir()
    world, master = len(forest.workers), free_port()
    environment = _environment(world, folder)
    ranks = [
        start_rank(
            folder, forest, rank, master, [sys.executable, __file__, "--rank-of", str(folder), str(rank)],
            environment, is_ours=not is_gloo,
        )
        for rank in range(world)
    ]  # fmt: skip
    try:
        return _watch(folder, ranks, names)
    finally:
        for one in ranks:
            one.kill()
        for one in ranks:
            one.wait()


def _watch(folder: Path, ranks: Sequence[subprocess.Popen[str]], names: Sequence[str]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    moved_s = time.monotonic()
    while True:
        time.sleep(LOOK_S)
        told = [_told(folder / f"{rank}.told") for rank in range(len(ranks))]
        is_over = all(one.poll() is not None for one in ranks)
        while len(found) < len(names):
            name = names[len(found)]
            outcomes = [one[name] for one in told if name in one]
            failed = [one for one in outcomes if one.how == "failed"]
            if not failed and len(outcomes) < len(ranks):
                break
            if failed:
                time.sleep(1.0)  # others may tell more of why
                outcomes = [one[name] for one in map(_told, folder.glob("*.told")) if name in one]
            found[name] = max(outcomes, key=lambda one: (one.how == "failed", one.how == "passed", len(one.why)))
            print(f"{found[name].how:8} {name} {' '.join(found[name].why.split())[:400] if failed else ''}", flush=True)
            moved_s = time.monotonic()
            if failed:
                return found
        if len(found) == len(names):
            return found
        if time.monotonic() - moved_s > HANGS_S or is_over:
            said = "hangs" if not is_over else "a rank ended"
            if is_over and found and names[len(found)] not in set().union(*told):
                return found  # the last test has left no group
            found[names[len(found)]] = Outcome("failed", said)
            print(f"failed   {names[len(found) - 1]}: {said}", flush=True)
            return found


def _told(path: Path) -> dict[str, Outcome]:
    if not path.exists():
        return {}
    lines = [line for line in path.read_text().split("\n")[:-1] if line]
    return {one["name"]: Outcome(one["how"], one["why"]) for one in map(json.loads, lines)}


def member(folder: Path, rank: int) -> None:
    """One rank: run the tests and tell of each."""
    import gc
    import traceback
    import unittest
    from datetime import timedelta

    import torch.distributed as dist
    from torch.testing._internal.common_utils import set_rng_seed

    cases = _cases()
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    world = dist.group.WORLD
    with (folder / f"{rank}.told").open("a", buffering=1) as told:
        for name in (folder / "names").read_text().split():
            case = cases(name)
            case.rank = rank
            case.file_name = str(folder / f"{name}.store")
            how, why = "passed", ""
            set_rng_seed()  # type: ignore[no-untyped-call]  # as PyTorch's runner does
            try:
                getattr(case, name)()
            except unittest.SkipTest as skip:
                how, why = "skipped", str(skip)
            except SystemExit as ended:
                how, why = ("skipped", str(ended.code)) if ended.code else ("passed", "")
            except BaseException as error:
                at = traceback.extract_tb(error.__traceback__)[-1]
                how, why = "failed", f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})".strip()
            told.write(json.dumps({"name": name, "how": how, "why": why[:2000]}) + "\n")
            is_same = dist.is_initialized() and dist.group.WORLD is world
            if how == "failed" or not _others_told(folder, name) or not is_same:
                break
            gc.collect()  # groups that tests make and leave
    os._exit(0)


def _others_told(folder: Path, name: str) -> bool:
    """Wait until all ranks have run a test: some end long before others."""
    end_s = time.monotonic() + HANGS_S
    while time.monotonic() < end_s:
        told = [_told(folder / f"{rank}.told") for rank in range(int(os.environ["WORLD_SIZE"]))]
        if all(name in one for one in told):
            return all(one[name].how != "failed" for one in told)
        time.sleep(0.01)
    return False


def _cases() -> type:
    """PyTorch's class of tests, each of which is a method."""
    from torch.testing._internal.distributed import distributed_test

    # What a profiler shows of Gloo's collectives is not asked of ours, which tells of them in rows.
    distributed_test.PROFILING_SUPPORTED_BACKENDS.remove("gloo")
    distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS.remove("gloo")

    class Cases(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        pass

    return Cases


if __name__ == "__main__":
    if sys.argv[1:2] == ["--names"]:
        print("\n".join(name for name in sorted(dir(_cases())) if name.startswith("test_")))
        sys.exit(0)
    if sys.argv[1:2] == ["--rank-of"]:
        member(Path(sys.argv[2]), int(sys.argv[3]))
    sys.exit(main())
