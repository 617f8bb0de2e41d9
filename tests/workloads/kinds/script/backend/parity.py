"""A script that makes each call of ``torch.distributed`` that CPUs have, and writes what comes of it: numbers, or the
classes of the error. Its last line is JSON."""

# ruff: noqa: B023 - each call is made at once, before the loop goes on

import json
import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

told = {}
dist.init_process_group("gloo", timeout=timedelta(seconds=20))
rank, world, group = dist.get_rank(), dist.get_world_size(), dist.group.WORLD
MAX = dist.ReduceOp.MAX


def plain(value):
    """Return a result as JSON has it."""
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), torch.view_as_real(value).tolist() if value.is_complex() else value.tolist()]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, str | int | float | dict | None) else type(value).__name__


def call(name, ask):
    """Make a call, of which nothing may be left on its way."""
    print(name, flush=True)  # a call that ends the process is the last one
    try:
        told[name] = ["result", plain(ask())]
    except Exception as error:
        told[name] = ["error", [kind.__name__ for kind in type(error).__mro__], str(error)[:200]]


def own(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count).reshape(shape) + 10 * rank).to(dtype)


def into(ask, tensors):
    """Results of a call that writes them into tensors."""
    found = ask()
    if found is not None and not isinstance(found, tuple):  # a work, or a future
        found.wait()
    return tensors


def present(*names):
    """Names that this version of PyTorch has: 2.12 has no ``_single`` calls, and only 2.14 has all."""
    return [name for name in names if hasattr(dist, name)]


def collectives(label, group):
    """The same calls in one group."""
    for kind in ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool", "complex64"):
        dtype = getattr(torch, kind)
        for op in ("SUM", "AVG", "MAX", "MIN", "PRODUCT", "BAND", "BOR", "BXOR"):
            which = getattr(dist.ReduceOp, op)
            call(
                f"{label} all_reduce {kind} {op}",
                lambda: into(lambda: dist.all_reduce(x, which, group), x := own(5, dtype=dtype)),
            )
    for is_async in (False, True):
        more = {"group": group, "async_op": is_async}
        name = f"{label} async={is_async}"
        call(f"{name} broadcast", lambda: into(lambda: dist.broadcast(x, 1, **more), x := own(3, 2)))
        call(f"{name} reduce", lambda: into(lambda: dist.reduce(x, 0, **more), x := own(3))[: 3 * (rank == 0)])
        call(f"{name} reduce MAX", lambda: into(lambda: dist.reduce(x, 1, MAX, **more), x := own(3))[: 3 * (rank == 1)])
        outs = [torch.zeros(4) for _ in range(world)]
        call(f"{name} all_gather", lambda: into(lambda: dist.all_gather(outs, own(4), **more), outs))
        for gather in present("all_gather_into_tensor", "all_gather_single"):
            ask = getattr(dist, gather)
            call(f"{name} {gather}", lambda: into(lambda: ask(x, own(4), **more), x := torch.zeros(4 * world)))
            call(f"{name} {gather} too small", lambda: into(lambda: ask(x, own(4), **more), x := torch.zeros(3)))
        for scatter in present("reduce_scatter_tensor", "reduce_scatter_single"):
            ask = getattr(dist, scatter)
            call(f"{name} {scatter}", lambda: into(lambda: ask(x, own(4 * world), **more), x := torch.zeros(4)))
            call(f"{name} {scatter} too small", lambda: into(lambda: ask(x, own(7), **more), x := torch.zeros(2)))
        parts = [own(3) + part for part in range(world)]
        call(f"{name} reduce_scatter", lambda: into(lambda: dist.reduce_scatter(x, parts, **more), x := torch.zeros(3)))
        call(f"{name} gather", lambda: into(lambda: dist.gather(own(4), outs if rank == 0 else None, 0, **more), outs))
        for gather in present("gather_into_tensor", "gather_single"):
            ask, whole = getattr(dist, gather), torch.zeros(4 * world)
            call(f"{name} {gather}", lambda: into(lambda: ask(own(4), whole if rank == 1 else None, 1, **more), whole))
        call(
            f"{name} scatter",
            lambda: into(lambda: dist.scatter(x, parts if rank == 1 else None, 1, **more), x := own(3)),
        )
        call(f"{name} all_to_all", lambda: into(lambda: dist.all_to_all(outs, [own(4)] * world, **more), outs))
        call(f"{name} all_to_all_single", lambda: into(lambda: dist.all_to_all_single(x, own(4), **more), x := own(4)))
        call(f"{name} barrier", lambda: into(lambda: dist.barrier(**more), []))
        call(
            f"{name} all_reduce_coalesced",
            lambda: into(lambda: dist.all_reduce_coalesced(x, **more), x := [own(3), own(2)]),
        )
        lists = [[torch.zeros(3), torch.zeros(2)] for _ in range(world)]
        call(
            f"{name} all_gather_coalesced",
            lambda: into(lambda: dist.all_gather_coalesced(lists, [own(3), own(2)], **more), lists),
        )
    call(
        f"{label} all_gather_object",
        lambda: into(lambda: dist.all_gather_object(x, {"a": rank}, group=group), x := [None] * world),
    )
    call(
        f"{label} gather_object",
        lambda: into(lambda: dist.gather_object(rank, x if rank == 0 else None, 0, group=group), x := [None] * world),
    )
    call(
        f"{label} broadcast_object_list",
        lambda: into(lambda: dist.broadcast_object_list(x, 0, group=group), x := [rank, "b"]),
    )
    call(
        f"{label} scatter_object_list",
        lambda: into(
            lambda: dist.scatter_object_list(x, ["c", "d"] if rank == 0 else None, 0, group=group), x := [None]
        ),
    )
    call(f"{label} monitored_barrier", lambda: dist.monitored_barrier(group, timedelta(seconds=10)))
    if rank == 0:
        call(f"{label} send", lambda: dist.send(own(3), 1, group, 3))
        call(f"{label} isend", lambda: dist.isend(own(3), 1, group, 4).wait())
        call(f"{label} send_object_list", lambda: dist.send_object_list([1, "x"], 1, group))
    else:
        call(f"{label} recv", lambda: (dist.recv(x := own(3), 0, group, 3), x))
        call(f"{label} irecv", lambda: into(lambda: dist.irecv(x, 0, group, 4), x := own(3)))
        call(f"{label} recv_object_list", lambda: (dist.recv_object_list(x := [None, None], 0, group), x))
    swap = torch.zeros(3)
    ops = [dist.P2POp(dist.isend, own(3), 1 - rank, group), dist.P2POp(dist.irecv, swap, 1 - rank, group)]
    call(f"{label} batch_isend_irecv", lambda: [work.wait() for work in dist.batch_isend_irecv(ops)] and swap)
    call(f"{label} to itself", lambda: dist.send(own(3), rank, group))
    call(f"{label} of meta", lambda: dist.all_reduce(torch.ones(2, device="meta"), group=group))
    call(f"{label} of two types", lambda: dist.all_gather([torch.zeros(4), torch.zeros(4).double()], own(4), group))
    call(f"{label} of two sizes", lambda: dist.all_gather([torch.zeros(4), torch.zeros(3)], own(4), group))
    call(f"{label} of no tensor", lambda: dist.all_reduce(3.0, group=group))
    call(f"{label} sparse", lambda: into(lambda: dist.all_reduce(x, group=group), x := torch.eye(3).to_sparse())[:0])
    call(f"{label} negated", lambda: into(lambda: dist.all_reduce(x, group=group), x := torch._neg_view(own(3))))
    call(f"{label} empty", lambda: into(lambda: dist.all_reduce(x, group=group), x := torch.empty(0)))
    call(f"{label} root of others", lambda: dist.broadcast(own(3), 5, group))


def functional(group):
    """Functional collectives, and what is made of them."""
    for gather in (fc.all_gather_tensor, fc.all_gather_tensor_autograd):
        call(f"fc {gather.__name__}", lambda: fc.wait_tensor(gather(own(2, 2), 1, group)))
    for scatter in (fc.reduce_scatter_tensor, fc.reduce_scatter_tensor_autograd):
        call(f"fc {scatter.__name__}", lambda: fc.wait_tensor(scatter(own(2, 2), "sum", 0, group)))
    for op in ("sum", "avg", "max", "product"):
        call(f"fc all_reduce {op}", lambda: fc.wait_tensor(fc.all_reduce(own(3), op, group)))
    call("fc broadcast", lambda: fc.wait_tensor(fc.broadcast(own(3), 0, group)))
    call(
        "fc all_reduce_coalesced",
        lambda: [*map(fc.wait_tensor, fc.all_reduce_coalesced([own(3), own(2)], "sum", group))],
    )
    call(
        "fc gather_coalesced",
        lambda: [*map(fc.wait_tensor, fc.all_gather_into_tensor_coalesced([own(3), own(2)], group))],
    )
    call(
        "fc scatter_coalesced",
        lambda: [*map(fc.wait_tensor, fc.reduce_scatter_tensor_coalesced([own(4), own(2)], "sum", [0, 0], group))],
    )
    call("fc all_to_all_single", lambda: fc.wait_tensor(fc.all_to_all_single(own(4), [2, 2], [2, 2], group)))
    call("fc permute_tensor", lambda: fc.wait_tensor(fc.permute_tensor(own(4), [1, 0], group)))
    mesh = init_device_mesh("cpu", (world,))
    sharded = distribute_tensor(torch.arange(6.0).reshape(2, 3), mesh, [Shard(0)])
    call("full_tensor", lambda: sharded.full_tensor())
    call("redistribute", lambda: sharded.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()]).to_local())
    call("matmul of shards", lambda: (sharded @ distribute_tensor(torch.ones(3, 2), mesh, [Shard(0)])).full_tensor())


def about(group):
    """Call all by which a script asks a group about itself."""
    for name in ("rank", "size", "name"):
        call(f"group.{name}", getattr(group, name))
    call("type of device", lambda: str(group._device_types))
    call("backend", lambda: [dist.get_backend(group), dist.get_backend_config(group)])
    call(
        "ranks",
        lambda: [dist.get_process_group_ranks(group), dist.get_group_rank(group, 1), dist.get_global_rank(group, 0)],
    )
    call("count", dist.get_pg_count)
    call("node", dist.get_node_local_rank)
    call("names", lambda: [group.group_name, group.group_desc])
    call("subgroups", lambda: len(dist.new_subgroups(1)[1]))
    call("enumeration", lambda: len(dist.new_subgroups_by_enumeration([[0], [1]])[1]))


def compiled():
    """DDP under torch.compile, whose second step rebuilds buckets."""
    torch.manual_seed(0)
    model = torch.compile(DistributedDataParallel(nn.Linear(32, 2)), backend="eager")
    losses, optimiser = [], torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        loss = model(torch.full((4, 32), 1.0 + rank)).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(round(loss.item(), 5))
    return losses


collectives("world", group)
collectives("new", dist.new_group([0, 1]))
functional(group)
about(group)
call("compiled", compiled)
alone = dist.new_group(timeout=timedelta(seconds=1))
call("timeout", lambda: rank or dist.all_reduce(own(3), group=alone))
print(json.dumps(told), flush=True)
dist.distributed_c10d._get_default_store().set(f"over {rank}", "1")
dist.distributed_c10d._get_default_store().wait([f"over {each}" for each in range(world)])
os._exit(0)
