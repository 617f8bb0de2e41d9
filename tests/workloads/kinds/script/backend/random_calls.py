"""A script that asks for random collectives and knows what must come of each. Its arguments are how many, a seed, and
by how much floats may be off where switches add in fixed point; and the most numbers of a collective, if others than
20,000.

Every rank draws the same collectives, and knows the numbers of all ranks, so nothing is compared over the network.
"""

import random
import sys

import torch
import torch.distributed as dist

COUNT, SEED, OFF = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
FLOATS, WHOLE = (torch.float32, torch.float64, torch.float16, torch.bfloat16), (torch.int32, torch.int64)
LARGEST = int(sys.argv[4]) if len(sys.argv) > 4 else 20_000
waiting = []


def numbers(seed, rank, count, dtype):
    """A rank's numbers: small whole ones, whose sums every type has exactly."""
    draw = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(-8, 8, (count,), generator=draw).to(dtype)


def same(found, expected, what):
    expected = expected.to(found.dtype)
    right = (
        torch.allclose(found, expected, rtol=OFF, atol=OFF)
        if OFF and found.dtype in FLOATS
        else torch.equal(found, expected)
    )
    assert right, f"{what}: {found[:5]} is not {expected[:5]}"


def ask(seed, draw, members, group):
    """One collective of a group; what to look at afterwards."""
    rank, size = members.index(dist.get_rank()), len(members)
    dtype, count = draw.choice(FLOATS + WHOLE), draw.choice((1, 7, 1000, draw.randint(1, LARGEST)))
    root, is_async = draw.randrange(size), draw.random() < 0.5
    kind = draw.choice(KINDS)
    all_of = [numbers(seed, one, count, dtype) for one in range(size)]
    own, total, what = (
        all_of[rank].clone(),
        sum(one.to(torch.float64) for one in all_of),
        f"{seed} {kind} {count} {dtype}",
    )
    if kind == "allreduce":
        strided = draw.random() < 0.3
        tensor = own.repeat_interleave(2)[::2] if strided else own
        return dist.all_reduce(tensor, group=group, async_op=is_async), lambda: same(tensor, total, what)
    if kind == "avg":
        work = dist.all_reduce(own, dist.ReduceOp.AVG, group=group, async_op=is_async)
        mean = total.to(dtype) / size if dtype in FLOATS else torch.div(total, size, rounding_mode="trunc")
        return work, lambda: same(own, mean, what)
    if kind == "max":
        work = dist.all_reduce(own, dist.ReduceOp.MAX, group=group, async_op=is_async)
        return work, lambda: same(own, torch.stack(all_of).amax(0), what)
    if kind == "broadcast":
        work = dist.broadcast(own, members[root], group=group, async_op=is_async)
        return work, lambda: same(own, all_of[root], what)
    if kind == "reduce":
        work = dist.reduce(own, members[root], group=group, async_op=is_async)
        return work, lambda: same(own, total if rank == root else all_of[rank], what)
    if kind == "all_gather":
        found = [torch.empty_like(own) for _ in range(size)]
        work = dist.all_gather(found, own, group=group, async_op=is_async)
        return work, lambda: same(torch.cat(found), torch.cat(all_of), what)
    if kind == "all_gather_into":
        found = torch.empty(size * count, dtype=dtype)
        work = dist.all_gather_into_tensor(found, own, group=group, async_op=is_async)
        return work, lambda: same(found, torch.cat(all_of), what)
    if kind == "reduce_scatter":
        wide = [numbers(seed, one, size * count, dtype) for one in range(size)]
        found = torch.empty_like(own)
        work = dist.reduce_scatter_tensor(found, wide[rank], group=group, async_op=is_async)
        expected = sum(one.to(torch.float64) for one in wide)[rank * count : (rank + 1) * count]
        return work, lambda: same(found, expected, what)
    if kind == "all_to_all":
        wide = [numbers(seed, one, size * count, dtype) for one in range(size)]
        found = torch.empty(size * count, dtype=dtype)
        work = dist.all_to_all_single(found, wide[rank], group=group, async_op=is_async)
        return work, lambda: same(found, torch.cat([one[rank * count : (rank + 1) * count] for one in wide]), what)
    if kind == "gather":
        found = [torch.empty_like(own) for _ in range(size)] if rank == root else None
        work = dist.gather(own, found, members[root], group=group, async_op=is_async)
        return work, lambda: found is None or same(torch.cat(found), torch.cat(all_of), what)
    if kind == "scatter":
        found = torch.empty_like(own)
        work = dist.scatter(found, all_of if rank == root else None, members[root], group=group, async_op=is_async)
        return work, lambda: same(found, all_of[rank], what)
    if kind == "send":
        if size == 1 or rank not in (root, (root + 1) % size):
            return None, lambda: None
        to, start = (root + 1) % size, root
        move = (dist.isend if is_async else dist.send) if rank == start else (dist.irecv if is_async else dist.recv)
        work = move(own, members[to if rank == start else start], group=group)
        return work if is_async else None, lambda: same(own, all_of[start], what)
    return dist.barrier(group=group, async_op=is_async), lambda: None


KINDS = ("allreduce", "allreduce", "allreduce", "avg", "max", "broadcast", "reduce", "all_gather", "all_gather_into")
KINDS += ("reduce_scatter", "all_to_all", "gather", "scatter", "send", "barrier")


def main():
    dist.init_process_group()
    world = dist.get_world_size()
    members = [list(range(world)), list(range(world - 1)), [0, world - 1]]
    groups = [dist.group.WORLD, *(dist.new_group(one) for one in members[1:])]
    draw = random.Random(SEED)
    for number in range(COUNT):
        which, state = draw.randrange(len(groups)), draw.random()
        own_draw = random.Random(state)
        if dist.get_rank() not in members[which]:
            continue
        work, look = ask(number, own_draw, members[which], groups[which])
        waiting.append((work, look))
        if draw_wait(state):
            finish()
    finish()
    dist.barrier()
    dist.destroy_process_group()
    print("all right", flush=True)


def draw_wait(state):
    return int(state * 1e6) % 3 == 0


def finish():
    for work, look in waiting:
        if work is not None:
            work.wait()
        look()
    waiting.clear()


main()
