"""Accelerate's own test scripts, from its wheel, over a scheme, where it is installed.

``test_ddp_comm_hook.py`` is for GPUs: it gives DDP device numbers. So is what ``test_distributed_data_loop.py`` does
with uneven inputs: with Gloo it waits for ever there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workloads.kinds.script.backend.ranks import Ranks, finished

SCRIPT = Path(__file__).with_name("onto_cpu.py")


@pytest.mark.parametrize(
    ("topology", "scheme", "script"),
    [("star(hosts=2)", "ring", "test_ops.py"), ("bcube(n=2,k=1)", "bml", "test_sync.py")],
)
def test_accelerates_scripts_pass(topology: str, scheme: str, script: str, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    finished(Ranks(tmp_path, topology, scheme).start(SCRIPT, script))
