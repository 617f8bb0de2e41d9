"""A script that makes groups and destroys them, again and again, and then its default group once more."""

import gc
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
world = dist.get_world_size()


def kept():
    gc.collect()
    return sum(type(one).__name__ in ("Group", "Operation", "Shape") for one in gc.get_objects())


def come_and_go(times):
    for _ in range(times):
        groups = [dist.new_group(list(range(size))) for size in (2, world)]
        for group in groups:
            if (size := dist.get_world_size(group)) > 0:  # else this rank is no member
                tensor = torch.ones(100)
                dist.all_reduce(tensor, group=group)
                assert (tensor - size).abs().max() < 1e-3
                dist.all_to_all_single(torch.empty(size), tensor[:size], group=group)
                dist.destroy_process_group(group)


come_and_go(3)
before = kept()
come_and_go(20)
end_s = time.monotonic() + 60
while kept() > before + 5:  # for a moment they are looked at for their timeouts
    assert time.monotonic() < end_s, (before, kept())
    time.sleep(0.1)
dist.destroy_process_group()
dist.init_process_group("gloo")
