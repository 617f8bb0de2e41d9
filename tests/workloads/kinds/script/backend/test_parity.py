"""Calls of ``torch.distributed`` give what they give with PyTorch's own group: the same numbers, or an error that the
same ``except`` catches."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import distributed_c10d

from tests.workloads.kinds.script.backend.ranks import PLAIN, Ranks, fork

SCRIPT = Path(__file__).with_name("parity.py")
IMPORTS = "torch._dynamo torch._dynamo.backends.debugging torch.distributed.tensor"
WORLD = 2
NO_PARTS = "PyTorch keeps it with the parts of its group, and a group of testbed's has none"
OWN_NAME = "DDP looks into a group called gloo for a part that a group of testbed's has not"
OF_GROUPS = {"group.name": OWN_NAME, "backend": NO_PARTS}
OF_RING = {
    "all_reduce int32 AVG": "Gloo refuses it; testbed divides as NCCL does",
    "all_reduce int64 AVG": "Gloo refuses it; testbed divides as NCCL does",
    "of meta": "PyTorch does nothing, in silence",
    "negated": "PyTorch gives the sum to a copy of the tensor, which nobody has",
}
DIFFERENT: dict[str, dict[str, str]] = {
    "gloo": {},
    "ring": {**OF_GROUPS, **{f"{group} {name}": why for name, why in OF_RING.items() for group in ("world", "new")}},
}
"""Calls whose results differ, by mover, and why."""
LEFT = """
default_pg_timeout destroy_process_group get_backend_impl get_debug_level get_default_backend_for_device
is_backend_available is_gloo_available is_initialized is_mpi_available is_nccl_available is_torchelastic_launched
is_ucc_available is_xccl_available record_comm reduce_op set_timeout shrink_group split_group supports_complex
"""
"""Names of ``torch.distributed`` that make no collective, and ``split_group`` and ``shrink_group``, which are not
compared."""
Told = dict[str, Any]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Told]]:
    """Each rank's words about all calls, by mover; all ranks of all movers run at the same time."""
    several = []
    for mover in (PLAIN, "gloo", "ring"):
        ranks = Ranks(tmp_path_factory.mktemp(mover), f"star(hosts={WORLD})", "ring")
        ranks.library = "" if mover == "ring" else mover
        several.append(ranks)
    ended = fork(several, SCRIPT, imports=IMPORTS)
    for status, said in ended:
        assert status == 0, said
    last = [json.loads(said.splitlines()[-1]) for _, said in ended]
    return {mover: last[WORLD * i : WORLD * (i + 1)] for i, mover in enumerate((PLAIN, "gloo", "ring"))}


def differences(plain: Told, own: Told) -> dict[str, str]:
    """Calls that give something else; an error is the same if it has all classes of PyTorch's."""
    found = {}
    for name, (kind, value, *words) in plain.items():
        own_kind, own_value, *own_words = own[name]
        is_same = own_kind == kind and (set(value) <= set(own_value) if kind == "error" else value == own_value)
        if not is_same:
            found[name] = f"{kind} {value} {words}, and here {own_kind} {own_value} {own_words}"
    return found


@pytest.mark.parametrize("mover", ["gloo", "ring"])
def test_each_call_gives_what_pytorchs_own_group_gives(mover: str, told: dict[str, list[Told]]) -> None:
    for plain, own in zip(told[PLAIN], told[mover], strict=True):
        assert plain.keys() == own.keys()
        found = differences(plain, own)
        assert found.keys() == DIFFERENT[mover].keys(), json.dumps(
            {name: why for name, why in found.items() if name not in DIFFERENT[mover]}, indent=1
        )


def test_nearly_all_calls_have_a_result(told: dict[str, list[Told]]) -> None:
    results = sum(kind == "result" for kind, *_ in told[PLAIN][0].values())
    assert results > 150
    assert told[PLAIN][0]["compiled"][0] == "result"
    assert told[PLAIN][0]["timeout"][1][0] == "RuntimeError"


def test_no_function_of_torch_distributed_is_forgotten() -> None:
    """One that a later PyTorch adds is called, or named here."""
    functions = {name for name in distributed_c10d.__all__ if name.islower()}
    called = {name for name in functions if re.search(rf"\b{name}\b", SCRIPT.read_text())}
    assert functions - called <= set(LEFT.split())  # some are of PyTorch 2.14
