"""A script whose sums C++ asks for: ``python watched.py MAKER WHAT``; run by test_watcher.py.

With ``MAKER`` python, Python makes the rows of all collectives. ``WHAT`` is ``steps``, or ``loss``: rank 1 is gone.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from testbed.workloads.kinds.script.backend import watcher

maker, what = sys.argv[1:]
if maker == "python":
    watcher.load = lambda: None  # type: ignore[assignment]
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)), bucket_cap_mb=0.001)
some = torch.randn(4, 64)
for step in range(8):
    model(some).square().mean().backward()
    dist.all_reduce(torch.ones(step + 1))  # Python asks for it, between those of DDP
pair = dist.new_group([0, 1])
theirs = DistributedDataParallel(nn.Linear(8, 8).double(), process_group=pair)
theirs(torch.ones(2, 8).double()).sum().backward()
print(f"{sum(float(each.grad.double().sum()) for each in model.parameters() if each.grad is not None):.9g}")
if what == "loss":
    if dist.get_rank() == 1:
        os._exit(0)
    try:
        model(some).square().mean().backward()
    except RuntimeError as error:
        print(f"failed: {error}")
else:
    dist.barrier()
    dist.destroy_process_group()
