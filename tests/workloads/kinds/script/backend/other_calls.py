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

# Parts of any size, also of none.
ins, outs = [rank * other for other in range(world)], [other * rank for other in range(world)]
tensor = torch.empty(sum(outs))
dist.all_to_all_single(tensor, torch.full((sum(ins),), float(rank)), outs, ins)
assert tensor.tolist() == [float(other) for other in range(world) for _ in range(other * rank)]

# A sum that is too large for its type, of arrays that are not.
tensor = torch.full((4,), 60_000.0, dtype=torch.float16)
dist.all_reduce(tensor)
assert tensor.isinf().all()

# A barrier that says who is late, and ends nothing else.
dist.monitored_barrier(timeout=timedelta(seconds=20))
late = world - 1
if rank == late:
    time.sleep(1.0)
with fails(f"Ranks {late} failed to pass monitoredBarrier" if rank == 0 else "check rank 0 logs for faulty rank"):
    dist.monitored_barrier(timeout=timedelta(seconds=0.5), wait_all_ranks=True)
dist.monitored_barrier(timeout=timedelta(seconds=20))
tensor = torch.ones(1)
dist.all_reduce(tensor)
assert tensor.item() == world

# What cannot be moved is refused, and whoever asked may go on.
with fails("a tensor on meta in a collective"):
    dist.all_reduce(torch.ones(1, device="meta"))
with fails("a tensor on meta in a collective"):
    dist.all_reduce(torch.ones(1, device="meta"), dist.ReduceOp.MAX)
with fails("a collective of 2,147,483,652 bytes"):
    dist.all_reduce(torch.ones(1).expand(2**29 + 1), dist.ReduceOp.MIN)
with fails("reduce_scatter with an array of 7 numbers where the group's ranks need 8"):
    dist.reduce_scatter_tensor(torch.empty(2), torch.ones(7))
with fails("all_gather with an array of 3 numbers where the group's ranks need 2"):
    dist.all_gather([torch.empty(2), torch.empty(3), torch.empty(2), torch.empty(2)], torch.ones(2))
tensor = torch.full((3,), rank)
dist.all_reduce(tensor, dist.ReduceOp.AVG)
assert tensor.tolist() == [1] * 3  # 6 // 4

# Whoever waits for a while goes on when that is over, and so does the collective.
if rank == 0:
    work = dist.all_reduce(tensor, async_op=True)
    with fails("within the 0.2 s that the script waits"):
        work.wait(timedelta(seconds=0.2))
dist.monitored_barrier()
if rank != 0:
    work = dist.all_reduce(tensor, async_op=True)
work.wait()
assert tensor.tolist() == [4] * 3

# A forked process has no collectives, and its end is not the rank's.
child = os.fork()
if child == 0:
    with fails("forked"):
        dist.all_reduce(torch.ones(1))
    with fails("forked"):
        dist.all_reduce(torch.ones(1), dist.ReduceOp.MAX)
    with fails("forked"):
        dist.new_group(list(range(world)))
    dist.destroy_process_group()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

# A group may be made again.
dist.destroy_process_group()
dist.init_process_group("gloo")
tensor = torch.ones(100)
dist.all_reduce(tensor)
assert tensor.tolist() == [world] * 100

# What a rank's script ends with is told to those that wait for it, be they still in the barrier before.
if rank == 1:
    dist.barrier()
    raise ValueError("enough")
with fails("h1 ended with ValueError: enough"):
    dist.barrier()
    dist.all_reduce(torch.ones(100_000))
print("told", flush=True)
