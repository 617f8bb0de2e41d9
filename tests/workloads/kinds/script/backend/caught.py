"""A script that catches the errors of its collectives, and looks at what later ones give. Its argument says whether a
group is also left alone until it times out."""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist

OVERLAPS = "more than one element of the written-to tensor"


def caught(ask):
    """What an error says; nothing where there is none."""
    try:
        ask()
    except (RuntimeError, ValueError) as error:
        return str(error)
    except Exception as error:  # testbed's own
        return f"{type(error).__name__}: {error}"
    return ""


def whole():
    """All ranks still sum."""
    tensor = torch.full((5000,), float(rank))
    dist.all_reduce(tensor)
    assert tensor.tolist() == [sum(range(world))] * 5000


dist.init_process_group("gloo")
rank, world, store = dist.get_rank(), dist.get_world_size(), dist.distributed_c10d._get_default_store()

# A result goes wherever there is memory, and nowhere else.
dist.all_reduce(tensor := torch.ones(1).expand(4))
assert tensor.tolist() == [world] * 4
dist.broadcast(tensor := torch.full((1,), float(rank)).expand(4), 1)
assert tensor.tolist() == [1.0] * 4
dist.reduce(tensor := torch.ones(1).expand(4), 0)
assert rank or tensor.tolist() == [world] * 4
dist.all_reduce(tensor := torch.arange(6.0).reshape(2, 3).t())
assert tensor.tolist() == [[0, 3 * world], [world, 4 * world], [2 * world, 5 * world]]
dist.all_reduce(tensor := torch.inference_mode()(torch.ones)(3))
assert tensor.tolist() == [world] * 3
dist.all_reduce(tensor := torch._neg_view(torch.full((3,), 2.0)))
assert tensor.tolist() == [-2 * (world if sys.argv[1] == "alone" else 1)] * 3  # Gloo adds a copy of it
memory = torch.zeros(2 * world)
dist.all_gather([memory[2 * i : 2 * i + 2 : 2] for i in range(world)], torch.full((1,), float(rank)))
assert memory.tolist() == [number for one in range(world) for number in (one, 0)]
whole()

# What has one place for several numbers is refused where numbers differ: on the rank that has it.
numbers, one_place = torch.arange(4.0), torch.zeros(1).expand(4)
own = one_place if rank == 1 else torch.zeros(4)
for ask in (
    lambda: dist.all_gather([own] * world, numbers),
    lambda: dist.reduce_scatter_tensor(own, torch.ones(4 * world)),
    lambda: dist.all_to_all([own] * world, [numbers] * world),
    lambda: dist.gather(numbers, [own] * world if rank == 1 else None, 1),
):
    said = caught(ask)
    assert (OVERLAPS in said) == (rank == 1), said
    whole()
wide = torch.zeros(1).expand(4 * world) if rank == 1 else torch.zeros(4 * world)
said = caught(lambda: dist.all_gather_into_tensor(wide, numbers))
assert (OVERLAPS in said) == (rank == 1), said
whole()

# No message has gaps.
for ask in (
    lambda: dist.send(torch.zeros(8)[::2], (rank + 1) % world),
    lambda: dist.recv(torch.zeros(8)[::2], (rank + 1) % world),
    lambda: dist.all_to_all_single(torch.zeros(4 * world), torch.zeros(8 * world)[::2]),
):
    assert "contiguous" in caught(ask)
whole()

# Whoever waits too short a time goes on, and so does the collective.
if rank == 0:
    work = dist.all_reduce(tensor := torch.ones(3), async_op=True)
    assert caught(lambda: work.wait(timedelta(seconds=0.05)))
    store.set("has waited", "1")
else:
    store.wait(["has waited"])
    work = dist.all_reduce(tensor := torch.ones(3), async_op=True)
work.wait()
assert tensor.tolist() == [world] * 3
whole()

# What is refused before it is sent.
if sys.argv[1] == "alone":
    assert "a tensor on meta" in caught(lambda: dist.all_reduce(torch.ones(1, device="meta")))
    whole()
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        said = caught(lambda: dist.all_reduce(torch.ones(3), group=group))
        assert "has not ended within its timeout of" in said
        assert "this rank can make no later collective" in said
        for _ in range(2):
            assert "this rank makes no collectives any more" in caught(lambda: dist.all_reduce(torch.ones(3)))
    else:
        assert "has not ended within its timeout" in caught(lambda: dist.all_reduce(torch.ones(3)))
