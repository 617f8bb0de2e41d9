"""What a script gets that asks for Gloo: rows of all that it does; and what it reads after a mistake."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from testbed.base.errors import SpecError
from testbed.execution import rank_lines
from testbed.execution.launched import rank_environment
from testbed.workloads.kinds.ranks import PAIRED, RankRows
from testbed.workloads.kinds.script.backend.initialise import _added, _check, _check_environment
from testbed.workloads.rank_job import VARIABLE, RankJob
from testbed.workloads.sync.tcp_info import Sent
from tests import ports

PATIENCE_S = 120
_ports = ports.blocks(50)
COLLECTIVES = """
import torch, torch.distributed as dist, testbed
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
assert (rank, world) == (int(__import__("os").environ["RANK"]), 2)
for step in range(3):
    tensor = torch.full((1000,), float(rank + 1))
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert (tensor == 3).all()
    testbed.log(loss=tensor[0], samples=8)
    testbed.mark()
    dist.all_reduce(torch.ones(100), dist.ReduceOp.MAX)  # no sum of gradients, with no scheme
dist.broadcast(tensor, 1)
whole = [torch.empty(1000) for _ in range(world)]
dist.all_gather(whole, tensor)
together = torch.empty(2000)
dist.all_gather_into_tensor(together, tensor)
dist.reduce_scatter_tensor(torch.empty(1000), together)
dist.all_to_all_single(torch.empty(2000), together)
dist.reduce(tensor, 0)
if rank == 0:
    dist.send(tensor, 1)
    dist.send(tensor, 1)
else:
    assert dist.recv(tensor) == 0
    dist.recv(tensor, 0)
dist.barrier()
alone = [dist.new_group([one]) for one in range(world)][rank]
dist.all_reduce(tensor, group=alone)
dist.barrier()
"""
MISTAKES = """
import os, sys, torch, torch.distributed as dist
def ask(*arguments, **named):
    try:
        dist.init_process_group(*arguments, **named)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
from importlib.util import find_spec
assert find_spec("torchcomms") is None
os.mkdir("torchcomms")  # a package without __init__, which Python takes
sys.path.insert(0, "")
assert find_spec("torchcomms") is not None
try:
    import torchcomms
except ImportError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
import torch.distributed.rpc as rpc
try:
    rpc.init_rpc("worker0", rank=0, world_size=1)
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
ask(backend="nccl")
ask("cuda:nccl")
ask("gloo", "env://", None, 8, 0)
os.environ["WORLD_SIZE"] = "8"
ask("gloo")
os.environ["WORLD_SIZE"] = "1"
dist.init_process_group("cpu:gloo,cuda:nccl")
dist.destroy_process_group()
dist.device_mesh.init_device_mesh("cpu", (1,))  # makes the group again, by a name of its own
assert type(dist.group.WORLD) is dist.ProcessGroup
child = os.fork()
if child == 0:
    try:
        dist.all_reduce(torch.ones(1))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    os._exit(0)
os.waitpid(child, 0)
try:
    dist.init_process_group("gloo")
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
raise ValueError("no such shard")
"""


def started(folder: Path, script: str, rank: int, world: int) -> subprocess.Popen[str]:
    """A rank of a script whose bytes Gloo moves, on this machine."""
    (folder / "script.py").write_text(script)
    path = folder / f"h{rank}.json"
    path.write_text(
        RankJob(
            node=rank,
            name=f"h{rank}",
            rank=rank,
            world=world,
            kind="script",
            plan="",
            peers=(),
            addresses=("127.0.0.1",) * world,
            chunk_bytes=1024,
            congestion_control="reno",
            start_timeout_s=60.0,
            timeout_s=60.0,
            samples=str(folder / f"h{rank}.jsonl"),
            library="gloo",
        ).text()
    )
    environment = {**os.environ, **rank_environment(rank, world, "127.0.0.1"), VARIABLE: str(path)}
    environment |= {"GLOO_SOCKET_IFNAME": "lo", "MASTER_PORT": (folder / "port").read_text()}
    return subprocess.Popen(
        [sys.executable, str(folder / "script.py")],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def choose_port(folder: Path) -> None:
    """Where PyTorch's store listens, at all addresses."""
    (folder / "port").write_text(str(next(_ports)))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[RankRows]:
    """What two ranks told that did a bit of everything."""
    folder = tmp_path_factory.mktemp("ranks")
    choose_port(folder)
    ranks = [started(folder, COLLECTIVES, rank, 2) for rank in range(2)]
    for one in ranks:
        _, errors = one.communicate(timeout=PATIENCE_S)
        assert one.returncode == 0, errors
    rows = [rank_lines.rows(rank_lines.read(folder / f"h{rank}.jsonl"), rank, rank) for rank in range(2)]
    return [one for one in rows if one is not None]


def test_each_collective_has_a_row_with_its_size(told: list[RankRows]) -> None:
    assert len(told) == 2
    for rows in told:
        counts = Counter((call.op, call.nbytes, call.ranks) for call in rows.calls if call.group == 0)
        assert counts[("allreduce", 4000, 2)] == 3
        assert counts[("all_gather", 8000, 2)] == 2
        for op, nbytes in (("broadcast", 4000), ("reduce_scatter", 8000), ("all_to_all", 8000), ("reduce", 4000)):
            assert counts[(op, nbytes, 2)] == 1
        assert counts[("barrier", 0, 2)] >= 1
    assert [[call.op for call in rows.calls if call.op in PAIRED] for rows in told] == [["send"] * 2, ["recv"] * 2]


def test_ranks_number_their_collectives_alike(told: list[RankRows]) -> None:
    """Although the one sends before its last sums, and the other does not."""
    first, second = (
        {call.sequence: call.op for call in rows.calls if call.group == 0 and call.op not in PAIRED} for rows in told
    )
    assert len(first) > 8
    assert first == second


def test_what_no_scheme_adds_is_no_sum_of_gloos_either(told: list[RankRows]) -> None:
    for rows in told:
        assert Counter(
            (call.nbytes, call.adds) for call in rows.calls if call.op == "allreduce" and call.group == 0
        ) == {
            (4000, True): 3,
            (400, False): 3,
        }


def test_waits_marks_and_numbers_are_told(told: list[RankRows]) -> None:
    for rows in told:
        sums = [call for call in rows.calls if call.op == "allreduce" and call.group == 0]
        assert all(call.waited_s is not None and call.done_s >= call.asked_s >= rows.met_s for call in sums)
        assert len(rows.marks_s) == 3
        assert [one.values for one in rows.logged] == [{"loss": 3.0, "samples": 8.0}] * 3
        assert all(before < after for before, after in zip(rows.marks_s, rows.marks_s[1:], strict=False))


def test_a_group_of_some_ranks_has_a_number_of_its_own(told: list[RankRows]) -> None:
    assert [list(rows.groups.values()) for rows in told] == [[(0,)], [(1,)]]


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, object]]]:
    folder = tmp_path_factory.mktemp("mistakes")
    choose_port(folder)
    one = started(folder, MISTAKES, 0, 1)
    said, _ = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 1
    return said, rank_lines.read(folder / "h0.jsonl")


def test_what_a_script_cannot_have_is_said_with_the_line_to_change(
    mistaken: tuple[str, list[dict[str, object]]],
) -> None:
    assert mistaken[0].splitlines() == [
        "RefusedImportError: the script imports torchcomms, whose collectives go along no scheme",
        "  fix: use torch.distributed, or remove scheme from the arm",
        "SpecError: the script calls torch.distributed.rpc.init_rpc, and remote calls go along no scheme",
        "  fix: run it in an arm without a scheme: remove scheme from the arm",
        "SpecError: the script asks for the backend 'nccl', and ranks here compute on CPUs and speak TCP",
        '  fix: write torch.distributed.init_process_group("gloo"), or leave the backend out',
        "SpecError: the script asks for the backend 'cuda:nccl', and ranks here compute on CPUs and speak TCP",
        '  fix: write torch.distributed.init_process_group("gloo"), or leave the backend out',
        "SpecError: the script gives init_process_group world_size=8, and in this trial it is 1",
        "  fix: leave world_size out: it is in the environment, as torchrun sets it",
        "SpecError: the script sets WORLD_SIZE=8, and in this trial it is 1",
        "  fix: remove that line, or write os.environ.setdefault('WORLD_SIZE', ...)",
        "SpecError: a process that the script forked asks for a collective, and the connections are the rank's own",
        "  fix: ask for collectives in the rank's own process; others may load data",
        "SpecError: the script makes its default process group twice",
        "  fix: call init_process_group() once",
    ]


def test_an_exception_that_ends_the_script_is_told(mistaken: tuple[str, list[dict[str, object]]]) -> None:
    (error,) = (line for line in mistaken[1] if line["kind"] == "error")
    assert (error["error"], error["elsewhere"]) == ("ValueError: no such shard", False)


SPAWNING = """
import torch, torch.distributed as dist, torch.multiprocessing as mp
def main(_):
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(5))
if __name__ == "__main__":
    mp.spawn(main, nprocs=1)
"""


def test_a_rank_that_multiprocessing_starts_tells_all(tmp_path: Path) -> None:
    choose_port(tmp_path)
    one = started(tmp_path, SPAWNING, 0, 1)
    _, errors = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 0, errors
    rows = rank_lines.rows(rank_lines.read(tmp_path / "h0.jsonl"), 0, 0)
    assert rows is not None
    assert [(call.op, call.nbytes) for call in rows.calls] == [("allreduce", 20)]


def test_outside_of_a_trial_importing_torch_imports_nothing_of_ours() -> None:
    look = (
        "import sys, torch; print(sorted(one for one in sys.modules if one.split('.')[0] in ('workloads', 'testbed')))"
    )
    without = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run([sys.executable, "-c", look], env=without, capture_output=True, text=True, check=True)
    assert done.stdout == "['testbed', 'testbed.autoload']\n"


def test_a_script_that_looks_for_the_others_on_its_own_host_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tutorials write it, for ranks on one machine."""
    job = RankJob(0, "h0", 0, 2, "script", "", (), ("10.0.0.1", "10.0.0.2"), 1024, "reno", 1.0, 1.0, "")
    monkeypatch.setattr(os, "environ", {"MASTER_ADDR": "localhost", "RANK": "0", "WORLD_SIZE": "2"})
    _check_environment(job, {"init_method": "tcp://10.0.0.1:9000"})  # where it is not looked at
    with pytest.raises(SpecError) as caught:
        _check_environment(job, {})
    assert str(caught.value) == (
        "the script sets MASTER_ADDR=localhost, and in this trial it is 10.0.0.1\n"
        "  fix: remove that line, or write os.environ.setdefault('MASTER_ADDR', ...)"
    )


def test_a_script_that_starts_ranks_by_itself_is_told_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    job = RankJob(0, "h0", 0, 2, "script", "", (), ("10.0.0.1", "10.0.0.2"), 1024, "reno", 1.0, 1.0, "")
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "the process that called mp.spawn")
    _check(job, {"rank": 0, "world_size": 2})
    with pytest.raises(SpecError) as caught:
        _check(job, {"rank": 1, "world_size": 2})
    assert str(caught.value) == (
        "the script gives init_process_group rank=1, and in this trial it is 0\n"
        "  fix: start one rank, without mp.spawn: testbed starts one on each host"
    )


def test_totals_of_engines_add_up() -> None:
    one = {"wire_bytes": 5, "sent": {1: Sent(3, 5)}}
    more = {"wire_bytes": 7, "sent": {1: Sent(4, 6), 2: Sent(1)}}
    both = {"wire_bytes": 12, "sent": {1: Sent(7, 11), 2: Sent(1)}}
    assert _added(one, more) == both
    assert _added(one, {"wire_bytes": 7, "sent": None}) == {"wire_bytes": None, "sent": None}
