"""A script that waits for futures by itself, and whose communication hook then chains some."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
tensor = torch.ones(1000)
future = dist.all_reduce(tensor, async_op=True).get_future()
future.wait()
later = dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0].sum())
assert later.wait() == 4000
dist.all_reduce(tensor, async_op=True).get_future()  # and nobody waits
dist.barrier()

model = DistributedDataParallel(torch.nn.Linear(64, 64))
state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1)
store, steps = dist.distributed_c10d._get_default_store(), iter(range(5))


def hook(state, bucket):
    """The second rank asks when the first one has said what is to be done afterwards."""
    key = f"step {next(steps)}"
    if dist.get_rank() == 1:
        store.wait([key])
    future = powerSGD_hook.powerSGD_hook(state, bucket)
    if dist.get_rank() == 0:
        store.set(key, "asked")
    return future


model.register_comm_hook(state, hook)
for _ in range(5):
    model(torch.ones(2, 64)).sum().backward()
dist.destroy_process_group()
