"""A script that makes calls which random_calls.py does not, and looks at what comes of them."""

import os
import time
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist


@contextmanager
def fails(words):
    """What is done in it must end with an error that says this."""
    told = ""
    try:
        yield
    except Exception as error:
        told = str(error)
    assert words in told, f"{told!r} does not say {words!r}"


dist.init_process_group()
rank, world = dist.get_rank(), dist.get_world_size()
assert dist.get_backend() == "gloo"

# A group that asks for Gloo by name is ours, too.
group = dist.new_group([0, 2], backend="gloo")
if rank in (0, 2):
    assert type(group).__name__ == "Group", type(group)
    assert dist.get_backend(group) == "gloo"
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [2.0] * 3
with fails('init_process_group("gloo")'):
    dist.new_group([0, 1], backend="nccl")

# Messages of whoever sends first.
if rank == 0:
    sources = set()
    for _ in range(world - 1):
        tensor = torch.zeros(40_000)
        source = dist.recv(tensor)
        assert tensor.tolist() == [float(source)] * 40_000
        sources.add(source)
    assert sources == set(range(1, world))
else:
    time.sleep(0.1 * rank)
    dist.send(torch.full((40_000,), float(rank)), 0)

# A barrier that says who is late, and ends nothing else.
dist.monitored_barrier(timeout=timedelta(seconds=20))
late = world - 1
if rank != late:
    with fails(f"Ranks {late} failed to pass monitoredBarrier" if rank == 0 else "check rank 0 logs for faulty rank"):
        dist.monitored_barrier(timeout=timedelta(seconds=0.5), wait_all_ranks=True)
dist.barrier()
tensor = torch.ones(1)
dist.all_reduce(tensor)
assert tensor.item() == world

# A forked process has no collectives, and its end is not the rank's.
child = os.fork()
if child == 0:
    with fails("forked"):
        dist.all_reduce(torch.ones(1))
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

# What a rank's script ends with is told to those that wait for it, be they still in the barrier before.
if rank == 1:
    dist.barrier()
    raise ValueError("enough")
with fails("h1 ended with ValueError: enough"):
    dist.barrier()
    dist.all_reduce(torch.ones(100_000))
print("told", flush=True)
