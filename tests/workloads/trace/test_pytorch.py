"""Host traces of PyTorch's, made in the shape that ExecutionTraceObserver writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import SpecError
from testbed.workloads.trace import pytorch
from testbed.workloads.trace.graph import Collective
from tests.ports import blocks


def _tensor(elements: int) -> list[Any]:
    return [1, 2, 0, elements, 4, "cpu"]


def _node(number: int, name: str, values: list[Any]) -> dict[str, Any]:
    return {"id": number, "name": name, "ctrl_deps": 1, "inputs": {"values": values}, "attrs": []}


def _content(*nodes: dict[str, Any]) -> bytes:
    return json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": list(nodes)}).encode()


def test_collectives_are_found_in_the_order_in_which_they_were_asked_for() -> None:
    content = _content(
        _node(9, "c10d::_allgather_base_", [_tensor(16), _tensor(8), "<Object>"]),
        _node(5, "c10d::allreduce_", [[_tensor(2212), _tensor(1)], "<Object>"]),
        _node(4, "aten::mul", []),
        _node(7, "c10d::broadcast_", [[_tensor(5)], "<Object>", 1, 0]),
    )
    read, groups = pytorch.read(content, "et.0.json")
    assert [(node.id, node.collective, node.bytes, node.root, node.control) for node in read.nodes] == [
        (5, Collective.ALL_REDUCE, 4 * 2213, 0, ()),
        (7, Collective.BROADCAST, 20, 1, (5,)),
        (9, Collective.ALL_GATHER, 32, 0, (7,)),
    ]
    assert groups == {}
    assert read.odd == {"operators that compute, without a time": 1}


def test_a_scatter_has_what_its_root_gives_on_all_ranks() -> None:
    """Only the root's trace has the arrays that it gives."""
    init = _node(3, pytorch.GROUPS, [json.dumps([{"pg_name": "0", "ranks": [], "group_size": 3}])])
    gather = _node(4, "c10d::gather_", [[], [_tensor(8)], "<Object>", 1, False, -1])
    scatter = _node(5, "c10d::scatter_", [[_tensor(8)], [], "<Object>", 1, False, -1])
    read, _ = pytorch.read(_content(init, gather, scatter), "et.0.json")
    assert [(node.collective, node.bytes, node.root) for node in read.nodes] == [
        (Collective.GATHER, 32, 1),
        (Collective.SCATTER, 96, 1),
    ]


def test_groups_are_text_within_text_and_one_of_all_ranks_lists_none() -> None:
    told = json.dumps([{"pg_name": "0", "ranks": [], "group_size": 4}, {"pg_name": "1", "ranks": [1, 3]}])
    init = _node(3, pytorch.GROUPS, [told])
    _, groups = pytorch.read(_content(init), "et.0.json")
    assert groups == {"0": (0, 1, 2, 3), "1": (1, 3)}
    read, _ = pytorch.read(_content(init, _node(4, "c10d::allreduce_", [[_tensor(8)], "<Object>"])), "et.0.json")
    assert read.odd == {"collectives whose group the trace does not tell, taken to be of all ranks": 1}
    large = json.dumps([{"pg_name": "0", "ranks": [], "group_size": 10**15}])
    assert pytorch.read(_content(_node(3, pytorch.GROUPS, [large])), "et.0.json")[1] == {}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "et.0.json: is no trace: not JSON that is read"),
        (b"[1]", "et.0.json: is no trace: it has no list of nodes"),
        (_content(_node(3, "c10d::recv_any_source_", [])), "et.0.json: node 3 is c10d::recv_any_source_, which is not"),
        (_content(_node(3, "c10d::scatter_", [])), "et.0.json: node 3 (c10d::scatter_): nothing before it tells how"),
        (_content(_node(3, "c10d::allreduce_", [])), "et.0.json: node 3 (c10d::allreduce_) gives an array of 0 bytes"),
        (
            _content(_node(3, pytorch.GROUPS, ['[{"ranks": [], "group_size": 2}, {"ranks": [], "group_size": 3}]'])),
            "et.0.json: ## process_group:init ## has groups of all 2 ranks and of all 3",
        ),
        (_content({"id": "x", "name": "c10d::allreduce_"}), "et.0.json: a node has the id 'x'"),
        (_content({"id": 1, "name": "c10d::allreduce_"}), "et.0.json: node 1 (c10d::allreduce_) has no inputs"),
    ],
)
def test_what_is_no_trace_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        pytorch.read(content, "et.0.json")
    assert caught.value.problem.startswith(told)


OBSERVED = """
import os
import torch, torch.distributed as dist
from torch.profiler import ExecutionTraceObserver
os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "%s"}
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 32))
observer = ExecutionTraceObserver()
observer.register_callback("et.0.json")
observer.start()
for _ in range(2):
    model(torch.ones(8, 64)).sum().backward()
observer.stop()
observer.unregister_callback()
dist.destroy_process_group()
"""


def test_every_sum_of_ddp_is_found_with_its_bytes(tmp_path: Path) -> None:
    """Chakra's own converter knows NCCL's names only, and makes all of such a trace nodes that compute."""
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    code = OBSERVED % next(blocks(1))
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment, check=True, timeout=60)
    read, _ = pytorch.read((tmp_path / "et.0.json").read_bytes(), "et.0.json")
    sums = [node.bytes for node in read.nodes if node.collective == Collective.ALL_REDUCE]
    assert sums == [4 * (64 * 32 + 32)] * 2
